"""Hierarchical timers and gauges, separate for each thread."""

from __future__ import annotations

import functools
import platform
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

TIMER_FORMAT_VERSION = "0.1.0"
F = TypeVar("F", bound=Callable[..., Any])


class TimerNode:
    """Timer: its number of calls, its total time and its child timers."""

    __slots__ = ("children", "count", "is_parallel", "total")

    def __init__(self) -> None:
        self.children: dict[str, TimerNode] = {}
        # seconds, times
        self.total = 0.0
        self.count = 0
        self.is_parallel = False

    def get_child(self, name: str) -> TimerNode:
        """Returns the child timer of a name, and adds it if it is new."""
        return self.children.setdefault(name, TimerNode())

    def add_time(self, elapsed: float) -> None:
        """Adds one call of `elapsed` seconds."""
        self.total += elapsed
        self.count += 1

    def merge(self, other: TimerNode, root_name: str | None = None, is_parallel: bool = True) -> None:
        """Adds another tree's times to this one, under `root_name` if there is one."""
        node = self.get_child(root_name) if root_name else self
        node.total += other.total
        node.count += other.count
        node.is_parallel |= is_parallel
        for name, child in other.children.items():
            node.get_child(name).merge(child, is_parallel=is_parallel)


class GaugeNode:
    """Gauge: the last, least and greatest of a series of values."""

    __slots__ = ("count", "max_value", "min_value", "value")

    def __init__(self, value: float) -> None:
        self.value = self.min_value = self.max_value = value
        self.count = 1

    def update(self, new_value: float) -> None:
        """Adds a value."""
        self.min_value = min(self.min_value, new_value)
        self.max_value = max(self.max_value, new_value)
        self.value = new_value
        self.count += 1

    def merge(self, other: GaugeNode) -> None:
        """Adds the values of another gauge, as later ones."""
        self.min_value = min(self.min_value, other.min_value)
        self.max_value = max(self.max_value, other.max_value)
        self.value = other.value
        self.count += other.count

    def as_dict(self) -> dict[str, float]:
        """Returns the last, least and greatest value, and the number of values."""
        return {"value": self.value, "min": self.min_value, "max": self.max_value, "count": self.count}


class TimerStack:
    """Tree of timers with its gauges, metadata and stack of running timers."""

    __slots__ = ("gauges", "metadata", "root", "stack", "start_time")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Clears all times, gauges and metadata."""
        self.root = TimerNode()
        self.start_time = time.perf_counter()
        self.stack = [self.root]
        self.gauges: dict[str, GaugeNode] = {}
        self.metadata: dict[str, str] = {
            "timer_format_version": TIMER_FORMAT_VERSION,
            "start_time_seconds": str(int(time.time())),
            "python_version": sys.version,
            "platform": platform.platform(),
            "command_line_arguments": shlex.join(sys.argv),
        }

    def push(self, name: str) -> TimerNode:
        """Starts a child of the running timer."""
        node = self.stack[-1].get_child(name)
        self.stack.append(node)
        return node

    def pop(self) -> None:
        """Returns to the parent of the running timer."""
        self.stack.pop()

    def get_root(self) -> TimerNode:
        """Returns the root timer, with its total up to now."""
        self.root.total = time.perf_counter() - self.start_time
        self.root.count = 1
        return self.root

    def get_timing_tree(self, node: TimerNode | None = None) -> dict[str, Any]:
        """Returns the tree as written to timers.json, with gauges and metadata at the root."""
        tree: dict[str, Any] = {}
        if node is None:
            node = self.get_root()
            self.metadata["end_time_seconds"] = str(int(time.time()))
            tree = {
                "name": "root",
                "gauges": {name: gauge.as_dict() for name, gauge in self.gauges.items()},
                "metadata": self.metadata,
            }
        children = {name: self.get_timing_tree(child) for name, child in node.children.items()}
        own = max(0.0, node.total - sum(child.total for child in node.children.values()))
        tree |= {"total": node.total, "count": node.count}
        tree |= {"is_parallel": True} if node.is_parallel else {}
        return tree | {"self": own} | ({"children": children} if children else {})

    def set_gauge(self, name: str, value: float) -> None:
        """Adds a value to a gauge; ignores NaN, which has no order."""
        if value != value:
            return
        if name in self.gauges:
            self.gauges[name].update(value)
        else:
            self.gauges[name] = GaugeNode(value)

    def add_metadata(self, key: str, value: str) -> None:
        """Adds metadata about these times."""
        self.metadata[key] = value


_local = threading.local()
_stacks: dict[threading.Thread, TimerStack] = {}


def _own_stack() -> TimerStack:
    if not hasattr(_local, "stack"):
        _local.stack = _stacks[threading.current_thread()] = TimerStack()
    return _local.stack


def get_timer_stack_for_thread(t: threading.Thread) -> TimerStack | None:
    """Returns the timers of a thread; None if it has none."""
    return _stacks.get(t)


@contextmanager
def hierarchical_timer(name: str, timer_stack: TimerStack | None = None) -> Iterator[TimerNode]:
    """Times the block."""
    stack = timer_stack or _own_stack()
    node = stack.push(name)
    began = time.perf_counter()
    try:
        yield node
    finally:
        node.add_time(time.perf_counter() - began)
        stack.pop()


def timed(func: F) -> F:
    """Decorates a function to time each call, under its qualified name."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with hierarchical_timer(func.__qualname__):
            return func(*args, **kwargs)

    return call  # type: ignore[return-value]


def set_gauge(name: str, value: float, timer_stack: TimerStack | None = None) -> None:
    """Adds a value to a gauge."""
    (timer_stack or _own_stack()).set_gauge(name, value)


def merge_gauges(gauges: Mapping[str, GaugeNode], timer_stack: TimerStack | None = None) -> None:
    """Merges the gauges of another thread or process."""
    mine = (timer_stack or _own_stack()).gauges
    for name, gauge in gauges.items():
        if name in mine:
            mine[name].merge(gauge)
        else:
            mine[name] = gauge


def add_metadata(key: str, value: str, timer_stack: TimerStack | None = None) -> None:
    """Adds metadata about these times."""
    (timer_stack or _own_stack()).add_metadata(key, value)


def get_timer_tree(timer_stack: TimerStack | None = None) -> dict[str, Any]:
    """Returns the tree as written to timers.json."""
    return (timer_stack or _own_stack()).get_timing_tree()


def get_timer_root(timer_stack: TimerStack | None = None) -> TimerNode:
    """Returns the root timer."""
    return (timer_stack or _own_stack()).get_root()


def reset_timers(timer_stack: TimerStack | None = None) -> None:
    """Clears all times, gauges and metadata."""
    (timer_stack or _own_stack()).reset()
