"""How well models play: returns of a number of episodes, none of which is chosen by how it went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.brains.model import Policy
from palaestra.core.errors import PolicyError
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

    It counts those that began first, however late they end: taking the first that end would favor short ones.
    """

    def __init__(self, policy: Policy, step: TimeStep, episodes: int, deterministic: bool) -> None:
        self.policy, self.deterministic = policy, deterministic
        self._episodes, self._begun = episodes, 0
        self._return, self._length = np.zeros(0), np.zeros(0, np.int64)
        self._playing, self._counted, self._waiting = (np.zeros(0, bool) for _ in range(3))  # waiting: decided, not settled
        self._memory = np.zeros((0, policy.memory_size), np.float32)
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self._seat(step)

    @property
    def done(self) -> bool:
        """All its episodes have ended."""
        return len(self.returns) >= self._episodes

    def act(self, step: TimeStep) -> Action:
        """Actions for the acting slots; zeros elsewhere."""
        rows = step.acting.cpu().numpy().nonzero()[0]
        slots, policy = len(step.reward), self.policy
        continuous, discrete = np.zeros((slots, policy.continuous_size), np.float32), np.zeros((slots, len(policy.branches)), np.int64)
        if len(rows):
            obs = [x.cpu().numpy()[rows] for x in step.obs]
            mask = None if step.action_mask is None else step.action_mask.cpu().numpy()[rows]
            memory = self._memory[rows] if policy.memory_size else None
            action = policy.act(obs, mask, deterministic=self.deterministic, memory=memory)
            if action.continuous is not None:
                continuous[rows] = action.continuous.clip(-1, 1)
            if action.discrete is not None:
                discrete[rows] = action.discrete
            if action.memory is not None:
                self._memory[rows] = action.memory
        self._waiting[rows] = True
        device = step.reward.device
        return Action(torch.from_numpy(continuous).to(device), torch.from_numpy(discrete).to(device))

    def note(self, step: TimeStep) -> None:
        """Counts what came of it."""
        self._widen(len(step.reward))
        if step.lost is not None:
            self._forget(step.lost.cpu().numpy())
        acting, ended = step.acting.cpu().numpy(), (step.terminated | step.truncated).cpu().numpy()
        settled = self._waiting & (acting | ended)
        self._return[settled] += (step.reward.cpu().numpy() + step.group_reward.cpu().numpy())[settled]
        self._length[settled] += 1
        self._waiting &= ~settled
        for slot in (ended & self._counted).nonzero()[0]:
            self.returns.append(float(self._return[slot]))
            self.lengths.append(int(self._length[slot]))
        self._return[ended] = self._length[ended] = 0
        self._playing[ended] = self._counted[ended] = False
        self._memory[ended] = 0
        self._seat(step)

    def _forget(self, lost: NDArray[np.bool_]) -> None:
        """Episodes that broke off say nothing of the policy: others are counted in their stead."""
        self._begun -= int((lost & self._counted).sum())
        self._return[lost] = self._length[lost] = 0
        self._memory[lost] = 0
        for flags in (self._playing, self._counted, self._waiting):
            flags &= ~lost

    def _seat(self, step: TimeStep) -> None:
        """Episodes that begin on this tick; the lowest slots count where not all do."""
        self._widen(len(step.reward))
        new = (step.acting.cpu().numpy() & ~self._playing).nonzero()[0]
        self._playing[new] = True
        self._counted[new[: self._episodes - self._begun]] = True
        self._begun = min(self._begun + len(new), self._episodes)

    def _widen(self, slots: int) -> None:
        more = slots - len(self._return)
        if more > 0:
            self._return, self._length = np.pad(self._return, (0, more)), np.pad(self._length, (0, more))
            self._playing, self._counted = np.pad(self._playing, (0, more)), np.pad(self._counted, (0, more))
            self._waiting, self._memory = np.pad(self._waiting, (0, more)), np.pad(self._memory, ((0, more), (0, 0)))


class Players:
    """A Player for each behavior, from its first table on.

    `episodes` tells from that table how many episodes of the behavior count.
    """

    def __init__(self, policies: Mapping[str, Policy], episodes: Callable[[TimeStep], int], deterministic: bool) -> None:
        self._policies, self._episodes, self._deterministic = policies, episodes, deterministic
        self.by_behavior: dict[str, Player] = {}

    @property
    def done(self) -> bool:
        """All episodes of all behaviors seen so far have ended."""
        return bool(self.by_behavior) and all(player.done for player in self.by_behavior.values())

    def act(self, steps: Mapping[str, TimeStep]) -> dict[str, Action]:
        """What the agents of each behavior do."""
        return {name: self.by_behavior[name].act(step) for name, step in steps.items()}

    def note(self, steps: Mapping[str, TimeStep]) -> None:
        """Takes in the tables of a tick, those of reset first. Raises PolicyError for a behavior without a model."""
        for name, step in steps.items():
            if name in self.by_behavior:
                self.by_behavior[name].note(step)
            elif name in self._policies:
                self.by_behavior[name] = Player(self._policies[name], step, self._episodes(step), self._deterministic)
            else:
                models = ", ".join(self._policies) or "none"
                raise PolicyError(f"the environment has the behavior '{name}', for which there is no model (models: {models})")


def evaluate(
    env: Env,
    policies: Mapping[str, Policy],
    episodes: int = 100,
    *,
    deterministic: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Evaluation]:
    """Plays `episodes` of each behavior that appears before those seen so far have played theirs.

    Raises PolicyError where one of them has no model.
    """
    players = Players(policies, lambda step: episodes, deterministic)
    steps = env.reset(seed)
    players.note(steps)
    while not players.done:
        steps = env.step(players.act(steps))
        players.note(steps)
        if progress is not None:
            progress(min((len(player.returns) for player in players.by_behavior.values()), default=0))
    return {name: Evaluation(np.array(player.returns), np.array(player.lengths)) for name, player in players.by_behavior.items()}
