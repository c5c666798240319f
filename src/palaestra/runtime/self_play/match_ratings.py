"""Rates players by how episodes end, and checks that what one team wins the others lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.metrics import ELO
from palaestra.core.timestep import TimeStep
from palaestra.runtime.logging.console import Console
from palaestra.runtime.parts.journal import Journal
from palaestra.runtime.self_play.self_play_behavior import SelfPlayBehavior
from palaestra.scenario.ratings import elo_change, mean_of, rate, result_of, sums_to_zero
from palaestra.scenario.self_play_schedule import LEARNING

Numbers = NDArray[np.int64]
OPPONENT_ELO, OPPONENT_DEVIATION = "Self-play/Opponent ELO Mean", "Self-play/Opponent ELO Deviation"
SKILL, SKILL_DEVIATION = "Self-play/Skill", "Self-play/Skill Deviation"


@dataclass(frozen=True, slots=True)
class Match:
    """The players of each slot during these episodes."""

    sides: Sequence[tuple[str, int]]  # behavior and team of each
    players: Mapping[str, Numbers]  # (areas, sides), or by behavior (S, sides)
    side_of: Mapping[str, Numbers]  # by behavior, (S,)
    by_slot: bool
    going: Mapping[str, Tensor]  # by behavior, (S,) who has not ended

    @property
    def teams(self) -> int:
        """Number of sides."""
        return len({team for _, team in self.sides})

    def players_of(self, name: str, slots: Numbers, areas: Numbers) -> Numbers:
        """Returns the players of all sides in the episodes of R slots, which are in these areas, (R, sides)."""
        return self.players[name][slots] if self.by_slot else self.players[""][areas]


class MatchRatings:
    """Rates players by finished matches.

    Two teams get Elo as in ML-Agents: an agent of the learning team whose episode was terminated, not truncated, has
    played a match, and the sign of its last reward and its group's says who won. Where more than two teams meet, or
    teams are groups, openskill rates them.
    """

    def __init__(self, statistics: Journal, console: Console) -> None:
        self._statistics = statistics
        self._console = console
        self._warned = False
        self._last = np.zeros((0, 0))
        """Mean last rewards (areas, sides), in open episodes, of the agents that ended last; NaN: none did, or some
        were truncated.
        """

    def warn(self, text: str) -> None:
        """Warns of a problem that makes self-play or its ratings meaningless."""
        self._console.warning(text)

    def begin(self) -> None:
        """Forgets the episodes of all areas."""
        self._last = np.zeros((0, 0))

    def of_agents(self, match: Match, name: str, step: TimeStep, behaviors: Mapping[str, SelfPlayBehavior]) -> None:
        """Updates Elo from the episodes that ended in a behavior's table."""
        behavior = behaviors[name]
        side_of = match.side_of.get(name)
        rows = finished(step)
        if side_of is None or not len(rows):
            return
        rows = rows[rows < len(side_of)]
        sides = side_of[rows]
        players = match.players_of(name, rows, step.area.cpu().numpy()[rows])
        group = step.group.cpu().numpy()
        going_on = np.unique(group[match.going[name].cpu().numpy()])
        has_mates_left = (group[rows] >= 0) & np.isin(group[rows], going_on)
        is_learning = players[np.arange(len(rows)), sides] == LEARNING
        reward = (step.reward + step.group_reward).cpu().numpy()[rows]
        by_skill = match.teams > 2 and not match.by_slot
        for row in ((sides >= 0) & is_learning & ~has_mates_left).nonzero()[0].tolist():
            result = result_of(float(reward[row]))
            team = match.sides[int(sides[row])][1]
            if not by_skill:
                others = [
                    (behaviors[opponent], int(players[row, i]))
                    for i, (opponent, other) in enumerate(match.sides)
                    if other != team
                ]
                self._change_elo(behavior, others, result)
                self._statistics.add(name, ELO, behavior.elo)
            self._tell_opponents(name, match, behaviors, team)

    def _change_elo(
        self, behavior: SelfPlayBehavior, opponents: Sequence[tuple[SelfPlayBehavior, int]], result: float
    ) -> None:
        """Updates Elo by one match, shared among the opponents; a player of both sides gains what it loses."""
        for other, number in opponents:
            if other is not behavior or not behavior.is_current(number):
                change = elo_change(
                    behavior.elo, other.rating(number), result, behavior.settings.elo_k / len(opponents)
                )
                behavior.elo += change
                other.change_rating(number, -change)

    def _tell_opponents(self, name: str, match: Match, behaviors: Mapping[str, SelfPlayBehavior], team: int) -> None:
        opponents = {opponent for opponent, other in match.sides if other != team}
        elos = [elo for opponent in sorted(opponents) for elo in behaviors[opponent].elos.values()]
        if not elos:  # a team without opponents
            return
        self._statistics.latest(name, OPPONENT_ELO, float(np.mean(elos)))
        self._statistics.latest(name, OPPONENT_DEVIATION, float(np.std(elos)))

    def of_areas(
        self, match: Match, steps: Mapping[str, TimeStep], over: Tensor, behaviors: Mapping[str, SelfPlayBehavior]
    ) -> None:
        """Checks whether the results of finished matches balance, and updates skills."""
        self._note_last(match, steps)
        grouped = any(bool((step.group >= 0).any()) for step in steps.values())
        scores = self._last.copy()
        self._last[over.cpu().numpy()] = np.nan
        teams = sorted({team for _, team in match.sides})
        for area in over.nonzero().squeeze(1).tolist():
            of_sides = scores[area]
            if np.isnan(of_sides).any():  # some were truncated
                continue
            of_teams = [
                float(np.mean([of_sides[i] for i, (_, other) in enumerate(match.sides) if other == team]))
                for team in teams
            ]
            if len(teams) > 1 and not self._warned and not sums_to_zero([result_of(score) for score in of_teams]):
                self._warn(dict(zip(teams, of_teams, strict=True)))
            if len(teams) > 2 or grouped:
                self._rate(match, area, of_sides, behaviors)

    def _note_last(self, match: Match, steps: Mapping[str, TimeStep]) -> None:
        """Stores the last rewards of agents whose episodes ended."""
        shape = (len(match.players[""]), len(match.sides))
        total = np.zeros(shape)
        count = np.zeros(shape)
        for name, step in steps.items():
            ended = (step.terminated | step.truncated).cpu().numpy()
            side_of = match.side_of.get(name)
            if side_of is None or not ended.any():
                continue
            rows = ended[: len(side_of)].nonzero()[0]
            rows = rows[side_of[rows] >= 0]
            at = (step.area.cpu().numpy()[rows], side_of[rows])
            reward = torch.where(step.terminated, step.reward + step.group_reward, torch.nan).cpu().numpy()
            np.add.at(total, at, reward[rows])
            np.add.at(count, at, 1)
        if self._last.shape != shape:
            before = self._last
            self._last = np.full(shape, np.nan)
            self._last[: len(before), : before.shape[1]] = before
        np.divide(total, count, out=self._last, where=count > 0)

    def _warn(self, scores: Mapping[int, float]) -> None:
        self._warned = True
        told = ", ".join(f"team {team} got {score:.3g}" for team, score in scores.items())
        self._console.warning(
            f"the results of a game do not balance: with the last rewards of an episode {told}. Self-play tells who "
            "won by the sign of the last reward (above 0: won, 0: a draw, below: lost); unless what one team wins the "
            "other loses, ratings mean nothing"
        )

    def _rate(
        self, match: Match, area: int, scores: NDArray[np.float64], behaviors: Mapping[str, SelfPlayBehavior]
    ) -> None:
        """Updates skills by one match. A player of several sides gets their mean; a player that met only itself is not
        rated.
        """
        players = match.players[""][area]
        keys = [
            (name, LEARNING if behaviors[name].is_current(players[i]) else int(players[i]))
            for i, (name, _) in enumerate(match.sides)
        ]
        if len(set(keys)) < 2:
            return
        skills = rate([behaviors[name].skill(number) for name, number in keys], scores.tolist())
        for name, number in dict.fromkeys(keys):
            skill = mean_of([skill for key, skill in zip(keys, skills, strict=True) if key == (name, number)])
            behavior = behaviors[name]
            behavior.set_skill(number, skill)
            if match.teams > 2:
                behavior.set_rating(number, skill.elo(behavior.settings.initial_elo))
            if number == LEARNING:
                self._statistics.add(name, SKILL, skill.mean)
                self._statistics.latest(name, SKILL_DEVIATION, skill.deviation)
                if match.teams > 2:
                    self._statistics.add(name, ELO, behavior.elo)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the last rewards of unfinished matches."""
        known = ~np.isnan(self._last)
        return {"known": torch.from_numpy(known), "last": torch.from_numpy(np.where(known, self._last, 0.0))}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores the last rewards of unfinished matches."""
        self._last = np.where(state["known"].cpu().numpy(), state["last"].cpu().numpy(), np.nan)


def finished(step: TimeStep) -> Numbers:
    """Returns the slots whose episodes were terminated, (E,): truncated ones say nothing about who won."""
    if step.reward.device.type == "cpu" and not len(step.final_obs.slots):
        return np.zeros(0, np.int64)
    return step.terminated.nonzero().squeeze(1).cpu().numpy()
