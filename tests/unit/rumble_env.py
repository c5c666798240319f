"""A game of any teams, one behavior or several: whoever names the highest numbers in an episode wins it. Records all
episodes.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from tiny_envs import CPU, table
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, TimeStep

Sides = Sequence[tuple[str, int, int]]
"""Behavior, team and number of agents of each side of an area."""


class Rumble:
    """Episodes of area i last 3 + i % 4 ticks. All agents of an area see the same: 1, and how many episodes it has
    had.
    """

    device = CPU
    parameters: Mapping[str, float] = {}

    def __init__(self, areas: int, sides: Sides, *, groups: bool = False, lost: float = -1.0) -> None:
        """`lost`: what the last tick brings those who did not win; the winner gets 1."""
        self.num_areas = areas
        self.sides = sides
        self.lost = lost
        names = dict.fromkeys(name for name, _, _ in sides)
        self.behaviors: Mapping[str, BehaviorSpec] = {
            name: BehaviorSpec((ObsSpec("nothing", (2,)),), ActionSpec(1), steady=True) for name in names
        }
        self.teams = {
            name: [team for other, team, agents in sides if other == name for _ in range(agents)] for name in names
        }
        self.groups = groups
        self.age = torch.zeros(areas)
        self.count = torch.zeros(areas)
        self.sums = torch.zeros(areas, len(sides))
        self.open: dict[tuple[int, int, str, int], list[tuple[float, ...]]] = defaultdict(list)
        self.episodes: list[tuple[int, int, str, int, list[tuple[float, ...]]]] = []
        """Of every area's every episode, by number: each side, and what its agents named, tick by tick."""

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.age = torch.zeros(self.num_areas)
        self.sums = torch.zeros_like(self.sums)
        self.open.clear()
        return {
            name: self._table(name, torch.zeros(self.num_areas, len(self.sides)), torch.zeros(self.num_areas) > 0)
            for name in self.teams
        }

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        taken = dict.fromkeys(self.teams, 0)
        for side, (name, team, agents) in enumerate(self.sides):
            numbers = actions[name].continuous[:, 0].view(self.num_areas, -1)[:, taken[name] : taken[name] + agents]
            taken[name] += agents
            self.sums[:, side] += numbers.mean(1)
            for area, named in enumerate(numbers.tolist()):
                self.open[area, int(self.count[area]), name, team].append(tuple(named))
        self.age += 1
        over = self.age >= 3 + torch.arange(self.num_areas) % 4
        wins = torch.arange(len(self.sides)) == self.sums.argmax(1, keepdim=True)  # the first of those who are level
        reward = torch.where(wins, 1.0, self.lost) * over.unsqueeze(1)
        for area in over.nonzero()[:, 0].tolist():
            for key in [key for key in self.open if key[0] == area]:
                self.episodes.append((*key, self.open.pop(key)))
        self.age[over] = 0
        self.sums[over] = 0
        self.count += over
        return {name: self._table(name, reward, over) for name in self.teams}

    def _table(self, name: str, reward: Tensor, over: Tensor) -> TimeStep:
        teams = self.teams[name]
        columns = [i for i, (other, _, agents) in enumerate(self.sides) if other == name for _ in range(agents)]
        earned = reward[:, columns].flatten()
        ended = over.repeat_interleave(len(teams)).nonzero()[:, 0].tolist()
        area = torch.arange(self.num_areas).repeat_interleave(len(teams))
        team = torch.tensor(teams).repeat(self.num_areas)
        seen = torch.stack([torch.ones(len(area)), self.count[area]], 1)
        step = replace(table(seen, terminated=ended), team=team, area=area)
        if self.groups:
            return replace(step, group_reward=earned, group=area * 10 + team)
        return replace(step, reward=earned)

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        if values:
            raise EnvError(f"Rumble has no parameters, so not {', '.join(values)}")

    def render(self, area: int) -> object:
        raise EnvError("Rumble has no picture")

    def state_dict(self) -> dict[str, Tensor]:
        return {"age": self.age.clone(), "count": self.count.clone(), "sums": self.sums.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.age, self.count, self.sums = (state[name].clone() for name in ("age", "count", "sums"))

    def close(self) -> None:
        pass


class Latecomers(Rumble):
    """The second behavior comes after 20 ticks, each time anew: such a game cannot be saved."""

    ticks = 0

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.ticks = 0
        return self._seen(super().reset(seed))

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        self.ticks += 1
        still = Action(torch.zeros(self.num_areas, 1), torch.zeros((self.num_areas, 0), dtype=torch.int64))
        return self._seen(super().step({name: actions.get(name, still) for name in self.teams}))

    def _seen(self, steps: dict[str, TimeStep]) -> dict[str, TimeStep]:
        return {name: step for i, (name, step) in enumerate(steps.items()) if i == 0 or self.ticks >= 20}

    def state_dict(self) -> dict[str, Tensor]:
        return {}


class Knockout(Rumble):
    """The last side loses one tick before the others, and waits for their end."""

    def __init__(self, areas: int, sides: Sides) -> None:
        super().__init__(areas, sides)
        self.behaviors = {name: replace(spec, steady=False) for name, spec in self.behaviors.items()}
        self.out = torch.zeros(areas) > 0

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        waits = self.out
        self.sums[:, -1] = -100.0
        steps = super().step(actions)
        self.out = self.age == 2 + torch.arange(self.num_areas) % 4
        ((name, step),) = steps.items()
        last = torch.arange(len(self.sides)).repeat(self.num_areas) == len(self.sides) - 1
        gone = last & self.out.repeat_interleave(len(self.sides))
        over = last & waits.repeat_interleave(len(self.sides))
        ended = ((step.terminated & ~over) | gone).nonzero()[:, 0].tolist()
        shown = table(step.obs[0], terminated=ended, acting=(~gone).tolist())
        reward = torch.where(over, 0.0, torch.where(gone, -1.0, step.reward))
        return {name: replace(shown, team=step.team, area=step.area, reward=reward)}


class Unseparated(Rumble):
    """Nobody tells which agents play together. The last of those it has two of rests after its first episode."""

    shared_areas = True

    def __init__(self, sides: Sides, *, rests: bool) -> None:
        super().__init__(1, sides)
        self.rests = rests
        self.behaviors = {name: replace(spec, steady=False) for name, spec in self.behaviors.items()}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        before = int(self.count[0])
        steps = super().step(actions)
        ((name, step),) = steps.items()
        asleep = (torch.arange(len(step.team)) == len(step.team) - 1) & self.rests & (self.count[0] > 0)
        ended = (step.terminated & ~(asleep & (before > 0))).nonzero()[:, 0].tolist()
        shown = table(step.obs[0], terminated=ended, acting=(~asleep).tolist())
        reward = torch.where(asleep & (before > 0), 0.0, step.reward)
        return {name: replace(shown, team=step.team, area=step.area, reward=reward)}


class Relay(Rumble):
    """Agents of an area begin anew one by one: on odd ticks those of the first side, on even ones all others."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        ((name, step),) = super().step(actions).items()
        first = torch.arange(len(step.team)) % len(self.sides) == 0
        ended = first if self.age[0] % 2 else ~first
        shown = table(step.obs[0], terminated=ended.nonzero()[:, 0].tolist())
        return {name: replace(shown, team=step.team, area=step.area, reward=torch.where(first, 1.0, -1.0))}


MADE: list[Rumble] = []
"""All that were made, for their ledgers."""


def _make(areas: int, sides: Sides, **rest: object) -> Rumble:
    MADE.append(Rumble(areas, sides, **rest))  # type: ignore[arg-type]
    return MADE[-1]


def symmetric(areas: int = 4) -> Rumble:
    return _make(areas, [("Fighter", 0, 1), ("Fighter", 1, 1)])


def two_against_one(areas: int = 4) -> Rumble:
    return _make(areas, [("Pair", 0, 2), ("Giant", 1, 1)], groups=True)


def three_teams(areas: int = 4) -> Rumble:
    return _make(areas, [("Fighter", 7, 1), ("Fighter", 3, 1), ("Fighter", 5, 1)])


def mixed_teams(areas: int = 4) -> Rumble:
    return _make(areas, [("Goalie", 0, 1), ("Striker", 0, 1), ("Goalie", 1, 1), ("Striker", 1, 1)])


def one_team(areas: int = 4) -> Rumble:
    return _make(areas, [("Fighter", 0, 1)])


def latecomers(areas: int = 4) -> Rumble:
    return Latecomers(areas, [("Pair", 0, 1), ("Giant", 1, 1)])


def knockout(areas: int = 4) -> Rumble:
    return Knockout(areas, [("Fighter", 0, 1), ("Fighter", 1, 1), ("Fighter", 2, 1)])


def all_win(areas: int = 4) -> Rumble:
    return _make(areas, [("Fighter", 0, 1), ("Fighter", 1, 1)], lost=1.0)


def quarter(obs: list[np.ndarray]) -> np.ndarray:
    """A brain that always names 0.25."""
    return np.full((len(obs[0]), 1), 0.25)
