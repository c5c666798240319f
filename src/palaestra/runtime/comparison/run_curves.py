"""Draws the curves of runs that a user names, for `palaestra.plot` and the command `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.core.errors import ConfigError
from palaestra.core.metrics import REWARD
from palaestra.runtime.comparison.selection import select_runs
from palaestra.runtime.logging.history import History, find_tags, read_history, tags
from palaestra.runtime.plots.curves import environment_name, learning_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def histories_of(words: Sequence[str], results: Path) -> tuple[dict[str, History], dict[str, Path]]:
    """Returns the metrics and the folders of runs, by the words that name them. Raises RunError."""
    folders = select_runs(words, results, "plot")
    return {run: read_history(folder) for run, folder in folders.items()}, folders


def curves_of_runs(
    words: Sequence[str], metrics: Sequence[str], results: Path, *, by_time: bool, smooth: float | None
) -> Figure:
    """Draws metrics, by default the reward, of runs. Raises ConfigError or RunError."""
    if smooth is not None and not 0 <= smooth < 1:
        raise ConfigError(f"--smooth is {smooth:g}; expected a number from 0 to below 1")
    runs, folders = histories_of(words, results)
    chosen = find_tags(list(metrics) or [REWARD], tags(runs.values()))
    names = {run: folder.name for run, folder in folders.items()}
    shown = {names[run]: history for run, history in runs.items()} if len(set(names.values())) == len(names) else runs
    environment = environment_name(folders.values())
    return learning_curves(shown, chosen, by_time=by_time, smooth=smooth, environment=environment)
