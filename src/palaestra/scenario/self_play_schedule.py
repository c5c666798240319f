"""Self-play in numbers: which team learns, when that changes, when opponents do, and who they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from palaestra.core.rng_state import restore_rng, save_rng
from palaestra.scenario.settings import SelfPlaySettings

LEARNING = -1
"""The number of a behavior's policy that learns; those of its snapshots count from 0, those of fixed opponents fall from -2."""
FIRST_FIXED = -2


def fixed(number: int) -> int | None:
    """Which of the fixed opponents a number means; None: none of them."""
    return FIRST_FIXED - number if number <= FIRST_FIXED else None


def next_team(learning: int, teams: Iterable[int]) -> int:
    """Whose turn it is after this team: the next higher number, after the highest the lowest."""
    present = sorted(teams)
    return next((team for team in present if team > learning), present[0])


@dataclass
class Schedule:
    """When one behavior's snapshots are taken, its opponents swapped and its turn to learn ends: ML-Agents' counters.

    Each is due once its steps exceed, by more than the setting, those at which it was last due. `step` counts decisions of
    agents that learn, `ghost_step` those of agents that follow a fixed policy.
    """

    last_save: int = 0
    last_swap: int = 0
    last_change: int = 0
    saves: int = 0
    swaps: int = 0
    changes: int = 0

    def save_due(self, step: int, settings: SelfPlaySettings) -> bool:
        """Whether a snapshot joins the pool now; counts it."""
        if step - self.last_save <= settings.save_steps:
            return False
        self.last_save, self.saves = step, self.saves + 1
        return True

    def swap_due(self, ghost_step: int, settings: SelfPlaySettings) -> bool:
        """Whether the opponents are drawn anew now; counts it."""
        if ghost_step - self.last_swap <= settings.swap_steps:
            return False
        self.last_swap, self.swaps = ghost_step, self.swaps + 1
        return True

    def change_due(self, step: int, settings: SelfPlaySettings) -> bool:
        """Whether it is the next team's turn to learn."""
        return step - self.last_change > settings.team_change

    def change(self, step: int) -> None:
        """Counts a turn that is over."""
        self.last_change, self.changes = step, self.changes + 1

    def state_dict(self) -> dict[str, int]:
        """All counters."""
        return asdict(self)

    @classmethod
    def of(cls, state: Mapping[str, int]) -> Schedule:
        """The counters that were saved."""
        return cls(**state)


class Pool:
    """The snapshots that opponents are drawn from, by number, oldest first."""

    def __init__(self, settings: SelfPlaySettings, seed: int, name: str = "") -> None:
        """Behaviors of other names draw from other streams, of whatever seed."""
        self.settings, self.numbers = settings, list[int]()
        self._generator = np.random.default_rng([seed, *name.encode()])

    def admit(self, number: int) -> None:
        """Takes a snapshot in; the oldest beyond `window` goes."""
        self.numbers = [*self.numbers, number][-self.settings.window :]

    def draw(self) -> int:
        """An opponent: a snapshot, all equally likely; LEARNING: the policy as it is now; or one of the fixed opponents."""
        settings = self.settings
        if settings.opponents and self._generator.random() < settings.play_against_opponents_ratio:
            return FIRST_FIXED - int(self._generator.integers(len(settings.opponents)))
        if self._generator.random() < settings.play_against_latest_model_ratio:
            return LEARNING
        return self.numbers[int(self._generator.integers(len(self.numbers)))]

    def state_dict(self) -> dict[str, Any]:
        """The numbers, and where the stream of chance is."""
        return {"numbers": list(self.numbers), "chance": save_rng(self._generator)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there; a smaller window keeps the newest."""
        self.numbers = list(state["numbers"])[-self.settings.window :]
        restore_rng(self._generator, state["chance"])
