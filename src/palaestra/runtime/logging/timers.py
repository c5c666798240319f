"""The file `timers.json`: how much time the parts of a run took, and gauges."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """A tree of named times, and gauges, as `timers.json` has them."""

    def __init__(self) -> None:
        self._began = time.time()
        self._start = time.perf_counter()
        self._root = _Timer()
        self._gauges: dict[str, dict[str, float]] = {}

    def add(self, path: Sequence[str], seconds: float, *, count: int = 1, parallel: bool = False) -> None:
        """Sets the time of a block, by the names of the blocks around it and its own, and how often it was entered.

        `parallel`: it took place beside the others, in another process.
        """
        timer = self._root
        for name in path:
            timer = timer.children.setdefault(name, _Timer())
        timer.total = seconds
        timer.count = count
        timer.parallel = parallel

    def gauge(self, name: str, value: float) -> None:
        """Records a value. A gauge keeps its last, least and greatest value, and the count."""
        gauge = self._gauges.setdefault(name, {"value": value, "min": value, "max": value, "count": 0})
        gauge.update(value=value, min=min(gauge["min"], value), max=max(gauge["max"], value), count=gauge["count"] + 1)

    def tree(self) -> dict[str, Any]:
        """Returns total seconds, count, own seconds and children of every timer."""
        self._root.total = time.perf_counter() - self._start
        self._root.count = 1
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


@dataclass
class _Timer:
    total: float = 0.0
    count: int = 0
    parallel: bool = False
    children: dict[str, _Timer] = field(default_factory=dict)

    def tree(self) -> dict[str, Any]:
        children = {name: timer.tree() for name, timer in self.children.items()}
        own = max(0.0, self.total - sum(one["total"] for one in children.values() if "is_parallel" not in one))
        more = {**({"is_parallel": True} if self.parallel else {}), **({"children": children} if children else {})}
        return {"total": self.total, "count": self.count, "self": own, **more}
