"""Looks into one agent: what it observes, how likely its brain takes each action, how it values its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

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
from palaestra.runtime.playback.playing import Playback

SAMPLES = 256
"""Actions that are drawn from a model for its distribution: a model's file has no probabilities."""


Distributions = tuple[list[tuple[float, float]], list[list[float]]]
"""Mean and standard deviation of each continuous action; probability of each choice of each branch."""


@dataclass(frozen=True, slots=True)
class AgentInspection:
    """One agent at one tick."""

    behavior: str
    slot: int
    team: int
    obs: dict[str, NDArray[np.float32]]
    """Observations by name, in the shape of their spec."""
    reward: float
    """Reward of the episode so far."""
    length: int
    """Ticks of the episode so far."""
    continuous: list[tuple[float, float]] = field(default_factory=list)
    """Mean and standard deviation of each continuous action, as sampled for the environment."""
    discrete: list[list[float]] = field(default_factory=list)
    """Probability of each choice of each branch, as sampled."""
    rays: list[tuple[RayFan, list[RayHit]]] = field(default_factory=list)
    """Ray sensors and what they hit."""
    value: float | None = None
    """Value that the critic expects from here on; None without a critic."""
    unseen: frozenset[str] = frozenset()
    """Names of the observations that its model does not see, such as those for the critic alone."""


class Inspector:
    """Looks into agents of one playback. Keeps networks of checkpoints and copies of models that it has loaded."""

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self.networks: dict[str, Trunk] = {}
        """Network of each behavior, from a checkpoint; without one there is no value, and actions are sampled."""
        self._copies: dict[Path, ModelBrain] = {}

    def look(self, behavior: str, slot: int) -> AgentInspection | None:
        """Returns what there is to know of an agent; None if it has gone."""
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
        # one of a critic that sees more has the members of an ActorCritic
        whole = network.whole if isinstance(network, AsymmetricActorCritic) else getattr(network, "spec", None)
        on_policy = isinstance(network, ActorCritic | AsymmetricActorCritic)
        if on_policy and not network.memory_size and whole == spec:
            continuous, discrete, value = _computed(cast(ActorCritic, network), step, slot)
        else:
            (continuous, discrete), value = self._sampled(brain, spec, step, slot), None
        rays = [(fan, fan.hits(values)) for fan, values in game.rays(behavior, slot)]
        return AgentInspection(
            behavior, slot, team, obs, reward, int(length), continuous, discrete, rays, value, unseen(brain, spec)
        )

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


def _computed(
    network: ActorCritic, step: TimeStep, slot: int
) -> tuple[list[tuple[float, float]], list[list[float]], float]:
    """Returns the distributions, and the sum of the values of all reward signals."""
    with torch.no_grad():
        inputs = network.prepare(tuple(column[slot : slot + 1].cpu() for column in step.obs))
        output = network.act(inputs)
        mask = None if step.action_mask is None else step.action_mask[slot : slot + 1].cpu()
        mean = network.played(output)[0].clamp(-1, 1)
        unit = Action(network.log_std.exp()[None], torch.zeros(1, 0, dtype=torch.int64))
        deviation = network.for_environment(unit).continuous[0] if len(mean) else mean
        discrete = [branch.exp()[0].tolist() for branch in network.branch_log_probs(output, mask)]
        return list(zip(mean.tolist(), deviation.tolist(), strict=True)), discrete, float(network.value(inputs).sum())
