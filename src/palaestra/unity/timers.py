"""Hierarchical timers and gauges, separate for each thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from palaestra.runtime.logging.run_times import Timers

F = TypeVar("F", bound=Callable[..., Any])


class _ThreadTimers(threading.local):
    def __init__(self) -> None:
        self.timers = Timers()
        self.metadata: dict[str, str] = {}


_own = _ThreadTimers()


def hierarchical_timer(name: str) -> AbstractContextManager[None]:
    """Times a block, inside the timer that is running."""
    return _own.timers(name)


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
    return _own.timers.whole(_own.metadata)


def reset_timers() -> None:
    """Clears all times, gauges and metadata."""
    _own.__init__()
