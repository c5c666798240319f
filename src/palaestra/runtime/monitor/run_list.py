"""Finds runs in a results folder: runs of Palaestra and ML-Agents, and folders with only TensorBoard's files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from palaestra.core.files import MODEL_FILES
from palaestra.runtime.storage.run_folder import CONFIGURATION

DEPTH = 4
"""Most folders above a run: ids may contain slashes."""
EVENTS = "events.out.tfevents."


def find_runs(results: Path) -> list[str]:
    """Returns the ids of all runs, without following links out of the folder, sorted."""
    found: list[str] = []
    _search(results, "", found, DEPTH)
    return sorted(found)


def _search(folder: Path, prefix: str, found: list[str], depth: int) -> None:
    try:
        entries = [e for e in os.scandir(folder) if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
    except OSError:
        return
    for entry in entries:
        run_id = f"{prefix}{entry.name}"
        if is_run(Path(entry.path)):
            found.append(run_id)
        elif depth > 1:
            _search(Path(entry.path), f"{run_id}/", found, depth - 1)


def is_run(folder: Path) -> bool:
    """Whether a folder has a run's settings, or TensorBoard's files in it or in its behaviors' folders."""
    if (folder / CONFIGURATION).is_file():
        return True
    try:
        with os.scandir(folder) as entries:
            return any(EVENTS in entry.name for entry in entries)
    except OSError:
        return False


def with_models(results: Path, runs: Iterable[str]) -> list[str]:
    """Returns the runs that have settings and a model file, and so can be watched and played."""
    return [run for run in runs if (results / run / CONFIGURATION).is_file() and _has_model(results / run)]


def _has_model(folder: Path, depth: int = 2) -> bool:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: not entry.name.endswith(MODEL_FILES))
    except OSError:
        return False
    return any(
        entry.name.endswith(MODEL_FILES)
        or (depth > 1 and entry.is_dir(follow_symlinks=False) and _has_model(Path(entry.path), depth - 1))
        for entry in found
    )
