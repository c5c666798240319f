"""How strong policies are, told from the results of their games."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openskill.models import PlackettLuce

WIN, DRAW, LOSS = 1.0, 0.5, 0.0
START, SPREAD = 25.0, 25.0 / 3.0
"""Mean and deviation of a skill that nothing is known of: openskill's."""
COPY_SPREAD = 1.0
"""Deviation of the skill that a policy begins a run with: its opponents are copies of it, and so as good as it is, whatever that means."""
ELO_PER_SKILL = 400.0 / 7.87
"""Points of Elo that a unit of skill is worth: both then expect ten wins to a loss at the same distance (400 points)."""


def result_of(reward: float) -> float:
    """What an episode's last reward says of it: won, lost or drawn."""
    return WIN if reward > 0 else LOSS if reward < 0 else DRAW


def elo_change(rating: float, opponent: float, result: float, k: float) -> float:
    """What a game adds to a rating; the opponent's loses as much. Elo 1978: k (result - expected result)."""
    expected = 1.0 / (1.0 + math.pow(10.0, min((opponent - rating) / 400.0, 300.0)))  # beyond, a float has no room
    return k * (result - expected)


@dataclass(frozen=True, slots=True)
class Skill:
    """A belief about a strength: a normal distribution. Weng and Lin 2011, through openskill."""

    mean: float = START
    deviation: float = SPREAD

    def elo(self, initial: float) -> float:
        """The mean on Elo's scale, where `initial` is that of a beginner."""
        return initial + (self.mean - START) * ELO_PER_SKILL


def rate(players: Sequence[Skill], scores: Sequence[float], *, learning: bool = True) -> list[Skill]:
    """What one game of any number of sides, with these scores, makes of their skills; equal scores are draws.

    `learning`: players change as time goes by, so that late games count for more.
    """
    model = _model(learning)
    sides = [[model.rating(mu=player.mean, sigma=player.deviation)] for player in players]
    return [Skill(float(side[0].mu), float(side[0].sigma)) for side in model.rate(sides, scores=list(scores))]


def mean_of(skills: Sequence[Skill]) -> Skill:
    """What one player is whom a game's sides say different things of."""
    return Skill(sum(skill.mean for skill in skills) / len(skills), sum(skill.deviation for skill in skills) / len(skills))


def sums_to_zero(results: Sequence[float]) -> bool:
    """Whether the results of one game's sides balance: of two, what one wins the other loses; of more, someone won and someone lost."""
    if len(results) == 2:
        return sum(results) == 1.0
    return all(result == DRAW for result in results) or (WIN in results and LOSS in results)


@cache
def _model(learning: bool) -> PlackettLuce:
    from openskill.models import PlackettLuce  # which takes a moment to load, and most runs never need

    return PlackettLuce() if learning else PlackettLuce(tau=0.0)
