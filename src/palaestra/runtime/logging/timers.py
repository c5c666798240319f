"""Measures how much time the parts of a run take: a tree of named timers, and gauges."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from palaestra.core.errors import RunError
from palaestra.core.files import explain, write_whole
from palaestra.core.versions import MLAGENTS, palaestra_version

FORMAT = "0.1.0"
PROTOCOL = "1.5.0"
ROOT = "root"


class Timers:
    """Timers of a run: `with timers("collect"):` measures a block; blocks may be nested. Not for several threads."""

    def __init__(self) -> None:
        self._began = time.time()
        self._root = self._now = _TimerNode(self, ROOT, None)
        self._root.__enter__()
        self._gauges: dict[str, dict[str, float]] = {}

    def __call__(self, name: str) -> _TimerNode:
        """Returns the timer of that name inside the timer that is running now."""
        now = self._now
        timer = now.children.get(name)
        if timer is None:
            timer = now.children[name] = _TimerNode(self, name, now)
        return timer

    def add(self, path: Sequence[str], seconds: float, *, parallel: bool = False) -> None:
        """Sets the time of a block that was measured elsewhere, by the names of the timers around it and its own.

        `parallel`: it took place beside the others, in another process.
        """
        timer = self._root
        for name in path:
            timer = timer.children.setdefault(name, _TimerNode(self, name, timer))
        timer.total = seconds
        timer.count = max(timer.count, 1)
        timer.parallel = parallel

    def gauge(self, name: str, value: float) -> None:
        """Records a value. A gauge keeps its last, least and greatest value, and the count."""
        gauge = self._gauges.setdefault(name, {"value": value, "min": value, "max": value, "count": 0})
        gauge.update(value=value, min=min(gauge["min"], value), max=max(gauge["max"], value), count=gauge["count"] + 1)

    def shares(self) -> dict[str, float]:
        """Returns the share of the total time that each outermost timer took, the largest first; 'other' is the
        rest.
        """
        total = time.perf_counter() - self._root.since
        parts = sorted(
            ((name, timer.so_far() / total) for name, timer in self._root.children.items()), key=lambda part: -part[1]
        )
        return {**dict(parts), "other": max(0.0, 1.0 - sum(share for _, share in parts))}

    def tree(self) -> dict[str, Any]:
        """Returns total seconds, count, own seconds and children of every timer, running ones included."""
        return self._root.tree()

    def whole(self, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Returns the tree with its gauges and metadata in the layout of ML-Agents, with `metadata` added."""
        return {
            "name": ROOT,
            "gauges": {name: {**gauge, "count": int(gauge["count"])} for name, gauge in self._gauges.items()},
            "metadata": {**self._metadata(), **metadata},
            **self.tree(),
        }

    def write(self, file: Path, metadata: Mapping[str, str]) -> None:
        """Writes `run_logs/timers.json`. Raises RunError."""
        body = self.whole(metadata)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(body, indent=4).encode())
        except OSError as error:
            raise RunError(f"cannot write {file}: {explain(error)}") from error

    def _metadata(self) -> dict[str, str]:
        return {
            "timer_format_version": FORMAT,
            "start_time_seconds": str(int(self._began)),
            "python_version": sys.version,
            "platform": platform.platform(),
            "command_line_arguments": shlex.join(sys.argv),
            "palaestra_version": palaestra_version(),
            "mlagents_version": MLAGENTS,
            "mlagents_envs_version": MLAGENTS,
            "communication_protocol_version": PROTOCOL,
            "pytorch_version": version("torch"),
            "numpy_version": version("numpy"),
            "end_time_seconds": str(int(time.time())),
        }


class _TimerNode:
    __slots__ = ("children", "count", "name", "outer", "parallel", "since", "timers", "total")

    def __init__(self, timers: Timers, name: str, outer: _TimerNode | None) -> None:
        self.timers = timers
        self.name = name
        self.outer = outer
        self.children: dict[str, _TimerNode] = {}
        # since 0: not open
        self.total = 0.0
        self.count = 0
        self.since = 0.0
        self.parallel = False

    def __enter__(self) -> None:
        self.timers._now = self
        self.since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.total += time.perf_counter() - self.since
        self.since = 0.0
        self.count += 1
        self.timers._now = self.outer  # type: ignore[assignment]  # the root is never left

    def so_far(self) -> float:
        return self.total + (time.perf_counter() - self.since if self.since else 0.0)

    def tree(self) -> dict[str, Any]:
        children = {name: timer.tree() for name, timer in self.children.items()}
        total = self.so_far()
        own = max(0.0, total - sum(child["total"] for child in children.values() if "is_parallel" not in child))
        more = {**({"is_parallel": True} if self.parallel else {}), **({"children": children} if children else {})}
        return {"total": total, "count": self.count + bool(self.since), "self": own, **more}
