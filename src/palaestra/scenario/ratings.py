"""Ratings of policies from the results of their matches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openskill.models import PlackettLuce

WIN, DRAW, LOSS = 1.0, 0.5, 0.0
START = 25.0
SPREAD = 25.0 / 3.0
"""Mean and deviation of an unknown skill: openskill's defaults."""
COPY_SPREAD = 1.0
"""Deviation of a policy's skill at the start of a run: small, because its opponents are copies of it."""
ELO_PER_SKILL = 400.0 / 7.87
"""Elo points for one unit of skill: at the same distance (400 points) both expect ten wins for each loss."""


def result_of(reward: float) -> float:
    """Returns the result that an episode's last reward stands for: won, lost or drawn."""
    return WIN if reward > 0 else LOSS if reward < 0 else DRAW


def elo_change(rating: float, opponent: float, result: float, k: float) -> float:
    """Returns the change of a rating after a game: k (result - expected result), Elo 1978; the opponent loses it."""
    expected = 1.0 / (1.0 + math.pow(10.0, min((opponent - rating) / 400.0, 300.0)))  # beyond, the power overflows
    return k * (result - expected)


@dataclass(frozen=True, slots=True)
class Skill:
    """Estimate of a player's strength as a normal distribution. Weng and Lin 2011, through openskill."""

    mean: float = START
    deviation: float = SPREAD

    def less(self, before: Skill) -> tuple[float, float]:
        """Returns the evidence that came since `before`: changes of precision times mean, and of precision."""
        now = self.deviation**-2
        then = before.deviation**-2
        return self.mean * now - before.mean * then, now - then

    def plus(self, evidence: tuple[float, float]) -> Skill:
        """Returns the skill with more evidence: normal distributions multiply by adding these numbers."""
        precision = max(self.deviation**-2 + evidence[1], 1e-6)
        return Skill((self.mean * self.deviation**-2 + evidence[0]) / precision, precision**-0.5)

    def elo(self, initial: float) -> float:
        """Returns the mean on Elo's scale, where `initial` is a beginner's rating."""
        return initial + (self.mean - START) * ELO_PER_SKILL


def rate(players: Sequence[Skill], scores: Sequence[float], *, learning: bool = True) -> list[Skill]:
    """Returns the skills after a game with these scores; equal scores are a draw. `learning`: the players learn, so
    later games count more."""
    model = _model(learning)
    sides = [[model.rating(mu=player.mean, sigma=player.deviation)] for player in players]
    return [Skill(float(side[0].mu), float(side[0].sigma)) for side in model.rate(sides, scores=list(scores))]


def mean_of(skills: Sequence[Skill]) -> Skill:
    """Returns the mean of several estimates of one player's skill."""
    return Skill(
        sum(skill.mean for skill in skills) / len(skills), sum(skill.deviation for skill in skills) / len(skills)
    )


def sums_to_zero(results: Sequence[float]) -> bool:
    """Whether a game's results balance: with two players, one's win is the other's loss; with more, someone won and
    someone lost."""
    if len(results) == 2:
        return sum(results) == 1.0
    return all(result == DRAW for result in results) or (WIN in results and LOSS in results)


@cache
def _model(learning: bool) -> PlackettLuce:
    from openskill.models import PlackettLuce  # slow to import, and most runs do not need it

    return PlackettLuce() if learning else PlackettLuce(tau=0.0)
