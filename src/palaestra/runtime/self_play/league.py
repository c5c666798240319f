"""Plays every snapshot of a run against every other: a matrix of scores, and ratings fitted to the same games."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.core.errors import RunError
from palaestra.core.timestep import TimeStep
from palaestra.envs.base import Env
from palaestra.runtime.collect.area_episodes import AreaEpisodes
from palaestra.runtime.self_play.opponent_policy import MixedPolicy
from palaestra.scenario.ratings import Skill, rate
from palaestra.scenario.self_play_schedule import LEARNING

Numbers = NDArray[np.int64]
Progress: TypeAlias = Callable[[int, int], None]
"""A callback that receives the number of games played so far and the total."""
PATIENCE = 2000
"""Agents' episodes that may end in an area before the area counts as one with several games, and ticks in which all
teams of a game must appear."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A snapshot in the league."""

    behavior: str
    step: int


@dataclass
class League:
    """E entries and their results. A game scores 1, 1/2 or 0."""

    entries: list[Entry]
    games: Numbers = field(init=False)  # (E, E) played by a row against a column
    wins: Numbers = field(init=False)  # (E, E)
    draws: Numbers = field(init=False)  # (E, E)
    skills: list[Skill] = field(init=False)  # (E,)
    stopped: int = 0
    """Number of the signal that ended it early; 0: all games were played."""

    def __post_init__(self) -> None:
        shape = (len(self.entries), len(self.entries))
        self.games, self.wins, self.draws = (np.zeros(shape, np.int64) for _ in range(3))
        self.skills = [Skill() for _ in self.entries]

    def add(self, players: Sequence[int], rewards: Sequence[float]) -> None:
        """Adds a game: each side's entry and last reward. The higher score wins; an entry on several sides gets their
        mean."""
        distinct = sorted(set(players))
        means = [
            float(np.mean([r for p, r in zip(players, rewards, strict=True) if p == player])) for player in distinct
        ]
        for one, gained in zip(distinct, means, strict=True):
            for other, theirs in zip(distinct, means, strict=True):
                if one != other:
                    self.games[one, other] += 1
                    self.wins[one, other] += gained > theirs
                    self.draws[one, other] += gained == theirs
        for player, skill in zip(
            distinct, rate([self.skills[p] for p in distinct], means, learning=False), strict=True
        ):
            self.skills[player] = skill

    @property
    def scores(self) -> NDArray[np.float64]:
        """Mean score of a row against a column, (E, E); NaN if they never met."""
        unknown = np.full(self.games.shape, np.nan)
        return np.divide(self.wins + 0.5 * self.draws, self.games, out=unknown, where=self.games > 0)

    @property
    def decided(self) -> NDArray[np.float64]:
        """Share of decided games that the row's entry won, (E, E); NaN without decided games."""
        lost = self.games - self.wins - self.draws
        return np.divide(self.wins, self.wins + lost, out=np.full(self.games.shape, np.nan), where=self.wins + lost > 0)

    def standings(self, behavior: str) -> list[tuple[float, int]]:
        """Returns the scores of a behavior's last entry against each other entry, with the other entry's step."""
        last = max(i for i, entry in enumerate(self.entries) if entry.behavior == behavior)
        return [
            (float(score), entry.step)
            for score, entry in zip(self.scores[last], self.entries, strict=True)
            if not np.isnan(score)
        ]

    def agreement(self, behavior: str) -> float:
        """Spearman's rank correlation of a behavior's ratings with its mean scores; NaN for fewer than two entries."""
        mine = [i for i, entry in enumerate(self.entries) if entry.behavior == behavior and self.games[i].any()]
        with np.errstate(invalid="ignore"):
            means = np.nanmean(self.scores[mine], 1)
        return rank_correlation(np.array([self.skills[i].mean for i in mine]), means)


def rank_correlation(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Returns Spearman's correlation of ranks; equal values share a rank."""
    if len(left) < 2:
        return float("nan")
    ranks = [np.array([(np.sum(x < value) + np.sum(x <= value) - 1) / 2 for value in x]) for x in (left, right)]
    spread = float(np.std(ranks[0]) * np.std(ranks[1]))
    if spread == 0:
        return float("nan")
    return float(np.mean((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())) / spread)


def pairings(entries: Sequence[Entry], sides: Sequence[tuple[str, int]]) -> list[list[int]]:
    """Lists the pairings, each (sides,) entries: for one behavior every ordered pair, of which one entry plays one side
    and the other entry all other sides; for several behaviors every entry of one behavior against every entry of
    another."""
    own = {name: [i for i, entry in enumerate(entries) if entry.behavior == name] for name, _ in sides}
    teams = list(dict.fromkeys(team for _, team in sides))
    if len(teams) < 2:
        raise RunError(
            f"a league needs two teams or more; this environment has {len(teams)} with snapshots at the start"
        )
    if len(own) == 1:
        (mine,) = own.values()
        return [
            [one if k == i % len(sides) else other for k in range(len(sides))]
            for i, (one, other) in enumerate((a, b) for a in mine for b in mine if a != b)
        ]
    if len(teams) != 2 or len(sides) != 2:
        there = ", ".join(f"{name}?team={team}" for name, team in sides)
        raise RunError(f"a league of several behaviors needs two, each a team of its own; this environment has {there}")
    names = list(own)
    return [
        [{names[0]: a, names[1]: b}.get(name, own[name][-1]) for name, _ in sides]
        for a in own[names[0]]
        for b in own[names[1]]
    ]


def play(
    env: Env,
    policies: Mapping[str, MixedPolicy],
    league: League,
    each: int,
    *,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> None:
    """Adds `each` games of every pairing to the league, none chosen by its result. `policies` have entry i as snapshot
    i.

    An area plays its share of the games of one pairing; further games are ignored. `progress` is called with the number
    of games counted so far and the number of all games.
    """
    steps = _with_all(policies, env, league, seed)
    if strange := [name for name in steps if name not in policies]:
        there = ", ".join(f"'{name}'" for name in strange)
        known = ", ".join(f"'{name}'" for name in policies)
        raise RunError(
            f"this environment has the behavior {there}; the run has snapshots of {known}: name its environment with "
            "--env"
        )
    sides = sides_of(steps, league)
    pairs = pairings(league.entries, sides)
    if not pairs:
        raise RunError("a league needs at least two snapshots")
    total = len(pairs) * each
    progress(0, total)
    for start in range(0, len(pairs), env.num_areas):
        here = pairs[start : start + env.num_areas]
        one = Round(sides, [here[i % len(here)] for i in range(env.num_areas)], len(here), each)
        _play_some(
            env, policies, league, one, seed + start, lambda games, before=start * each: progress(before + games, total)
        )


def _with_all(policies: Mapping[str, MixedPolicy], env: Env, league: League, seed: int) -> Mapping[str, TimeStep]:
    """Returns the tables of the first tick that has two teams and all behaviors of the run, if any: in some games
    agents ask for their first decisions at different times."""
    steps = env.reset(seed)
    for _ in range(PATIENCE):
        missing, strange = policies.keys() - steps.keys(), steps.keys() - policies.keys()
        if strange or (not missing and len(sides_of(steps, league)) > 1):
            break
        for name, step in steps.items():
            policies[name].assign(np.full(len(step.acting), LEARNING))
        with torch.no_grad():
            steps = env.step({name: policies[name].choose(step).action for name, step in steps.items()})
    return steps


@dataclass(frozen=True, slots=True)
class Round:
    """Plays as many pairings as there are areas; if there are fewer pairings, each in several areas."""

    sides: Sequence[tuple[str, int]]
    players: list[list[int]]  # (areas, sides)
    distinct: int
    each: int

    def of_sides(self, steps: Mapping[str, TimeStep]) -> dict[str, TimeStep]:
        """Returns the tables of the behaviors that play against each other."""
        return {name: steps[name] for name, _ in self.sides if name in steps}

    @property
    def quota(self) -> Numbers:
        """Returns the games that count in each area, (areas,): `each` for a pairing, spread over its areas."""
        at = np.arange(len(self.players))
        areas = np.bincount(at % self.distinct)[at % self.distinct]
        return self.each // areas + (at // self.distinct < self.each % areas)


def _play_some(
    env: Env, policies: Mapping[str, MixedPolicy], league: League, one: Round, seed: int, played: Callable[[int], None]
) -> None:
    """Plays one round. `played` is called with the number of its counted games."""
    left = one.quota
    due = int(left.sum())
    steps = env.reset(seed)
    episodes = AreaEpisodes(env.num_areas)
    episodes.begin(one.of_sides(steps))
    seats = Seats(one, policies)
    for policy in policies.values():
        policy.forget()
    seats.take(steps)
    last = np.zeros((env.num_areas, len(one.sides)))
    ends = np.zeros(env.num_areas, np.int64)
    with torch.no_grad():
        while (left > 0).any():
            steps = env.step({name: policies[name].choose(step).action for name, step in steps.items()})
            seats.take(steps)
            judged = one.of_sides(steps)
            over = episodes.over(judged) if judged else None
            for name, step in judged.items():
                rows = (step.terminated | step.truncated).cpu().numpy().nonzero()[0]
                reward = (step.reward + step.group_reward).cpu().numpy()
                area = seats.area_of[name][rows]
                last[area, seats.side_of[name][rows]] = reward[rows]
                np.add.at(ends, area, 1)
            if (ends > PATIENCE).any():
                raise RunError(
                    "agents of an area begin and end, but never all together: a league needs areas that hold one game "
                    "each"
                )
            for area in [] if over is None else over.nonzero().squeeze(1).tolist():
                if left[area] > 0:
                    league.add(list(one.players[area]), last[area].tolist())
                left[area] = left[area] - 1
                ends[area] = 0
            if over is not None:
                played(due - int(left.clip(0).sum()))


class Seats:
    """Area and side of each slot, which may change between episodes; assigns players to the slots."""

    def __init__(self, one: Round, policies: Mapping[str, MixedPolicy]) -> None:
        self._round = one
        self._policies = policies
        self._teams: dict[str, Numbers] = {}
        self.area_of: dict[str, Numbers] = {}
        """By behavior, the area of each slot, (S,)."""
        self.side_of: dict[str, Numbers] = {}

    def take(self, steps: Mapping[str, TimeStep]) -> None:
        """Reads the tables of a tick. Raises RunError for a team that did not exist at first."""
        for name in steps.keys() - self._round.of_sides(steps).keys():
            self._policies[name].assign(np.full(len(steps[name].acting), LEARNING))
        for name, step in self._round.of_sides(steps).items():
            area, team = (column.cpu().numpy() for column in (step.area, step.team))
            same = zip((area, team), (self.area_of.get(name), self._teams.get(name)), strict=True)
            if all(before is not None and np.array_equal(now, before) for now, before in same):
                continue
            self.area_of[name], self._teams[name] = area, team
            self.side_of[name] = sides_in(step, name, self._round.sides)
            self._policies[name].assign(np.array(self._round.players)[area, self.side_of[name]])


def sides_of(steps: Mapping[str, TimeStep], league: League) -> list[tuple[str, int]]:
    """Returns behavior and team of each side of an area that has entries, in the order of teams."""
    playing = steps.keys() & {entry.behavior for entry in league.entries}
    found = {(team, name) for name in playing for team in steps[name].team.unique().tolist()}
    return [(name, team) for team, name in sorted(found)]


def sides_in(step: TimeStep, name: str, sides: Sequence[tuple[str, int]]) -> Numbers:
    """Returns the side of each slot, (S,)."""
    index = {team: i for i, (behavior, team) in enumerate(sides) if behavior == name}
    if late := [team for team in step.team.unique().tolist() if team not in index]:
        raise RunError(
            f"'{name}?team={late[0]}' appeared after the first episodes had begun; a league needs all teams from the "
            "beginning"
        )
    return np.array([index[team] for team in step.team.tolist()], np.int64)
