"""Times of a run: its clock, the expected end of updates for a user who stops the run, and the file `timers.json`."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import RunError
from palaestra.core.files import explain, write_whole
from palaestra.core.versions import MLAGENTS, palaestra_commit, palaestra_version
from palaestra.runtime.logging.bottleneck import EVALUATION, EXCHANGE, LEARNING, RANKS, SAVING, TRAINER, TimeUse

if TYPE_CHECKING:  # the low-level API, which also has timers, needs no torch
    from palaestra.envs.wrapper import EnvWrapper
    from palaestra.parallel.rank_group import RankGroup
    from palaestra.runtime.collect.learner import Learner

LONG = 1.0
"""Seconds from which a wait is reported."""
SURE = 0.2
"""Share of an update after which its progress predicts its end better than the last update's duration."""


def wait_for(updating: Sequence[Learner]) -> str:
    """Returns the work for which a stopping run waits; empty if the wait is short. `updating`: learners whose updates
    have not ended, the running update first. Safe in a signal handler."""
    if not updating:
        return ""
    passed = time.perf_counter() - updating[0].update_began
    waits = [_left(updating[0], passed), *(learner.last_update for learner in updating[1:])]
    known = [seconds for seconds in waits if seconds is not None]
    if len(known) < len(waits):
        return f"the first update is under way for {passed:.0f} s; how long one takes is not known yet"
    left = sum(known)
    return f"an update is under way, about {spoken(left)} left" if passed + left >= LONG else ""


def _left(learner: Learner, passed: float) -> float | None:
    """Returns the seconds that the present update still takes; None if unknown."""
    from palaestra.trainers.base import Progresses

    last = learner.last_update
    progress = learner.trainer.progress if isinstance(learner.trainer, Progresses) else None
    if progress and (progress > SURE or last is None):
        return passed * (1 - progress) / progress
    return None if last is None else max(0.0, last - passed)


def spoken(seconds: float) -> str:
    """Returns a time as text, rounded up."""
    whole = max(1, -int(-seconds // 1))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


class RunClock:
    """Seconds of a run, by activity."""

    def __init__(
        self, collecting: Mapping[str, float], learners: Mapping[str, Learner], env: EnvWrapper, group: RankGroup
    ) -> None:
        """`collecting`: seconds of the parts of collecting."""
        self.before = 0.0
        """Seconds of the sessions before this one."""
        self._collecting = collecting
        self._learners = learners
        self._group = group
        self._env = env
        self.collecting = 0.0
        """Seconds spent collecting, in `rounds` rounds."""
        self.rounds = 0
        self._parts: dict[str, float] = {SAVING: 0.0, EVALUATION: 0.0}
        self._blocks = Counter[str]()
        self._at_summary: dict[str, list[TimeUse]] = {}
        """By behavior, the times of each rank at its last summary."""
        self.start()

    def start(self) -> None:
        """Starts this session's time, once environment, networks and processes are ready."""
        self._started = time.perf_counter()
        self._ranks_before = self._group.waited
        self._waited_before = self._waited()
        self._busy_before = self._env.busy_seconds()

    def _waited(self) -> float:
        """Returns the seconds spent waiting for trainers' processes."""
        return sum(learner.process.waiting_seconds for learner in self._learners.values())

    @contextmanager
    def spending_on(self, part: str) -> Iterator[None]:
        """Counts the time of a block for SAVING or EVALUATION, without waiting for other processes."""
        start = time.perf_counter()
        waited = self._waited()
        met = self._group.waited
        try:
            yield
        finally:
            self._blocks[part] += 1
            met = self._group.waited - met
            self._parts[part] += time.perf_counter() - start - met - (self._waited() - waited)

    @property
    def session(self) -> float:
        """Seconds since this session started."""
        return time.perf_counter() - self._started

    @property
    def elapsed(self) -> float:
        """Seconds of all sessions."""
        return self.before + self.session

    def spent(self) -> dict[str, float]:
        """Returns this session's seconds by activity: collecting, learning, and other work."""
        exchange = sum(learner.exchange_seconds for learner in self._learners.values())
        others = {
            TRAINER: self._waited() - self._waited_before,
            EXCHANGE: exchange,
            RANKS: self._group.waited - self._ranks_before - exchange,
            SAVING: self._parts[SAVING],
            EVALUATION: self._parts[EVALUATION],
        }
        return {
            **self._collecting,
            LEARNING: sum(learner.learning_seconds for learner in self._learners.values()),
            **{part: seconds for part, seconds in others.items() if seconds > 0},
        }

    def use(self) -> TimeUse:
        """Returns this rank's times."""
        busy = {name: seconds - self._busy_before.get(name, 0.0) for name, seconds in self._env.busy_seconds().items()}
        beside = {name: learner.process.learning_seconds for name, learner in self._learners.items()}
        trainers = {name: seconds for name, seconds in beside.items() if seconds is not None}
        return TimeUse(self.session, self.spent(), busy, trainers)

    def times_since_summary(self, behavior: str, now: list[TimeUse]) -> dict[str, Any]:
        """Returns each rank's times since the last summary of a behavior. `now`: the times of each rank."""
        before = self._at_summary.get(behavior)
        self._at_summary[behavior] = now
        uses = [use.since(None if before is None else before[rank]) for rank, use in enumerate(now)]
        return {"ranks": [use.as_dict() for use in uses]}

    def add_to(self, timers: Timers) -> None:
        """Adds the times of collecting, updates, saving and evaluation to the timers."""
        learners = self._learners.values()
        timers.add(("collect",), self.collecting, count=self.rounds)
        if updates := sum(learner.updates for learner in learners):
            seconds = sum(one.learning_seconds + one.exchange_seconds for one in learners)
            timers.add(("update",), seconds + self._waited() - self._waited_before, count=updates)
        for name, part in (("save", SAVING), ("evaluate", EVALUATION)):
            if self._blocks[part]:
                timers.add((name,), self._parts[part], count=self._blocks[part])


FORMAT = "0.1.0"
PROTOCOL = "1.5.0"
ROOT = "root"


class Timers:
    """A tree of named times, and gauges, in the form of `timers.json`."""

    def __init__(self) -> None:
        self._began = time.time()
        self._start = time.perf_counter()
        self._root = _Timer()
        self._gauges: dict[str, dict[str, float]] = {}

    def add(self, path: Sequence[str], seconds: float, *, count: int = 1, parallel: bool = False) -> None:
        """Sets the time of a block and how often it was entered; `path`: the names of the enclosing blocks, then its
        own.

        `parallel`: the block ran at the same time as others, in another process.
        """
        timer = self._root
        for name in path:
            timer = timer.children.setdefault(name, _Timer())
        timer.total = seconds
        timer.count = count
        timer.parallel = parallel

    def gauge(self, name: str, value: float) -> None:
        """Records a value. A gauge keeps its last, smallest and largest value, and the number of values."""
        gauge = self._gauges.setdefault(name, {"value": value, "min": value, "max": value, "count": 0})
        gauge.update(value=value, min=min(gauge["min"], value), max=max(gauge["max"], value), count=gauge["count"] + 1)

    def tree(self) -> dict[str, Any]:
        """Returns total seconds, count, own seconds and children of every timer."""
        self._root.total = time.perf_counter() - self._start
        self._root.count = 1
        return self._root.tree()

    def whole(self, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Returns the tree with its gauges and metadata in ML-Agents' layout, with `metadata` added."""
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
            **({"palaestra_commit": palaestra_commit()} if palaestra_commit() else {}),
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
