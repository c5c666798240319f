"""Plays all behaviors of an environment with brains, and counts the results of the episodes that began first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.runtime.collect.episodes import OpenEpisodes
from palaestra.runtime.play.assigned_brains import AssignedBrains, BrainOf, Side


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

    The episodes that began first count, even if they end late: if the first to end counted, short episodes would be
    favored.
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
        self.successes: list[float] = []  # 1 for each episode that succeeded, else 0; NaN where that is not reported
        self.group_returns: list[float] = []  # what each group earned as one, whose last member's episode counts

    @property
    def done(self) -> bool:
        """Whether all counted episodes have ended."""
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
        """Drops episodes that were cut off, which do not show how good the brain is; others count instead."""
        self._begun -= int((lost & self._counted).sum())
        self._open.forget(lost)
        self._counted &= ~lost

    def _begin(self, now: ShownEpisode) -> None:
        """Opens the episodes that begin on this tick; if only some of them count, the lowest slots' episodes do."""
        new = now.acting & (now.team == self._team) & ~self._open.living
        self._open.open(new, now.group)
        slots = new.nonzero()[0]
        self._counted[slots[: self._episodes - self._begun]] = True
        self._begun = min(self._begun + len(slots), self._episodes)

    def _widen(self, slots: int) -> None:
        self._open.widen(slots)
        self._counted = np.pad(self._counted, (0, max(0, slots - len(self._counted))))


class Players:
    """Plays all behaviors of an environment.

    `episodes` maps the number of agents of a side that act when it first appears to the number of the side's episodes
    that count. `areas`: only agents of the first `areas` areas count; None: agents of all areas.
    """

    def __init__(self, env: Env, brain_of: BrainOf, episodes: Callable[[int], int], areas: int | None = None) -> None:
        self._brains = AssignedBrains(env, brain_of)
        self._episodes = episodes
        self._areas = areas
        self._teams: dict[str, dict[int, TeamEpisodes]] = {}
        self.decisions = 0
        """Decisions of all agents so far."""

    @property
    def teams(self) -> dict[Side, TeamEpisodes]:
        """Episodes of all sides that have acted."""
        return {(name, team): one for name, teams in self._teams.items() for team, one in sorted(teams.items())}

    @property
    def done(self) -> bool:
        """Whether all episodes of all known sides have ended."""
        teams = self.teams
        return bool(teams) and all(episodes.done for episodes in teams.values())

    def act(self, steps: Mapping[str, TimeStep]) -> dict[str, Action]:
        """Returns the actions of each behavior's agents. Raises PolicyError for a side without a brain."""
        actions = self._brains.act(steps)
        for name, step in steps.items():
            acting = step.acting.cpu().numpy().nonzero()[0]
            teams = step.team.cpu().numpy()[acting]
            self.decisions += len(acting)
            for team, episodes in self._teams[name].items():
                episodes.decided(acting[teams == team])
        return actions

    def note(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the tables of a tick; the first call gets the tables of `reset`."""
        for name, step in steps.items():
            now = shown(step)
            if self._areas is not None:
                counts = step.area.cpu().numpy() < self._areas
                now = replace(now, acting=now.acting & counts, ended=now.ended & counts)
            teams = self._teams.setdefault(name, {})
            for team in np.unique(now.team[now.acting]).tolist():
                if team not in teams:
                    teams[team] = TeamEpisodes(team, self._episodes(int((now.acting & (now.team == team)).sum())))
            for episodes in teams.values():
                episodes.note(now)
