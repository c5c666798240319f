"""A comparison as a table, and as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from palaestra.core.display import decimals_of, duration, readable
from palaestra.runtime.comparison.intervals import Estimate
from palaestra.runtime.comparison.scores import ComparedRuns, TaskScores
from palaestra.runtime.presentation.result_tables import ResultTable

MOST_SETTINGS = 12
"""Most shown settings in which groups differ."""
NEVER = "never: a run that does not reach the bar counts as infinitely late, and more than a quarter of them did not"


def table(found: ComparedRuns) -> str:
    """Returns all tables as text."""
    return "\n\n".join(one.text() for one in tables(found))


def tables(found: ComparedRuns) -> list[ResultTable]:
    """Returns tables of all tasks, overall estimates, probabilities of improvement, differing settings and notes."""
    parts = [_task(found, task) for task in found.tasks]
    if found.overall:
        rows = [[name, f"{one.value:.3f}", _ends(one, "{:.3f}".format)] for name, one in found.overall.items()]
        parts.append(ResultTable(["over all tasks", "IQM", _percent(found)], rows))
    if found.improvements:
        pairs = [
            [f"{left} > {right}", f"{one.value:.2f}", _ends(one, "{:.2f}".format)]
            for (left, right), one in found.improvements.items()
        ]
        parts.append(ResultTable(["probability that a run is better", "P", _percent(found)], pairs))
    if found.settings:
        shown = list(found.settings.items())[:MOST_SETTINGS]
        head = ["settings that differ", *(group.name for group in found.groups)]
        more = len(found.settings) - len(shown)
        rows = [[path, *map(_value, values)] for path, values in shown]
        parts.append(ResultTable(head, rows, notes=[f"and {more} more"] if more else []))
    if found.notes:
        parts.append(ResultTable((), (), notes=[f"note: {note}" for note in found.notes]))
    return parts


def heading(found: ComparedRuns, task: str) -> str:
    """Returns a text that says what the scores of a task measure."""
    measure = found.measure
    where = "of each run" if measure.at is None else f"before step {measure.at:,.0f}"
    span = f"mean of the last {100 * measure.last:g} % {where}" if measure.last else f"last value {where}"
    low_high = found.ranges.get(task)
    scaled = "" if low_high is None else f", {low_high[0]:g} to {low_high[1]:g} as 0 to 1"
    return f"{task}: {found.metrics[task]}, {span}{scaled}{', lower is better' if measure.lower else ''}"


def _task(found: ComparedRuns, task: str) -> ResultTable:
    bar = found.measure.bar
    titles = ["setting", "runs", "IQM", _percent(found), "minimum", "maximum"]
    titles += [] if bar is None else [f"steps to {readable(bar)}", _percent(found), "time", "reached by"]
    rows = list[list[str]]()
    too_few = False
    of_groups = [found.results[group.name, task] for group in found.groups if (group.name, task) in found.results]
    form = partial(
        readable, decimals=decimals_of(value for one in of_groups for value in (*one.scores, one.score.value))
    )
    for group in found.groups:
        result = found.results.get((group.name, task))
        if result is None:
            continue
        scores = result.scores
        row = [
            group.name,
            str(len(scores)),
            form(result.score.value),
            _ends(result.score, form),
            form(scores.min()),
            form(scores.max()),
        ]
        rows.append(row + ([] if bar is None else _to_bar(result)))
        too_few = too_few or (result.to_bar is not None and math.isinf(result.to_bar.value) and result.reached > 0)
    notes = [NEVER] if too_few else []
    return ResultTable(titles, rows, title=heading(found, task), notes=notes)


def _to_bar(result: TaskScores) -> list[str]:
    assert result.to_bar is not None
    assert result.seconds_to_bar is not None
    steps = result.to_bar
    seconds = result.seconds_to_bar
    return [
        _steps(steps.value),
        _ends(steps, _steps),
        duration(seconds.value),
        f"{result.reached} of {len(result.runs)}",
    ]


def _percent(found: ComparedRuns) -> str:
    return f"{100 * found.measure.confidence:g} % interval"


def _steps(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:,.0f}"


def _ends(one: Estimate, form: Callable[[float], str]) -> str:
    if one.low is None or one.high is None:
        return ""
    low = form(one.low)
    high = form(one.high)
    return low if low == high else f"{low} to {high}"


def _value(value: Any) -> str:
    text = "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def as_json(found: ComparedRuns) -> dict[str, Any]:
    """Returns all estimates and the scores of all runs, ready for JSON: infinite values become null."""
    return {
        "tasks": {
            task: {
                "metric": found.metrics[task],
                "range": found.ranges.get(task),
                "groups": {
                    group.name: _numbers(one)
                    for group in found.groups
                    if (one := found.results.get((group.name, task)))
                },
            }
            for task in found.tasks
        },
        "overall": {name: _estimate(one) for name, one in found.overall.items()},
        "improvements": [
            {"better": left, "than": right, **_estimate(one, "probability")}
            for (left, right), one in found.improvements.items()
        ],
        "settings": {
            path: dict(zip((group.name for group in found.groups), values, strict=True))
            for path, values in found.settings.items()
        },
        "confidence": found.measure.confidence,
        "notes": list(found.notes),
    }


def _numbers(result: TaskScores) -> dict[str, Any]:
    runs = [
        {
            "run": one.run,
            "score": one.score,
            "step": one.step,
            "bar_step": _finite(one.bar_step),
            "bar_seconds": _finite(one.bar_seconds),
        }
        for one in result.runs
    ]
    numbers: dict[str, Any] = {"score": _estimate(result.score), "runs": runs}
    if result.to_bar is not None and result.seconds_to_bar is not None:
        numbers |= {
            "to_bar": _estimate(result.to_bar),
            "seconds_to_bar": _estimate(result.seconds_to_bar),
            "reached": result.reached,
        }
    return numbers


def _estimate(one: Estimate, name: str = "iqm") -> dict[str, float | None]:
    return {name: _finite(one.value), "low": _finite(one.low), "high": _finite(one.high)}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
