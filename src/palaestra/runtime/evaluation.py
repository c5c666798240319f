"""How well models play: returns of a number of episodes, none of which is chosen by how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.brains.model import Policy
from palaestra.core.errors import PolicyError
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Episodes of one behavior."""

    returns: NDArray[np.float64]  # (E,)
    lengths: NDArray[np.int64]  # (E,) decisions

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return float(self.returns.std(ddof=1) / np.sqrt(len(self.returns))) if len(self.returns) > 1 else 0.0


class Player:
    """Plays one behavior and counts its episodes.

    Each slot has a share of the episodes and counts its first ones: taking the first that end,
    whichever slots they are in, would favor short ones.
    """

    def __init__(self, spec: BehaviorSpec, policy: Policy, step: TimeStep, episodes: int, deterministic: bool) -> None:
        self.spec, self.policy, self.deterministic = spec, policy, deterministic
        slots = len(step.reward)
        self._share = np.full(slots, episodes // slots)
        self._share[: episodes % slots] += 1
        self._return, self._length = np.zeros(slots), np.zeros(slots, np.int64)
        self._memory = np.zeros((slots, policy.memory_size), np.float32) if policy.memory_size else None
        self.returns: list[float] = []
        self.lengths: list[int] = []

    @property
    def done(self) -> bool:
        """Every slot has played its share."""
        return not self._share.any()

    def act(self, step: TimeStep) -> Action:
        """Actions for all slots."""
        obs = [x.cpu().numpy() for x in step.obs]
        mask = None if step.action_mask is None else step.action_mask.cpu().numpy()
        action = self.policy.act(obs, mask, deterministic=self.deterministic, memory=self._memory)
        self._memory = action.memory
        rows, device = len(step.reward), step.reward.device
        continuous = np.zeros((rows, 0), np.float32) if action.continuous is None else action.continuous.clip(-1, 1)
        discrete = np.zeros((rows, 0), np.int64) if action.discrete is None else action.discrete
        return Action(torch.from_numpy(continuous).to(device), torch.from_numpy(discrete).to(device))

    def note(self, step: TimeStep) -> None:
        """Counts what came of it."""
        ended = (step.terminated | step.truncated).cpu().numpy()
        self._return += step.reward.cpu().numpy() + step.group_reward.cpu().numpy()
        self._length += 1
        for slot in (ended & (self._share > 0)).nonzero()[0]:
            self.returns.append(float(self._return[slot]))
            self.lengths.append(int(self._length[slot]))
        self._share[ended & (self._share > 0)] -= 1
        self._return[ended] = self._length[ended] = 0
        if self._memory is not None:
            self._memory[ended] = 0


def evaluate(
    env: Env,
    policies: Mapping[str, Policy],
    episodes: int = 100,
    *,
    deterministic: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Evaluation]:
    """Plays `episodes` of each behavior that has a policy. Raises PolicyError where a behavior of the environment has none."""
    steps = env.reset(seed)
    missing = [name for name in steps if name not in policies]
    if missing:
        raise PolicyError(f"the environment has the behavior '{missing[0]}', for which there is no model (models: {', '.join(policies)})")
    players = {name: Player(env.behaviors[name], policies[name], step, episodes, deterministic) for name, step in steps.items()}
    while not all(player.done for player in players.values()):
        steps = env.step({name: players[name].act(step) for name, step in steps.items()})
        for name, step in steps.items():
            players[name].note(step)
        if progress is not None:
            progress(min(len(player.returns) for player in players.values()))
    return {name: Evaluation(np.array(player.returns), np.array(player.lengths)) for name, player in players.items()}
