"""Reads a run's metrics back from `metrics.jsonl` or from ML-Agents' event files."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

import numpy as np

from palaestra.core.errors import RunError
from palaestra.core.files import explain, read_lines
from palaestra.runtime.logging.event_files import GuardedEvents
from palaestra.runtime.logging.trackers import METRICS

_HEAD = frozenset(("behavior", "step", "time", "elapsed", "training", "episodes", "std"))


@dataclass(frozen=True)
class Points:
    """Values of one tag of one behavior, in three arrays of equal length."""

    step: np.ndarray
    seconds: np.ndarray  # of training
    value: np.ndarray


LARGEST = 1e100
"""Largest size of a number: larger ones, which no axis of a picture can show, are replaced by NaN; so is infinity."""

History: TypeAlias = dict[str, dict[str, Points]]
"""Metrics by behavior and tag."""


def read_history(run: Path) -> History:
    """Reads all metrics of a run. Raises RunError if there are none."""
    try:
        history = _read_jsonl(run / METRICS) if (run / METRICS).exists() else _read_events(run)
    except OSError as error:
        raise RunError(f"cannot read the metrics of {run}: {explain(error)}") from error
    if not run.is_dir():
        raise RunError(f"there is no folder {run}: the run was moved or deleted, or the current folder has changed")
    if not history:
        empty = (run / METRICS).is_file() and (run / METRICS).stat().st_size
        why = (
            "in its summaries so far no episode has ended, and nothing was learned"
            if empty
            else "a run writes its first ones with its first summary, after summary_freq steps"
        )
        raise RunError(f"no metrics in {run}: {why}")
    return history


def tags(histories: Iterable[History]) -> list[str]:
    """Returns the tags of all runs together, sorted."""
    return sorted({tag for history in histories for tagged in history.values() for tag in tagged})


def has_metrics(run: Path) -> bool:
    """Whether a folder is a run of Palaestra or ML-Agents with metrics."""
    return (run / METRICS).is_file() or next(run.glob("**/events.out.tfevents.*"), None) is not None


def find_tags(words: Sequence[str], known: Sequence[str]) -> list[str]:
    """Returns the tags that a user's words select. A word is a name (see `find_tag`), a pattern such as 'Losses/*', or
    several of these separated by commas. Raises RunError if a word selects nothing."""
    names = [part.strip() for word in words for part in ([word] if word in known else word.split(",")) if part.strip()]
    found: dict[str, None] = {}
    for name in names:
        if name in known or not any(sign in name for sign in "*?["):
            found[find_tag(name, known)] = None
            continue
        matches = [tag for tag in known if fnmatchcase(tag.casefold(), name.casefold())]
        if not matches:
            raise RunError(f"no metric matches '{name}'\n  there are:\n    " + "\n    ".join(known))
        found |= dict.fromkeys(matches)
    return list(found)


def find_tag(name: str, known: Sequence[str]) -> str:
    """Returns the tag of a name. The last part, such as 'entropy', is enough if only one tag ends with it. Raises
    RunError, which names similar tags."""
    if name in known:
        return name
    wanted = name.casefold()
    names = {tag: (tag.casefold(), tag.casefold().rpartition("/")[2]) for tag in known}
    alike = [tag for tag, forms in names.items() if wanted in forms]
    if len(alike) == 1:
        return alike[0]
    near = alike or [
        tag for tag, forms in names.items() if wanted in tag.casefold() or get_close_matches(wanted, forms, n=1)
    ]
    hint = f"; did you mean {' or '.join(repr(tag) for tag in near)}?" if near else ""
    raise RunError(f"there is no metric '{name}'{hint}\n  there are:\n    " + "\n    ".join(known))


def _read_jsonl(file: Path) -> History:
    rows: dict[str, dict[str, list[tuple[float, float, float]]]] = defaultdict(lambda: defaultdict(list))
    clocks: dict[str, tuple[float, float]] = {}  # behavior: seconds before its last resume, and since
    for line in read_lines(file):
        try:
            point = json.loads(line)
            behavior = str(point["behavior"])
            step = float(point["step"])
            elapsed = float(point["elapsed"])
            numbers = {
                tag: value for tag, value in point.items() if tag not in _HEAD and isinstance(value, int | float)
            }
            values = {tag: float(value) for tag, value in numbers.items()}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # cut off, or still being written
            continue
        before, since = clocks.get(behavior, (0.0, 0.0))
        before += since if elapsed < since else 0.0
        clocks[behavior] = (before, elapsed)
        for tag, value in values.items():
            rows[behavior][tag].append((step, before + elapsed, value))
    return {behavior: {tag: _points(triples) for tag, triples in tagged.items()} for behavior, tagged in rows.items()}


def _read_events(run: Path) -> History:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history: History = {}
    found = list(run.rglob("events.out.tfevents.*"))
    irregular = {file.parent for file in found if not file.is_file()}
    for folder in sorted({file.parent for file in found} - irregular):
        events = GuardedEvents(folder, EventAccumulator(str(folder), size_guidance={"scalars": 0})).reload()
        scalars = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
        if scalars:
            # of the first summary: the start is not recorded
            began = min(points[0].wall_time for points in scalars.values())
            name = folder.relative_to(run).as_posix() if folder != run else run.name
            history[name] = {
                tag: _points([(point.step, point.wall_time - began, point.value) for point in points])
                for tag, points in scalars.items()
            }
    return history


def _points(triples: Sequence[tuple[float, float, float]]) -> Points:
    table = np.array(triples, float).T
    table[np.abs(table) > LARGEST] = np.nan
    return Points(*table)
