"""`palaestra.compare` and the command line's `compare`: estimates for groups of runs, in one or several tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from palaestra.core.errors import ConfigError, RunError
from palaestra.core.metrics import GROUP_REWARD, REWARD
from palaestra.core.plugins import nearest
from palaestra.core.wording.voice import voiced
from palaestra.runtime.comparison.intervals import Estimate, estimate, improvement
from palaestra.runtime.comparison.scores import Measure, RunScore, TaskScores, cleaned, ranges, score
from palaestra.runtime.comparison.selection import (
    Grouping,
    RunGroup,
    differences,
    grouped,
    pattern_words,
    select_runs,
    short_names,
)
from palaestra.runtime.comparison.shown_comparison import Comparison
from palaestra.runtime.logging.history import History, Points, find_tag, read_history, tags

MOST_PAIRS_OF = 8
"""Most groups of which all pairs are compared; if there are more, each group is compared with the first."""
MOST_TASKS = 64
"""Most tasks that are compared at once: each has its own estimates and panels."""
UNNAMED = "(run)"
"""Task name of runs whose event files are directly in their folder, without a behavior's name."""


def compare(runs: Sequence[str], groups: Grouping, results: Path, measure: Measure) -> Comparison:
    """Compares runs, by the words that name them, in groups: see `grouped`. Raises ConfigError or RunError."""
    words = runs or pattern_words(groups)
    if not words:
        raise ConfigError("name runs to compare, such as 'first-seed-*', or patterns of runs with --groups")
    folders = short_names(select_runs(words, results, "compare").values())
    return compare_groups(grouped(folders, groups), folders, measure)


def compare_groups(groups: Sequence[RunGroup], folders: Mapping[str, Path], measure: Measure) -> Comparison:
    """Compares groups of runs, which lie in these folders. Raises ConfigError or RunError."""
    names = [run for group in groups for run in group.runs]
    histories = {run: _by_task(read_history(folders[run]), folders[run]) for run in names}
    metrics = task_metrics(histories, measure)
    raw = {
        task: {run: histories[run][task][tag] for run in names if tag in histories[run].get(task, {})}
        for task, tag in metrics.items()
    }
    bounds = ranges(measure.normalize, {task: list(curves.values()) for task, curves in raw.items()})
    notes: list[str] = []
    results = {}
    for task, curves in raw.items():
        for group in groups:
            found = _scores({run: curves[run] for run in group.runs if run in curves}, measure, bounds.get(task), notes)
            if found:
                results[group.name, task] = _of_group(found, measure)
    if not results:
        raise RunError(
            f"no run reaches the step {measure.at:,.0f} at which the runs would be compared (--at)"
            if measure.at
            else "no metrics"
        )
    overall = _overall(groups, list(metrics), bounds, results, measure, notes)
    pairs = list(combinations([group.name for group in groups], 2))
    pairs = pairs if len(groups) <= MOST_PAIRS_OF else [pair for pair in pairs if pair[0] == groups[0].name]
    found = [_improvement(pair, list(metrics), results, measure) for pair in pairs]
    between = dict(one for one in found if one is not None)
    notes = [*remarks(groups, results, measure), *notes]
    differ = differences(groups, folders) if len(groups) > 1 else {}
    said = tuple(dict.fromkeys(map(voiced, notes)))
    return Comparison(measure, tuple(groups), metrics, bounds, results, overall, between, differ, said)


def _by_task(history: History, folder: Path) -> History:
    """Names tasks by behavior. Runs of other tools have no behavior name if event files lie in the run's own folder."""
    return {
        UNNAMED if name == folder.name and len(history) == 1 and not (folder / name).is_dir() else name: tagged
        for name, tagged in history.items()
    }


def task_metrics(histories: Mapping[str, History], measure: Measure) -> dict[str, str]:
    """Returns the metric of each task that is compared. Raises RunError for a metric or a behavior that no run has."""
    tasks = list(dict.fromkeys(task for history in histories.values() for task in history))
    if unknown := [name for name in measure.behaviors if name not in tasks]:
        raise RunError(
            f"no run has a behavior '{unknown[0]}'{nearest(unknown[0], tasks)} (there are: {', '.join(tasks)})"
        )
    tasks = [task for task in tasks if not measure.behaviors or task in measure.behaviors]
    known = tags(histories.values())
    wanted = None if measure.metric is None else find_tag(measure.metric, known)
    found = {}
    for task in tasks:
        tagged = [history[task] for history in histories.values() if task in history]
        if wanted is not None:
            tag = wanted
        else:
            tag = GROUP_REWARD if all(GROUP_REWARD in one for one in tagged) else REWARD
        if any(tag in one for one in tagged):
            found[task] = tag
    if len(found) > MOST_TASKS:
        raise RunError(
            f"the runs have {len(found):,} behaviors; at most {MOST_TASKS} are compared at once: choose some with "
            "--behavior"
        )
    if not found:
        raise RunError(
            f"no run has the metric '{wanted or REWARD}'; choose one with --metric (there are: {', '.join(known)})"
        )
    return found


def _scores(
    curves: Mapping[str, Points], measure: Measure, bounds: tuple[float, float] | None, notes: list[str]
) -> list[RunScore]:
    found = []
    for run, points in curves.items():
        curve = cleaned(points, bounds)
        one = None if curve is None else score(run, curve, measure)
        if one is not None:
            found.append(one)
        elif curve is None:
            notes.append(f"{run} is left out: its values are not finite")
        else:
            notes.append(f"{run} is left out: its summaries cover steps {curve.step[0]:,.0f} to {curve.step[-1]:,.0f}")
    return found


def _of_group(runs: Sequence[RunScore], measure: Measure) -> TaskScores:
    confidence = measure.confidence
    value = estimate([np.array([run.score for run in runs])], confidence=confidence)
    if measure.bar is None:
        return TaskScores(tuple(runs), value)
    steps = estimate([np.array([run.bar_step for run in runs])], confidence=confidence)
    return TaskScores(
        tuple(runs), value, steps, estimate([np.array([run.bar_seconds for run in runs])], confidence=confidence)
    )


def _overall(
    groups: Sequence[RunGroup],
    tasks: Sequence[str],
    bounds: Mapping[str, object],
    results: Mapping[tuple[str, str], TaskScores],
    measure: Measure,
    notes: list[str],
) -> dict[str, Estimate]:
    """Returns the estimate over all tasks of each group that has them all, if several tasks are all normalized."""
    if len(tasks) < 2:
        return {}
    if any(task not in bounds for task in tasks):
        notes.append(
            "tasks have rewards of different scales: --normalize=minmax makes an estimate over all of them possible"
        )
        return {}
    found = {}
    for group in groups:
        strata = [results[group.name, task].scores for task in tasks if (group.name, task) in results]
        if len(strata) < len(tasks):
            notes.append(f"{group.name} has no estimate over all tasks: it has runs of {len(strata)} of {len(tasks)}")
            continue
        if len(set(map(len, strata))) > 1:
            notes.append(
                f"{group.name} has more runs in some tasks than in others: these count more in its estimate over all "
                "tasks"
            )
        found[group.name] = estimate(strata, confidence=measure.confidence)
    return found


def _improvement(
    pair: tuple[str, str], tasks: Sequence[str], results: Mapping[tuple[str, str], TaskScores], measure: Measure
) -> tuple[tuple[str, str], Estimate] | None:
    """Returns a pair of groups, the better one first, and how probably that is better; None without a task of both."""
    shared = [task for task in tasks if all((name, task) in results for name in pair)]
    if not shared:
        return None
    sign = -1.0 if measure.lower else 1.0
    left, right = ([sign * results[name, task].scores for task in shared] for name in pair)
    one = improvement(left, right, confidence=measure.confidence)
    if one.value >= 0.5:
        return pair, one
    return (pair[1], pair[0]), improvement(right, left, confidence=measure.confidence)


def remarks(groups: Sequence[RunGroup], results: Mapping[tuple[str, str], TaskScores], measure: Measure) -> list[str]:
    """Returns reasons why these results are less certain than they look."""
    notes = []
    fewest = min(len(result.runs) for result in results.values())
    if fewest == 1:
        notes.append("a single run has no interval: train more seeds, such as with 'palaestra learn --seeds 5'")
    elif fewest < 5:
        notes.append(f"intervals of {fewest} runs are rough: with five or more they can be relied on")
    for task in dict.fromkeys(task for _, task in results):
        ends = [run.step for group in groups if (found := results.get((group.name, task))) for run in found.runs]
        if max(ends) > 1.1 * min(ends):
            where = f"{task}: " if len({task for _, task in results}) > 1 else ""
            notes.append(
                f"{where}runs end at different steps, {min(ends):,.0f} to {max(ends):,.0f}"
                + ("" if measure.at else f": --at {min(ends):.0f} compares all at the same one")
            )
    return notes
