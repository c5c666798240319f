"""What the ends of episodes say of those who played: ratings, and whether a game's results balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.timestep import TimeStep
from palaestra.runtime.console import Console
from palaestra.runtime.contender import Contender
from palaestra.runtime.tracker import ELO, Tracker
from palaestra.scenario.ratings import elo_change, rate, result_of, sums_to_zero
from palaestra.scenario.self_play import LEARNING

Numbers = NDArray[np.int64]
OPPONENT_ELO, OPPONENT_DEVIATION = "Self-play/Opponent ELO Mean", "Self-play/Opponent ELO Deviation"
SKILL, SKILL_DEVIATION = "Self-play/Skill", "Self-play/Skill Deviation"


@dataclass(frozen=True, slots=True)
class Game:
    """Who sat where while these episodes lasted."""

    sides: Sequence[tuple[str, int]]  # behavior and team of each
    players: Mapping[str, Numbers]  # (areas, sides), or by behavior (S, sides)
    side_of: Mapping[str, Numbers]  # by behavior, (S,)
    by_seat: bool
    going: Mapping[str, Tensor]  # by behavior, (S,) who has not ended

    def at(self, name: str, slot: int, area: int) -> Numbers:
        """(sides,) who played each side in a slot's episode."""
        return self.players[name][slot] if self.by_seat else self.players[""][area]


class Results:
    """Elo for two teams, as ML-Agents has it: every agent of the learning team whose episode was finished, not cut, has played a game,
    which its last reward and its group's decide. Skills, by openskill, where more than two teams meet or teams are groups.
    """

    def __init__(self, tracker: Tracker, console: Console) -> None:
        self._tracker, self._console = tracker, console
        self._warned = False

    def of_agents(self, game: Game, name: str, step: TimeStep, contenders: Mapping[str, Contender]) -> None:
        """Elo after the episodes that ended with a behavior's table."""
        contender, side_of = contenders[name], game.side_of.get(name)
        rows = finished(step)
        if side_of is None or not len(rows):
            return
        rows = rows[rows < len(side_of)]
        reward = (step.reward + step.group_reward).cpu().numpy()
        area, group = step.area.tolist(), step.group.cpu().numpy()
        left = set(group[game.going[name].cpu().numpy()].tolist()) - {-1}
        for slot in rows.tolist():
            players, own = game.at(name, slot, area[slot]).tolist(), int(side_of[slot])
            if own < 0 or players[own] != LEARNING or group[slot] in left:
                continue
            result, team = result_of(float(reward[slot])), game.sides[own][1]
            for i, (behavior, other) in enumerate(game.sides):
                opponents = contenders[behavior]
                if other == team or (opponents is contender and contender.is_current(players[i])):
                    continue  # who plays itself gains what it loses
                change = elo_change(contender.elo, opponents.rating(players[i]), result, contender.settings.elo_k)
                contender.elo += change
                opponents.change_rating(players[i], -change)
            if len({other for _, other in game.sides}) <= 2:
                self._tracker.add(name, ELO, contender.elo)
            self._tell_opponents(name, game, contenders, team)

    def _tell_opponents(self, name: str, game: Game, contenders: Mapping[str, Contender], team: int) -> None:
        behaviors = {behavior for behavior, other in game.sides if other != team}
        elos = [elo for behavior in behaviors for elo in contenders[behavior].elos.values()]
        self._tracker.latest(name, OPPONENT_ELO, float(np.mean(elos)))
        self._tracker.latest(name, OPPONENT_DEVIATION, float(np.std(elos)))

    def of_areas(self, game: Game, steps: Mapping[str, TimeStep], over: Tensor, contenders: Mapping[str, Contender]) -> None:
        """Whether the results of games that ended balance, and skills after them."""
        scores, grouped = self._scores(game, steps)
        teams = sorted({team for _, team in game.sides})
        for area in over.nonzero().squeeze(1).tolist():
            of_sides = scores[area]
            if np.isnan(of_sides).any():  # some were cut, or had ended before
                continue
            of_teams = [float(np.mean([of_sides[i] for i, (_, other) in enumerate(game.sides) if other == team])) for team in teams]
            if len(teams) > 1 and not self._warned and not sums_to_zero([result_of(score) for score in of_teams]):
                self._warn(dict(zip(teams, of_teams, strict=True)))
            if len(teams) > 2 or grouped:
                self._rate(game, area, of_sides, contenders)

    def _scores(self, game: Game, steps: Mapping[str, TimeStep]) -> tuple[NDArray[np.float64], bool]:
        """Last rewards of sides by area, (areas, sides), the mean of their agents'; NaN where nobody finished. Whether any are groups'."""
        areas = len(game.players[""])
        total, count, grouped = np.zeros((areas, len(game.sides))), np.zeros((areas, len(game.sides))), False
        for name, step in steps.items():
            rows, side_of = finished(step), game.side_of.get(name)
            if side_of is None or not len(rows):
                continue
            rows = rows[rows < len(side_of)]
            rows = rows[side_of[rows] >= 0]
            at = (step.area.cpu().numpy()[rows], side_of[rows])
            np.add.at(total, at, (step.reward + step.group_reward).cpu().numpy()[rows])
            np.add.at(count, at, 1)
            grouped |= bool((step.group >= 0).any())
        return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0), grouped

    def _warn(self, scores: Mapping[int, float]) -> None:
        self._warned = True
        told = ", ".join(f"team {team} got {score:.3g}" for team, score in scores.items())
        self._console.warning(
            f"the results of a game do not balance: with the last rewards of an episode {told}. Self-play tells who won by the sign of the "
            f"last reward (above 0: won, 0: a draw, below: lost); unless what one team wins the other loses, ratings mean nothing"
        )

    def _rate(self, game: Game, area: int, scores: NDArray[np.float64], contenders: Mapping[str, Contender]) -> None:
        """One game's; nobody learns anything of a side that played itself."""
        players = game.players[""][area]
        keys = [
            (behavior, LEARNING if contenders[behavior].is_current(players[i]) else int(players[i]))
            for i, (behavior, _) in enumerate(game.sides)
        ]
        if len(set(keys)) < 2:
            return
        skills = rate([contenders[behavior].skill(number) for behavior, number in keys], scores.tolist())
        for (behavior, number), skill in zip(keys, skills, strict=True):
            contender = contenders[behavior]
            contender.set_skill(number, skill)
            if number == LEARNING:
                self._tracker.add(behavior, SKILL, skill.mean)
                self._tracker.latest(behavior, SKILL_DEVIATION, skill.deviation)
                if len({team for _, team in game.sides}) > 2:
                    contender.elo = skill.elo(contender.settings.initial_elo)
                    self._tracker.add(behavior, ELO, contender.elo)


def finished(step: TimeStep) -> Numbers:
    """The slots whose episodes ended by themselves, (E,): those that were cut say nothing of who won."""
    if step.reward.device.type == "cpu" and not len(step.ends.slots):
        return np.zeros(0, np.int64)
    return step.terminated.nonzero().squeeze(1).cpu().numpy()
