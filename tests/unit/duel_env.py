"""A duel an area: two teams name a number, the higher one wins. Also brains of a user's, good and bad."""

import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from tiny_envs import Bandit, table
from torch import Tensor

from palaestra.brains.base import Choice, Role, Seen
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, TimeStep


class Duel(Bandit):
    """Slots 2i and 2i + 1 meet in area i: one decision each, 1 for the higher number, -1 for the lower, 0 for a
    draw.
    """

    def __init__(self, areas: int = 3) -> None:
        super().__init__(areas, continuous=1)
        self.behaviors: Mapping[str, BehaviorSpec] = {"Duel": BehaviorSpec((ObsSpec("nothing", (2,)),), ActionSpec(1))}
        self.given: list[Tensor] = []

    def reset(self, seed: int) -> dict[str, TimeStep]:
        return {"Duel": self._met(torch.zeros(2 * self.num_areas), [])}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        numbers = actions["Duel"].continuous[:, 0]
        self.given.append(numbers)
        opponents = numbers.view(-1, 2).flip(1).flatten()
        return {"Duel": self._met(torch.sign(numbers - opponents), list(range(len(numbers))))}

    def heuristic(self, behavior: str, slots: Any = None) -> Action | None:
        return Action(torch.full((2 * self.num_areas, 1), 0.5), torch.zeros(2 * self.num_areas, 0, dtype=torch.int64))

    def _met(self, reward: Tensor, ended: list[int]) -> TimeStep:
        slots = torch.arange(len(reward))
        return replace(
            table(torch.zeros(len(reward), 2), reward=reward.tolist(), terminated=ended),
            team=slots % 2,
            area=slots // 2,
        )


def make(areas: int = 3) -> Duel:
    return Duel(areas)


def top(obs: list[np.ndarray], mask: Any) -> np.ndarray:
    return np.ones((len(obs[0]), 1))


def without_mask(obs: list[np.ndarray]) -> np.ndarray:
    return np.full(len(obs[0]), 0.25)


def too_high(obs: list[np.ndarray], mask: Any) -> np.ndarray:
    return np.full((len(obs[0]), 1), 1.5)


def too_wide(obs: list[np.ndarray], mask: Any) -> np.ndarray:
    return np.zeros((len(obs[0]), 2))


def broken(obs: list[np.ndarray], mask: Any) -> np.ndarray:
    return obs[7]


def forgetful(obs: list[np.ndarray], mask: Any) -> None:
    obs.clear()


def of_three(obs: Any, mask: Any, more: Any) -> None:
    raise NotImplementedError


def made(role: Role) -> Any:
    return lambda obs, mask: np.full((len(obs[0]), 1), 0.125 if role.behavior == "Duel" else 0.0)


class Climber:
    """Says a higher number each time, from zero at every episode's start."""

    def __init__(self, role: Role) -> None:
        self.heights = np.zeros(1000)

    def begin(self, slots: np.ndarray) -> None:
        self.heights[slots] = 0

    def decide(self, seen: Seen) -> Choice:
        self.heights[seen.slots] += 0.25
        return Choice(self.heights[seen.slots, None].astype(np.float32), np.zeros((len(seen.slots), 0), np.int64))


class Interrupted:
    """Chooses 1, and is interrupted as by Ctrl-C at its tenth decision."""

    def __init__(self) -> None:
        self.calls = 0

    def decide(self, seen: Seen) -> Choice:
        self.calls += 1
        if self.calls == 10:
            signal.raise_signal(signal.SIGINT)
        return Choice(np.ones((len(seen.slots), 1), np.float32), np.zeros((len(seen.slots), 0), np.int64))


class Tired:
    """Chooses 1 nine times."""

    def __init__(self) -> None:
        self.calls = 0

    def decide(self, seen: Seen) -> Choice:
        self.calls += 1
        if self.calls == 10:
            raise RuntimeError("tired")
        return Choice(np.ones((len(seen.slots), 1), np.float32), np.zeros((len(seen.slots), 0), np.int64))


class NoBrain:
    pass


a_number = 7
