"""Inspects one agent: its observations, its brain's probability of each action, the value of its state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.brains.base import Seen
from palaestra.brains.checked import CheckedBrain, unseen
from palaestra.brains.model import Policy
from palaestra.brains.trained import ModelBrain
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.ray_fans import RayFan, RayHit
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.critic_only.asymmetric import AsymmetricActorCritic
from palaestra.models.trunk import Trunk
from palaestra.runtime.playback.agent_history import Moment
from palaestra.runtime.playback.playing import Playback

GAUSSIAN = 0.5 * math.log(2 * math.pi * math.e)
"""Entropy of a Gaussian with a standard deviation of 1."""
SAMPLES = 256
"""Actions that are drawn from a model to estimate its distribution, as a model's file has no probabilities."""


Distributions = tuple[list[tuple[float, float]], list[list[float]]]
"""Mean and standard deviation of each continuous action; probability of each choice of each branch."""


@dataclass(frozen=True, slots=True)
class AgentInspection:
    """One agent at one tick."""

    behavior: str
    slot: int
    team: int
    obs: dict[str, NDArray[np.float32]]
    """Observations by name, each in the shape of its spec."""
    reward: float
    """Reward in the current episode."""
    length: int
    """Ticks in the current episode."""
    continuous: list[tuple[float, float]] = field(default_factory=list)
    """Mean and standard deviation of each continuous action, estimated from sampled actions."""
    discrete: list[list[float]] = field(default_factory=list)
    """Probability of each choice of each branch, estimated from sampled actions."""
    rays: list[tuple[RayFan, list[RayHit]]] = field(default_factory=list)
    """Ray sensors and their hits."""
    value: float | None = None
    """Return that the critic expects from now on; None without a critic."""
    unseen: frozenset[str] = frozenset()
    """Names of the observations that its model does not see, such as those for the critic alone."""


class Inspector:
    """Inspects agents of one playback. Keeps networks of checkpoints and copies of models that it has loaded."""

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self.networks: dict[str, Trunk] = {}
        """Network of each behavior, from a checkpoint; without one there is no value, and actions are sampled."""
        self._copies: dict[Path, ModelBrain] = {}

    def look(self, behavior: str, slot: int) -> AgentInspection | None:
        """Returns all facts about an agent; None if it has left."""
        game = self._playback.game
        step = None if game is None else game.steps.get(behavior)
        if game is None or step is None or slot >= len(step.reward):
            return None
        spec = game.env.behaviors[behavior]
        team = int(step.team[slot])
        obs = {part.name: column[slot].cpu().numpy() for part, column in zip(spec.obs, step.obs, strict=True)}
        reward, length = (
            float(column[behavior][slot]) if behavior in column else 0.0
            for column in (game.tally.returns, game.tally.lengths)
        )
        network = self.networks.get(behavior)
        brain = game.brains.brain(behavior, team)
        if self._computes(network, spec):
            said = _computed(cast(ActorCritic, network), step, slot)
            continuous = list(zip(said.mean[0].tolist(), said.deviation.tolist(), strict=True))
            discrete = [branch[0].tolist() for branch in said.choices]
            value = float(said.value[0])
        else:
            (continuous, discrete), value = self._sampled(brain, spec, step, slot), None
        rays = [(fan, fan.hits(values)) for fan, values in game.rays(behavior, slot)]
        return AgentInspection(
            behavior, slot, team, obs, reward, int(length), continuous, discrete, rays, value, unseen(brain, spec)
        )

    def look_back(self, found: AgentInspection, moment: Moment) -> AgentInspection:
        """Returns an agent at an earlier moment; `found` is its current state."""
        game = self._playback.game
        assert game is not None
        spec = game.env.behaviors[found.behavior]
        obs = {part.name: column for part, column in zip(spec.obs, moment.obs, strict=True)}
        rays = [(fan, fan.hits(obs[fan.obs])) for fan, _ in found.rays]
        said = self.of_history(found.behavior, [moment])
        if said is None:
            return replace(found, obs=obs, rays=rays, reward=moment.reward, value=None)
        continuous = list(zip(said.mean[0].tolist(), said.deviation.tolist(), strict=True))
        discrete = [branch[0].tolist() for branch in said.choices]
        value = float(said.value[0])
        return replace(
            found, obs=obs, rays=rays, reward=moment.reward, value=value, continuous=continuous, discrete=discrete
        )

    def of_history(self, behavior: str, moments: Sequence[Moment]) -> Sayings | None:
        """Returns the outputs of a checkpoint's network for an agent's last ticks; None without network, or if it has
        memory."""
        game, network = self._playback.game, self.networks.get(behavior)
        if game is None or not moments or not self._computes(network, game.env.behaviors[behavior]):
            return None
        obs = tuple(torch.from_numpy(np.stack(column)) for column in zip(*(one.obs for one in moments), strict=True))
        masks = [one.mask for one in moments if one.mask is not None]
        mask = torch.from_numpy(np.stack(masks)) if len(masks) == len(moments) else None
        return said_by(cast(ActorCritic, network), obs, mask)

    @staticmethod
    def _computes(network: Trunk | None, spec: BehaviorSpec) -> bool:
        """Whether a network without memory gives values and distributions for all observations of an agent."""
        # one of a critic that sees more has the members of an ActorCritic
        whole = network.whole if isinstance(network, AsymmetricActorCritic) else getattr(network, "spec", None)
        on_policy = isinstance(network, ActorCritic | AsymmetricActorCritic)
        return on_policy and not network.memory_size and whole == spec

    def _sampled(self, brain: object, spec: BehaviorSpec, step: TimeStep, slot: int) -> Distributions:
        """Samples actions of a model for this agent; other brains, and models with memory, have no distribution."""
        model = brain.brain if isinstance(brain, CheckedBrain) else brain
        if not isinstance(model, ModelBrain) or model.policy.memory_size:
            return [], []
        path = model.policy.path
        if path not in self._copies:  # looking must not change the random numbers of what is played
            self._copies = {path: ModelBrain(Policy(path, 0), "", spec, deterministic=False)}
        rows = np.full(SAMPLES, slot)
        mask = None if step.action_mask is None else step.action_mask.cpu().numpy()[rows]
        obs = tuple(column[slot].cpu().numpy()[None].repeat(SAMPLES, 0) for column in step.obs)
        choice = self._copies[path].decide(Seen(rows, obs, mask, step.team.cpu().numpy()[rows]))
        sizes = spec.action.branches
        discrete = [
            (np.bincount(column, minlength=size) / SAMPLES).tolist()
            for column, size in zip(choice.discrete.T, sizes, strict=True)
        ]
        return [(float(column.mean()), float(column.std())) for column in choice.continuous.T], discrete


def _computed(network: ActorCritic, step: TimeStep, slot: int) -> Sayings:
    mask = None if step.action_mask is None else step.action_mask[slot : slot + 1].cpu()
    return said_by(network, tuple(column[slot : slot + 1].cpu() for column in step.obs), mask)


@dataclass(frozen=True, slots=True)
class Sayings:
    """Distributions and values that a network gives for N observations."""

    mean: Tensor
    """Mean of each continuous action, (N, continuous), in the environment's scale."""
    deviation: Tensor
    """Standard deviation of each continuous action, (continuous,)."""
    choices: list[Tensor]
    """Probability of each choice, (N, choices) each."""
    value: Tensor
    """(N,), the sum of the values of all reward signals."""
    entropy: Tensor
    """(N,), of all actions together."""


@torch.no_grad()
def said_by(network: ActorCritic, obs: tuple[Tensor, ...], mask: Tensor | None) -> Sayings:
    """Returns the distributions and values of a network without memory for observations (N, *shape)."""
    inputs = network.prepare(obs)
    output = network.act(inputs)
    mean = network.played(output).clamp(-1, 1)
    unit = Action(network.log_std.exp()[None], torch.zeros(1, 0, dtype=torch.int64))
    deviation = network.for_environment(unit).continuous[0] if mean.shape[1] else mean.new_zeros(0)
    logs = network.branch_log_probs(output, mask)
    entropy = (network.log_std + GAUSSIAN).sum().expand(len(mean)) if mean.shape[1] else mean.new_zeros(len(mean))
    for branch in logs:
        entropy = entropy - (branch.exp() * branch.clamp(min=-1e9)).sum(1)
    return Sayings(mean, deviation, [branch.exp() for branch in logs], network.value(inputs).sum(1), entropy)
