"""The rules of population-based training. Jaderberg et al. 2017, https://arxiv.org/abs/1711.09846.

Trial number `generation * size + member` is one member's training in one generation. After each, the worst share of the
population takes over checkpoint and values of a random one of the best share (section 3: exploit, by truncation), and
its values are moved or drawn anew (explore). Theirs multiplies values by 0.8 or 1.2; here they move by a share of their
range, so that a range as narrow as gamma's works.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaestra.runtime.settings.search_settings import PopulationSettings
from palaestra.runtime.tune.dimensions import Dimension

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, slots=True)
class Member:
    """One training of a population in a generation that is complete."""

    number: int
    values: Mapping[str, Any]
    reward: float | None  # None: it failed


@dataclass(frozen=True, slots=True)
class Descent:
    """The checkpoint and the values that a member's next training starts from."""

    parent: int
    """Number of the trial whose checkpoint it continues from."""
    values: Mapping[str, Any]
    exploited: bool
    """Whether that is another member's."""


def members_of(trials: Sequence[FrozenTrial], size: int, generation: int) -> list[Member]:
    """Returns the members of a generation whose trials have ended, in order."""
    found = [trial for trial in trials if trial.number // size == generation and trial.state.is_finished()]
    return [Member(trial.number, trial.params, trial.values[0] if trial.values else None) for trial in found]


def origins(
    members: Sequence[Member], dimensions: Sequence[Dimension], population: PopulationSettings, seed: str
) -> list[Descent]:
    """Returns what each member's next training starts from. The same for the same arguments, in whichever process.

    Raises ValueError if all have failed.
    """
    rng = random.Random(seed)
    alive = sorted(
        (member for member in members if member.reward is not None),
        key=lambda member: (-(member.reward or 0.0), member.number),
    )
    if not alive:
        raise ValueError("no training of the population is left")
    share = min(max(1, round(len(members) * population.exploit)), max(1, len(alive) // 2))
    best = alive[:share]
    worst = {member.number for member in alive[len(alive) - share :]} if len(alive) > share else set()
    found: list[Descent] = []
    for member in members:
        if member.reward is not None and member.number not in worst:
            found.append(Descent(member.number, member.values, exploited=False))
            continue
        parent = rng.choice(best)
        values = {each.path: _explored(each, parent.values[each.path], population, rng) for each in dimensions}
        found.append(Descent(parent.number, values, exploited=True))
    return found


def _explored(dimension: Dimension, value: Any, population: PopulationSettings, rng: random.Random) -> Any:
    return (
        dimension.draw(rng) if rng.random() < population.resample else dimension.moved(value, population.perturb, rng)
    )


def lineage(parents: Mapping[int, int | None], number: int) -> list[int]:
    """Returns the trials that a trial's training continues, from the first on, itself included."""
    found = [number]
    while (parent := parents.get(found[-1])) is not None and parent < found[-1]:
        found.append(parent)
    return found[::-1]
