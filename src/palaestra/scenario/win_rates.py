"""Win rates of learning policies against snapshots, and the probabilities by which snapshots are drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from palaestra.scenario.settings import PrioritySettings

ENOUGH = 10
"""Number of games from which a win rate is reported."""
PRIOR_GAMES = 2.0
"""Number of games that the assumed win rate counts as."""


@dataclass(frozen=True, slots=True)
class Record:
    """Games against one snapshot. Later ones count more."""

    won: float = 0.0  # a draw is half a win
    played: float = 0.0
    games: int = 0  # without decay

    def after(self, result: float, decay: float) -> Record:
        """Returns the record after another game."""
        return Record(decay * self.won + result, decay * self.played + 1.0, self.games + 1)


class WinRates:
    """Win rates against one behavior's snapshots, by learning behavior and number of the snapshot."""

    def __init__(self, settings: PrioritySettings) -> None:
        self._settings = settings
        self._records: dict[str, dict[int, Record]] = {}

    def add(self, learner: str, number: int, result: float) -> None:
        """Adds a game; `result` is the learning policy's result: 1, 1/2 or 0."""
        records = self._records.setdefault(learner, {})
        records[number] = records.get(number, Record()).after(result, self._settings.decay)

    def seen(self, learner: str, number: int) -> float | None:
        """Returns the win rate against a snapshot; None if there were too few games."""
        record = self._records.get(learner, {}).get(number, Record())
        return record.won / record.played if record.games >= ENOUGH else None

    def expected(self, learner: str, number: int) -> float:
        """Returns the win rate against a snapshot, with the prior included."""
        record = self._records.get(learner, {}).get(number, Record())
        return (record.won + PRIOR_GAMES * self._settings.prior) / (record.played + PRIOR_GAMES)

    def chances(self, learners: Collection[str], numbers: Sequence[int]) -> list[float]:
        """Returns the probability of each snapshot. Prioritized fictitious self-play: Vinyals et al. 2019 (AlphaStar),
        https://doi.org/10.1038/s41586-019-1724-z, Methods; the floor is an addition of Palaestra.

        If several behaviors are in the learning team, the mean of their win rates counts.
        """
        rates = [sum(self.expected(one, number) for one in learners) / len(learners) for number in numbers]
        weights = [self._weight(rate) for rate in rates]
        total, even, floor = sum(weights), 1.0 / len(numbers), self._settings.floor
        return [floor * even + (1.0 - floor) * (weight / total if total > 0 else even) for weight in weights]

    def _weight(self, rate: float) -> float:
        return rate * (1.0 - rate) if self._settings.weights == "even" else (1.0 - rate) ** self._settings.power

    def easiest(self, numbers: Sequence[int]) -> int:
        """Returns the snapshot with the highest minimum win rate; among equals the first."""
        learners = [*self._records] or [""]
        return max(numbers, key=lambda number: min(self.expected(one, number) for one in learners))

    def keep(self, numbers: Collection[int]) -> None:
        """Forgets all other snapshots."""
        for learner, records in self._records.items():
            self._records[learner] = {number: record for number, record in records.items() if number in numbers}

    def state_dict(self) -> dict[str, dict[str, list[float]]]:
        """Returns the games."""
        return {
            learner: {str(number): [one.won, one.played, one.games] for number, one in records.items()}
            for learner, records in self._records.items()
        }

    def load_state_dict(self, state: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
        """Restores the games."""
        self._records = {
            learner: {int(number): Record(won, played, int(games)) for number, (won, played, games) in records.items()}
            for learner, records in state.items()
        }
