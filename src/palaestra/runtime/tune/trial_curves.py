"""The curve of a trial's reward, read from the metrics that its run writes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.core import files
from palaestra.core.metrics import GROUP_REWARD, REWARD
from palaestra.runtime.logging.trackers import METRICS

CPU = Path("run_logs", "cpu_seconds.jsonl")
"""File in which a trial's process notes its CPU seconds at each summary."""
STATUS = Path("run_logs", "training_status.json")
"""File in which a run lists its checkpoints."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One summary of a behavior."""

    step: int
    value: float
    weight: float  # episodes for a reward, else 1
    episodes: int


Curve = Sequence[CurvePoint]


def read_curves(run: Path, metric: str, behavior: str | None = None) -> dict[str, list[CurvePoint]]:
    """Returns the curve of a metric for each behavior that has the metric, or only for `behavior`."""
    curves: dict[str, list[CurvePoint]] = {}
    for line in read_lines(run / METRICS):
        name = line.get("behavior")
        step = line.get("step")
        episodes = line.get("episodes")
        value = line.get(GROUP_REWARD) if metric == REWARD and GROUP_REWARD in line else line.get(metric)
        if not (
            isinstance(name, str) and isinstance(step, int) and isinstance(value, int | float) and math.isfinite(value)
        ):
            continue
        if behavior in (None, name):
            count = episodes if isinstance(episodes, int) else 0
            curves.setdefault(name, []).append(
                CurvePoint(step, float(value), float(count) if metric == REWARD else 1.0, count)
            )
    return curves


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Returns the maps in a file of JSON lines, without incomplete lines; empty if it is missing."""
    found: list[dict[str, Any]] = []
    with suppress(OSError):
        for line in files.read_lines(file):
            with suppress(ValueError, RecursionError):
                if isinstance(one := json.loads(line), dict):
                    found.append(one)
    return found


def final_step(run: Path, behavior: str) -> int:
    """Returns a behavior's decisions when its training ended; 0 if the run's files do not show it."""
    with suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
        return int(json.loads(files.read_whole_text(run / STATUS))[behavior]["final_checkpoint"]["steps"])
    return 0


def ended_at_goal(run: Path, behavior: str) -> bool:
    """Whether a behavior's training ended because it was good enough (stop_when)."""
    with suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
        return json.loads(files.read_whole_text(run / STATUS))[behavior]["ending"]["why"] == "goal"
    return False


def mean_until(curve: Curve, end: int, episodes: int) -> tuple[float, bool]:
    """Returns the mean over the newest of `end` summaries that have `episodes` episodes together, and whether there
    were so many."""
    total = weight = 0.0
    seen = 0
    for point in reversed(curve[:end]):
        total = total + point.value * point.weight
        weight = weight + point.weight
        seen = seen + point.episodes
        if seen >= episodes:
            break
    return (total / weight if weight else curve[end - 1].value), seen >= episodes


def final_value(curves: Mapping[str, Curve], episodes: int) -> float | None:
    """Returns the mean reward at the end, over all behaviors; None if no episode ended."""
    ends = [mean_until(curve, len(curve), episodes)[0] for curve in curves.values() if curve]
    return sum(ends) / len(ends) if ends else None


def value_at(curves: Mapping[str, Curve], mark: int, episodes: int) -> float | None:
    """Returns the mean reward of all behaviors at the first summary from `mark` on; None until all have one."""
    found: list[float] = []
    for curve in curves.values():
        end = next((number for number, point in enumerate(curve, 1) if point.step >= mark), None)
        if end is None:
            return None
        found.append(mean_until(curve, end, episodes)[0])
    return sum(found) / len(found) if found else None


def step_of_bar(curve: Curve, bar: float, episodes: int) -> int | None:
    """Returns the decisions at which the mean reward first was at least `bar`; None if it never was."""
    for end, point in enumerate(curve, 1):
        value, enough = mean_until(curve, end, episodes)
        if enough and value >= bar:
            return point.step
    return None


def cpu_at(run: Path, behavior: str, step: int | None) -> float:
    """Returns the CPU seconds of a run until a behavior's step; all of them if `step` is None."""
    lines = [
        line
        for line in read_lines(run / CPU)
        if isinstance(line.get("cpu"), int | float) and isinstance(line.get("step"), int)
    ]
    if step is not None:
        reached = [float(line["cpu"]) for line in lines if line.get("behavior") == behavior and line["step"] >= step]
        if reached:
            return min(reached)
    return max((float(line["cpu"]) for line in lines), default=0.0)
