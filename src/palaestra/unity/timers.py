"""Hierarchical timers and gauges, separate for each thread."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from palaestra.runtime.logging.run_times import Timers

F = TypeVar("F", bound=Callable[..., Any])


class _ThreadTimers(threading.local):
    def __init__(self) -> None:
        self.timers = Timers()
        self.metadata: dict[str, str] = {}
        self.path: list[str] = []  # names of the blocks that are running
        self.times: dict[tuple[str, ...], tuple[float, int]] = {}  # seconds and count of each block, by its path


_own = _ThreadTimers()


@contextmanager
def hierarchical_timer(name: str) -> Iterator[None]:
    """Times a block, inside the timer that is running."""
    start = time.perf_counter()
    _own.path.append(name)
    path = tuple(_own.path)
    try:
        yield
    finally:
        _own.path.pop()
        seconds, count = _own.times.get(path, (0.0, 0))
        _own.times[path] = seconds + time.perf_counter() - start, count + 1


def timed(func: F) -> F:
    """Decorates a function to time each call, under its qualified name."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with hierarchical_timer(func.__qualname__):
            return func(*args, **kwargs)

    return call  # type: ignore[return-value]


def set_gauge(name: str, value: float) -> None:
    """Adds a value to a gauge; ignores NaN, which has no order."""
    if value == value:
        _own.timers.gauge(name, value)


def add_metadata(key: str, value: str) -> None:
    """Adds metadata about these times."""
    _own.metadata[key] = value


def get_timer_tree() -> dict[str, Any]:
    """Returns the tree as written to timers.json, with gauges and metadata at the root."""
    for path, (seconds, count) in _own.times.items():
        _own.timers.add(path, seconds, count=count)
    return _own.timers.whole(_own.metadata)


def reset_timers() -> None:
    """Clears all times, gauges and metadata."""
    _own.__init__()
