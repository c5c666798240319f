"""Summarizes all seeds of a setting: a table, with the mean and its interval."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from palaestra.core.display import decimals_of, duration, readable
from palaestra.core.errors import PalaestraError
from palaestra.runtime.comparison.comparing import compare_groups
from palaestra.runtime.comparison.scores import Measure
from palaestra.runtime.comparison.selection import RunGroup
from palaestra.runtime.comparison.shown_comparison import Comparison
from palaestra.runtime.logging.history import has_metrics, read_history
from palaestra.runtime.presentation.labelled_lines import labelled, wrapped
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.seeds.seed_plan import SeedPlan

MOST_PLAYED = 5
"""Most runs in the command that plays them."""


def seed_comparison(plan: SeedPlan) -> Comparison | None:
    """Returns the scores of all runs that have summaries, as one group; None if there are none."""
    folders = {}
    for run in plan.runs:
        if not has_metrics(run.folder.path):
            continue
        try:
            read_history(run.folder.path)
        except PalaestraError:
            continue
        folders[run.folder.run_id] = run.folder.path
    try:
        return compare_groups([RunGroup(plan.name, tuple(folders))], folders, Measure()) if folders else None
    except PalaestraError:  # a game that ends no episodes has no rewards
        return None


def seed_tables(plan: SeedPlan, states: Mapping[int, str], found: Comparison | None) -> list[ResultTable]:
    """Returns a table for each behavior: a row for each seed, the interquartile mean below. `states`: outcomes."""
    tasks = found.tasks if found is not None else [""]
    return [_task(plan, states, found, task) for task in tasks]


def seed_ending(plan: SeedPlan, states: Mapping[int, str]) -> list[str]:
    """Returns the lines below the tables: the models' files, and the next commands. `states`: each seed's outcome."""
    first = plan.runs[0].folder
    elsewhere = "" if first.results == Path("results") else f" --results-dir={shlex.quote(str(first.results))}"
    with_models = [run.folder for run in plan.runs if next(run.folder.path.glob("*.onnx"), None) is not None]
    names = dict.fromkeys(file.name for folder in with_models for file in sorted(folder.path.glob("*.onnx")))
    models = [str(first.results / plan.pattern / name) for name in names]
    commands = []
    if {"stopped", "interrupted", "not started"} & set(states.values()):
        seeds = ",".join(str(run.seed) for run in plan.runs)
        beside = "" if plan.at_once == 1 else f" --side-by-side={plan.at_once}"
        name = shlex.quote(plan.name)
        commands.append(f"palaestra learn --run-id={name} --seeds={seeds}{beside}{elsewhere} --resume")
    if any(has_metrics(run.folder.path) for run in plan.runs):
        commands.append(f"palaestra compare {shlex.quote(plan.pattern)}{elsewhere}")
    if with_models and plan.named_env:
        played = [str(folder.path) if elsewhere else folder.run_id for folder in with_models[:MOST_PLAYED]]
        commands.append(f"palaestra evaluate {shlex.join(played)}")
    if find_spec("nicegui") is not None:
        commands.append(f"palaestra view{elsewhere}")
    return [*labelled("models", models[:MOST_PLAYED]), *labelled("next", wrapped(commands, indent=0))]


def _task(plan: SeedPlan, states: Mapping[int, str], found: Comparison | None, task: str) -> ResultTable:
    result = None if found is None else found.results.get((plan.name, task))
    scores = {} if result is None else {one.run: one for one in result.runs}
    rows = list[list[str]]()
    form = partial(readable, decimals=decimals_of(one.score for one in scores.values()))
    for run in plan.runs:
        one = scores.get(run.folder.run_id)
        numbers = ["", "", "no summary"]
        if one is not None:
            numbers = [f"{one.step:,.0f}", duration(float(one.curve.seconds[-1])), form(one.score)]
        rows.append([run.folder.run_id, *numbers, states.get(run.seed, "")])
    notes = list[str]()
    if result is not None:
        score = result.score
        values = result.scores
        ends = (
            ""
            if score.low is None or score.high is None
            else f", 95 % interval {readable(score.low)} to {readable(score.high)}"
        )
        deviation = None if len(values) < 2 else _two_digits(float(np.std(values, ddof=1)))
        spread = "" if deviation is None else f" ± {deviation} (standard deviation)"
        notes.append(
            f"interquartile mean {readable(score.value)}{ends}; "
            f"mean {readable(values.mean())}{spread} of {len(values)} seeds"
        )
    return ResultTable([task or "run", "steps", "time", "reward", ""], rows, notes=notes)


def _two_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
