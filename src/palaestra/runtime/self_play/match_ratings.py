"""Rates players by the results of episodes, and checks that the game is zero-sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.metrics import ELO
from palaestra.core.timestep import TimeStep
from palaestra.runtime.parts.journal import Journal
from palaestra.runtime.self_play.sides import Sides
from palaestra.runtime.self_play.slot_players import SlotPlayers
from palaestra.scenario.ratings import elo_change, mean_of, rate, result_of, sums_to_zero
from palaestra.scenario.self_play_schedule import EXPLOITER, LEARNING

Numbers = NDArray[np.int64]
OPPONENT_ELO, OPPONENT_DEVIATION = "Self-play/Opponent ELO Mean", "Self-play/Opponent ELO Deviation"
SKILL, SKILL_DEVIATION = "Self-play/Skill", "Self-play/Skill Deviation"


class MatchRatings:
    """Rates players by finished matches.

    Two teams get Elo ratings as in ML-Agents: an agent of the learning team whose episode was terminated, not
    truncated, has played a match; the sign of its last reward (own and group) says who won. If more than two teams
    meet, or teams are groups, the package openskill rates them.
    """

    def __init__(self, sides: Sides, players: SlotPlayers, journal: Journal, warn: Callable[[str], object]) -> None:
        """`warn` is called once if the game is not zero-sum."""
        self._sides = sides
        self._players = players
        self._journal = journal
        self._warn = warn
        self._warned = False
        self._last = np.zeros((0, 0))
        """Mean last rewards (areas, sides), in open episodes, of the agents that ended last; NaN: none did, or some
        were truncated."""

    def begin(self) -> None:
        """Forgets the episodes of all areas."""
        self._last = np.zeros((0, 0))

    def rate(self, steps: Mapping[str, TimeStep], over: Tensor | None) -> None:
        """Rates the episodes that ended with these tables. `over` (areas,): areas whose episode has ended."""
        for name, step in steps.items():
            self._rate_agents(name, step)
        if over is not None and not self._players.by_slot:
            self._rate_areas(steps, over)

    def _rate_agents(self, name: str, step: TimeStep) -> None:
        side_of = self._players.side_of.get(name)
        rows = finished(step)
        if side_of is None or not len(rows):
            return
        rows = rows[rows < len(side_of)]
        sides = side_of[rows]
        players = self._players.of_episodes(name, rows, step)
        group = step.group.cpu().numpy()
        going_on = np.unique(group[self._players.areas.going[name].cpu().numpy()])
        has_mates_left = (group[rows] >= 0) & np.isin(group[rows], going_on)
        is_learning = players[np.arange(len(rows)), sides] == LEARNING
        reward = (step.reward + step.group_reward).cpu().numpy()[rows]
        by_skill = len(self._sides.teams) > 2 and not self._players.by_slot
        ratings = self._sides.behaviors[name].ratings
        exploiter = self._sides.behaviors[name].exploiter
        if exploiter is not None and self._players.by_slot:  # else areas are judged as a whole
            exploits = players[np.arange(len(rows)), sides] == EXPLOITER
            for row in ((sides >= 0) & exploits & ~has_mates_left).nonzero()[0].tolist():
                exploiter.add(result_of(float(reward[row])))
        for row in ((sides >= 0) & is_learning & ~has_mates_left).nonzero()[0].tolist():
            team = self._sides.all[int(sides[row])].team
            others = [(i, side.behavior) for i, side in enumerate(self._sides.all) if side.team != team]
            opponents = [(behavior, int(players[row, i])) for i, behavior in others]
            if not by_skill:
                self._change_elo(name, opponents, result_of(float(reward[row])))
                self._journal.add(name, ELO, ratings.elo)
            if self._players.by_slot:
                for other, number in opponents:
                    self._sides.behaviors[other].games.add(name, number, result_of(float(reward[row])))
            behaviors = sorted({behavior for _, behavior in others})
            elos = [elo for one in behaviors for elo in self._sides.behaviors[one].ratings.opponent_elos]
            if elos:  # else it is a team without opponents
                self._journal.latest(name, OPPONENT_ELO, float(np.mean(elos)))
                self._journal.latest(name, OPPONENT_DEVIATION, float(np.std(elos)))

    def _change_elo(self, name: str, opponents: Sequence[tuple[str, int]], result: float) -> None:
        """Updates Elo by one match, shared among the opponents; a player of both sides gains what it loses."""
        behavior = self._sides.behaviors[name]
        own = behavior.ratings
        for other, number in opponents:
            theirs = self._sides.behaviors[other].ratings
            if theirs is own and own.rated(number) == LEARNING:
                continue
            k = behavior.settings.elo_k / len(opponents)
            change = elo_change(own.elo, theirs.elo_of(number), result, k)
            own.set_elo(LEARNING, own.elo + change)
            theirs.set_elo(number, theirs.elo_of(number) - change)

    def _rate_areas(self, steps: Mapping[str, TimeStep], over: Tensor) -> None:
        """Checks whether the results of finished matches balance, and updates skills."""
        self._note_last(steps)
        grouped = any(bool((step.group >= 0).any()) for step in steps.values())
        scores = self._last.copy()
        self._last[over.cpu().numpy()] = np.nan
        teams = sorted(self._sides.teams)
        for area in over.nonzero().squeeze(1).tolist():
            of_sides = scores[area]
            if np.isnan(of_sides).any():  # some were truncated
                continue
            of_teams = {
                team: float(np.mean([of_sides[i] for i, side in enumerate(self._sides.all) if side.team == team]))
                for team in teams
            }
            results = [result_of(score) for score in of_teams.values()]
            if len(teams) > 1 and not self._warned and not sums_to_zero(results):
                self._warn_of_imbalance(of_teams)
            self._judge(self._players.of_areas[area], of_teams)
            if (len(teams) > 2 or grouped) and EXPLOITER not in self._players.of_areas[area]:
                self._rate_skills(self._players.of_areas[area], of_sides)

    def _judge(self, players: Numbers, scores: Mapping[int, float]) -> None:
        """Adds the results of the learning team, or an exploiter, against each other player: the higher score wins."""
        behaviors = self._sides.behaviors
        numbered = list(zip(self._sides.all, players.tolist(), strict=True))
        for own, learner in numbered:
            for side, number in numbered if learner in (LEARNING, EXPLOITER) else ():
                result = result_of(scores[own.team] - scores[side.team])
                if side.team != own.team and learner == LEARNING:
                    behaviors[side.behavior].games.add(own.behavior, number, result)
                elif side.team != own.team and (exploiter := behaviors[own.behavior].exploiter) is not None:
                    exploiter.add(result)

    def _note_last(self, steps: Mapping[str, TimeStep]) -> None:
        shape = (len(self._players.of_areas), len(self._sides.all))
        total = np.zeros(shape)
        count = np.zeros(shape)
        for name, step in steps.items():
            ended = (step.terminated | step.truncated).cpu().numpy()
            side_of = self._players.side_of.get(name)
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

    def _warn_of_imbalance(self, scores: Mapping[int, float]) -> None:
        self._warned = True
        got = ", ".join(f"team {team} got {score:.3g}" for team, score in scores.items())
        self._warn(
            f"the results of a game do not balance: with the last rewards of an episode {got}. The sign of the last "
            "reward decides who won (above 0: won, 0: a draw, below: lost); unless what one team wins the other "
            "loses, ratings mean nothing"
        )

    def _rate_skills(self, players: Numbers, scores: NDArray[np.float64]) -> None:
        """Updates skills by one match of the sides' players. A player of several sides gets their mean; a player that
        met only itself is not rated."""
        behaviors = self._sides.behaviors
        keys = [
            (side.behavior, behaviors[side.behavior].ratings.rated(int(player)))
            for side, player in zip(self._sides.all, players, strict=True)
        ]
        if len(set(keys)) < 2:
            return
        skills = rate([behaviors[name].ratings.skill_of(number) for name, number in keys], scores.tolist())
        has_elo = len(self._sides.teams) > 2
        for name, number in dict.fromkeys(keys):
            skill = mean_of([skill for key, skill in zip(keys, skills, strict=True) if key == (name, number)])
            ratings = behaviors[name].ratings
            ratings.set_skill(number, skill)
            if has_elo:
                ratings.set_elo(number, skill.elo(behaviors[name].settings.initial_elo))
            if number == LEARNING:
                self._journal.add(name, SKILL, skill.mean)
                self._journal.latest(name, SKILL_DEVIATION, skill.deviation)
                if has_elo:
                    self._journal.add(name, ELO, ratings.elo)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the last rewards of unfinished matches."""
        known = ~np.isnan(self._last)
        return {"known": torch.from_numpy(known), "last": torch.from_numpy(np.where(known, self._last, 0.0))}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores the last rewards of unfinished matches."""
        self._last = np.where(state["known"].cpu().numpy(), state["last"].cpu().numpy(), np.nan)


def finished(step: TimeStep) -> Numbers:
    """Returns the slots whose episodes were terminated, (E,): truncated episodes have no winner."""
    if step.reward.device.type == "cpu" and not len(step.final_obs.slots):
        return np.zeros(0, np.int64)
    return step.terminated.nonzero().squeeze(1).cpu().numpy()
