"""Plays all behaviors of an environment with brains, and counts the episodes that began first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.brains.base import Brain
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.runtime.collect.episodes import OpenEpisodes
from palaestra.runtime.play.brain_policy import TableAnswers, no_actions

BrainOf = Callable[[str, int], Brain]
"""Returns the brain of a behavior's team. Raises PolicyError if there is none."""
Side = tuple[str, int]
"""A behavior and one of its teams."""


@dataclass(frozen=True, slots=True)
class ShownEpisode:
    """The columns of one tick's table that counting episodes needs."""

    acting: NDArray[np.bool_]  # (S,)
    ended: NDArray[np.bool_]
    reward: NDArray[np.float32]  # its own and its group's
    group_reward: NDArray[np.float32]
    team: NDArray[np.int64]
    group: NDArray[np.int64]
    lost: NDArray[np.bool_] | None
    success: NDArray[np.float32] | None


def shown(step: TimeStep) -> ShownEpisode:
    """Returns the columns that counting episodes needs, on the CPU."""
    return ShownEpisode(
        acting=step.acting.cpu().numpy(),
        ended=(step.terminated | step.truncated).cpu().numpy(),
        reward=(step.reward + step.group_reward).cpu().numpy(),
        group_reward=step.group_reward.cpu().numpy(),
        team=step.team.cpu().numpy(),
        group=step.group.cpu().numpy(),
        lost=None if step.lost is None else step.lost.cpu().numpy(),
        success=None if step.success is None else step.success.cpu().numpy(),
    )


class TeamEpisodes:
    """Counts the episodes of one team of a behavior.

    The episodes that began first count, however late they end: counting the first that end would favor short ones.
    """

    def __init__(self, team: int, episodes: int) -> None:
        self._team = team
        self._episodes = episodes
        self._begun = 0
        self._open = OpenEpisodes(0)
        self._counted = np.zeros(0, bool)
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.finals: list[float] = []  # what each episode's last decision earned
        self.successes: list[
            float
        ] = []  # 1 for each episode that succeeded, else 0; NaN where the environment does not report success
        self.group_returns: list[float] = []  # what each group earned as one, whose last member's episode counts

    @property
    def done(self) -> bool:
        """Whether all its episodes have ended."""
        return len(self.returns) >= self._episodes

    def decided(self, rows: NDArray[np.int64]) -> None:
        """Marks the agents in these slots of this team as acting: their decisions count once their outcome is known."""
        self._open.waiting[rows] = True

    def note(self, now: ShownEpisode) -> None:
        """Counts a tick's rewards, the episodes that ended and those that begin."""
        self._widen(len(now.reward))
        if now.lost is not None:
            self._forget(now.lost)
        self._open.add_rewards(now.acting, now.ended, now.reward, now.group_reward)
        for slot in (now.ended & self._counted).nonzero()[0]:
            self.returns.append(float(self._open.returns[slot]))
            self.lengths.append(int(self._open.lengths[slot]))
            self.finals.append(float(now.reward[slot]))
            self.successes.append(float("nan") if now.success is None else float(now.success[slot]))
        last = self._open.last_of_groups(now.ended & self._open.living)
        self.group_returns += self._open.group_returns[last[self._counted[last]]].tolist()
        self._open.close(now.ended)
        self._counted[now.ended] = False
        self._begin(now)

    def _forget(self, lost: NDArray[np.bool_]) -> None:
        """Drops episodes that broke off, which say nothing about the brain; others count instead."""
        self._begun -= int((lost & self._counted).sum())
        self._open.forget(lost)
        self._counted &= ~lost

    def _begin(self, now: ShownEpisode) -> None:
        """Opens the episodes that begin on this tick; if only some of them count, those in the lowest slots do."""
        new = now.acting & (now.team == self._team) & ~self._open.living
        self._open.open(new, now.group)
        slots = new.nonzero()[0]
        self._counted[slots[: self._episodes - self._begun]] = True
        self._begun = min(self._begun + len(slots), self._episodes)

    def _widen(self, slots: int) -> None:
        self._open.widen(slots)
        self._counted = np.pad(self._counted, (0, max(0, slots - len(self._counted))))


class PlayedAreas:
    """Asks the brains of one behavior, and counts the episodes of each team."""

    def __init__(self, behavior: str, spec: BehaviorSpec, brain_of: BrainOf, episodes: Callable[[int], int]) -> None:
        self._behavior = behavior
        self._action = spec.action
        self._brain_of = brain_of
        self._episodes = episodes
        self._brains: dict[int, TableAnswers] = {}  # by team
        self.teams: dict[int, TeamEpisodes] = {}  # by team
        self.decisions = 0

    def act(self, step: TimeStep) -> Action:
        """Returns actions for the acting slots, zeros elsewhere."""
        device = step.reward.device
        teams = step.team.cpu().numpy()
        continuous, discrete = no_actions(len(step.reward), self._action)
        self.decisions += int(step.acting.sum())
        for answers, rows in self._parted(step.acting.cpu().numpy().nonzero()[0], teams):
            answers.fill(step, rows, continuous, discrete)
        return Action(torch.from_numpy(continuous).to(device), torch.from_numpy(discrete).to(device))

    def note(self, step: TimeStep) -> None:
        """Processes the table of a tick. Raises PolicyError for a team without a brain."""
        now = shown(step)
        for team in np.unique(now.team[now.acting]).tolist():
            if team not in self._brains:
                agents = int((now.acting & (now.team == team)).sum())
                brain = self._brain_of(self._behavior, team)
                self._brains[team] = next(
                    (one for one in self._brains.values() if one.brain is brain), TableAnswers(brain, self._action)
                )
                self.teams[team] = TeamEpisodes(team, self._episodes(agents))
        for answers in {id(one): one for one in self._brains.values()}.values():
            answers.see(step)
        for episodes in self.teams.values():
            episodes.note(now)

    def _parted(
        self, rows: NDArray[np.int64], teams: NDArray[np.int64]
    ) -> list[tuple[TableAnswers, NDArray[np.int64]]]:
        """Returns each brain with its rows; a brain that plays several teams gets their rows together."""
        parts: dict[int, tuple[TableAnswers, list[int]]] = {}
        for team, answers in self._brains.items():
            mine = rows[teams[rows] == team]
            if len(mine):
                self.teams[team].decided(mine)
                parts.setdefault(id(answers), (answers, []))[1].append(team)
        return [(answers, rows[np.isin(teams[rows], own)]) for answers, own in parts.values()]


class Players:
    """Plays all behaviors of an environment.

    `episodes` maps the number of a side's agents that act when it first appears to the number of its episodes that
    count.
    """

    def __init__(self, env: Env, brain_of: BrainOf, episodes: Callable[[int], int]) -> None:
        self._env = env
        self._brain_of = brain_of
        self._episodes = episodes
        self._behaviors: dict[str, PlayedAreas] = {}

    @property
    def teams(self) -> dict[Side, TeamEpisodes]:
        """Episodes of all sides that have acted so far."""
        return {
            (name, team): episodes
            for name, played in self._behaviors.items()
            for team, episodes in sorted(played.teams.items())
        }

    @property
    def decisions(self) -> int:
        """Decisions of all agents so far."""
        return sum(played.decisions for played in self._behaviors.values())

    @property
    def done(self) -> bool:
        """Whether all episodes of all sides seen so far have ended."""
        teams = self.teams
        return bool(teams) and all(episodes.done for episodes in teams.values())

    def act(self, steps: Mapping[str, TimeStep]) -> dict[str, Action]:
        """Returns the actions of each behavior's agents."""
        return {name: self._behaviors[name].act(step) for name, step in steps.items()}

    def note(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the tables of a tick, first those of `reset`. Raises PolicyError for a side without a brain."""
        for name, step in steps.items():
            if name not in self._behaviors:
                self._behaviors[name] = PlayedAreas(name, self._env.behaviors[name], self._brain_of, self._episodes)
            self._behaviors[name].note(step)
