"""Numbers that a trainer sets in a game: gravity, a lesson's difficulty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random


class EnvironmentParameters:
    """Unity's: a game asks for them, mostly in `on_episode_begin`, and says what holds where nobody has set one."""

    def __init__(self, values: Mapping[str, float] | None = None) -> None:
        self._draws: dict[str, Callable[[], float]] = {}
        self._callbacks: dict[str, list[Callable[[float], object]]] = {}
        for key, value in (values or {}).items():
            self.set(key, value)

    def get_with_default(self, key: str, default: float) -> float:
        """Its value now; a sampler draws anew at each call."""
        draw = self._draws.get(key)
        return default if draw is None else draw()

    def keys(self) -> list[str]:
        """Those that somebody has set."""
        return list(self._draws)

    def register_callback(self, key: str, callback: Callable[[float], object]) -> None:
        """Has it called with each value that is set (not with a sampler's draws)."""
        self._callbacks.setdefault(key, []).append(callback)

    def set(self, key: str, value: float) -> None:
        """A number, from now on."""
        number = float(value)
        self._draws[key] = lambda: number
        for callback in self._callbacks.get(key, ()):
            callback(number)

    def set_uniform(self, key: str, low: float, high: float, seed: int) -> None:
        """Draws evenly within low..high."""
        random = Random(seed)
        self._draws[key] = lambda: random.uniform(low, high)

    def set_gaussian(self, key: str, mean: float, deviation: float, seed: int) -> None:
        """Draws from a normal distribution."""
        random = Random(seed)
        self._draws[key] = lambda: random.gauss(mean, deviation)

    def set_multirange_uniform(self, key: str, intervals: Sequence[tuple[float, float]], seed: int) -> None:
        """Draws an interval, the wider the likelier, then evenly within it."""
        random, ranges = Random(seed), tuple(intervals)
        weights = [high - low for low, high in ranges]
        self._draws[key] = lambda: random.uniform(*random.choices(ranges, weights if sum(weights) else None)[0])
