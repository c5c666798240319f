"""Self-play schedule: which team learns and when this changes, and when opponents change and how they are chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from palaestra.core.rng_state import restore_rng, save_rng
from palaestra.scenario.settings import SelfPlaySettings
from palaestra.scenario.win_rates import WinRates

LEARNING = -1
"""Number of a behavior's learning policy; snapshots count from 0, fixed opponents down from -2."""
FIRST_FIXED = -2
EXPLOITER = 2**40
NEWEST = EXPLOITER + 1
"""Numbers of a behavior's exploiter, and of its learning policy in the exploiter's episodes, from which the policy does
not learn."""


def fixed(number: int) -> int | None:
    """Returns the index of the fixed opponent that a number stands for; None if it stands for another opponent."""
    return FIRST_FIXED - number if number <= FIRST_FIXED else None


def next_team(learning: int, teams: Iterable[int]) -> int:
    """Returns the team that learns next: the next higher number; after the highest number the lowest."""
    present = sorted(teams)
    return next((team for team in present if team > learning), present[0])


@dataclass
class Schedule:
    """Counters of one behavior's self-play, as in ML-Agents: when to take a snapshot, change opponents and change the
    learning team.

    Each event is due when more steps than its setting have passed since it was last due. `step` counts decisions of
    learning agents, `ghost_step` decisions of agents that follow a fixed policy.
    """

    last_save: int = 0
    last_swap: int = 0
    last_change: int = 0
    saves: int = 0
    swaps: int = 0
    changes: int = 0

    def save_due(self, step: int, settings: SelfPlaySettings) -> bool:
        """Whether a snapshot joins the pool now; updates the counter."""
        if step - self.last_save <= settings.save_steps:
            return False
        self.last_save = step
        self.saves = self.saves + 1
        return True

    def swap_due(self, ghost_step: int, settings: SelfPlaySettings) -> bool:
        """Whether the opponents change now; updates the counter."""
        if ghost_step - self.last_swap <= settings.swap_steps:
            return False
        self.last_swap = ghost_step
        self.swaps = self.swaps + 1
        return True

    def change_due(self, step: int, settings: SelfPlaySettings) -> bool:
        """Whether it is the next team's turn to learn."""
        return step - self.last_change > settings.team_change

    def change(self, step: int) -> None:
        """Records that at this step another team begins to learn."""
        self.last_change = step
        self.changes = self.changes + 1

    def state_dict(self) -> dict[str, int]:
        """Returns the fields of this schedule, for a checkpoint."""
        return asdict(self)

    @classmethod
    def of(cls, state: Mapping[str, int]) -> Schedule:
        """Restores the saved counters."""
        return cls(**state)


class Pool:
    """Snapshots to choose opponents from, by number, oldest first."""

    def __init__(self, settings: SelfPlaySettings, seed: int, name: str = "") -> None:
        """Seeds the random stream, a different one for each behavior name."""
        self.settings = settings
        self.numbers = list[int]()
        self.rates = WinRates(settings.priority)
        """Win rates against the snapshots."""
        self._generator = np.random.default_rng([seed, *name.encode()])

    def admit(self, number: int) -> None:
        """Adds a snapshot; with more than `window` snapshots, removes the oldest or the easiest of the others."""
        self._keep([*self.numbers, number])

    def _keep(self, numbers: Sequence[int]) -> None:
        """Keeps the newest, and of the others as many as the window holds, and what is known of them."""
        left, window = list(numbers), self.settings.window
        while self.settings.drop == "easiest" and len(left) > window:
            left.remove(self.rates.easiest(left[:-1]))
        self.numbers = left[-window:]
        self.rates.keep(self.numbers)

    def draw(self, learners: Collection[str] = ()) -> int:
        """Returns a random opponent: a snapshot, LEARNING or one of the fixed opponents. `learners`: the behaviors of
        the learning team; prioritized snapshots are drawn by their win rates."""
        settings = self.settings
        if settings.brains and self._generator.random() < settings.play_against_opponents_ratio:
            return FIRST_FIXED - int(self._generator.integers(len(settings.brains)))
        if self._generator.random() < settings.play_against_latest_model_ratio:
            return LEARNING
        if settings.prioritized and learners:
            chances = self.rates.chances(learners, self.numbers)
            return self.numbers[int(self._generator.choice(len(chances), p=chances))]
        return self.numbers[int(self._generator.integers(len(self.numbers)))]

    def state_dict(self) -> dict[str, Any]:
        """Returns the snapshots' numbers and the state of the random stream."""
        return {
            "numbers": list(self.numbers),
            "chance": save_rng(self._generator),
            "rates": self.rates.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state, also an old one without win rates; a smaller window drops snapshots as `admit` does."""
        self.rates.load_state_dict(state.get("rates", {}))
        self._keep(state["numbers"])
        restore_rng(self._generator, state["chance"])
