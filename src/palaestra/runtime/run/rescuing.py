"""Saves a run in another place if its own folder is gone or cannot be written to."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from palaestra.core.errors import FolderLost, PalaestraError, RunError
from palaestra.core.files import explain
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.parts.part import part_of
from palaestra.runtime.run.commands import resume_command
from palaestra.runtime.run.features.saving import Saving
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.rank_states import with_other_ranks
from palaestra.runtime.storage.run_folder import RunFolder


def rescue(run: Run, error: RunError) -> FolderLost | None:
    """Saves the state of a run after its folder could not be written to. Returns the error that says where the state is
    and how to continue; None if the run's own folder has the whole state."""
    together = run.meetings.lost  # else rank 0 alone has failed, and the others wait for it
    if run.inference:
        return None
    # what it has is safe where the last checkpoint is of this step, and can be read
    saved_step = part_of(run.parts, Saving).saved_step
    if not together and not run.group.first(lambda: saved_step != run.step or run.folder.trouble() is not None):
        return None
    state = with_other_ranks(run.state_dict(), run.group) if together else run.state_dict(alone=True)
    lost = run.group.first(lambda: _save_elsewhere(run, error, state))
    if together:
        found = run.group.from_first(None if lost is None else (str(lost), lost.saved))
        lost = None if found is None else FolderLost(*found)
    return lost


def _save_elsewhere(run: Run, error: RunError, state: dict[str, Any]) -> FolderLost:
    failed: list[str] = []
    for folder in _places(run):
        try:
            _save_in(folder, run, state)
        except (OSError, PalaestraError) as problem:
            shutil.rmtree(folder.path, ignore_errors=True)
            failed.append(f"{folder.path}: {explain(problem) if isinstance(problem, OSError) else problem}")
        else:
            return FolderLost(
                f"{error}. The training up to step {run.step:,} is saved in {folder.path}; to continue from there: "
                f"{resume_command(folder)}",
                folder.path,
            )
    why = "; ".join(failed)
    return FolderLost(f"{error}. The training since then could not be saved in another place either ({why})")


def _places(run: Run) -> Iterator[RunFolder]:
    """Yields folders to try: next to the run's own folder, then in the folder of temporary files."""
    *above, name = run.folder.run_id.split("/")
    for number in range(1, 100):
        saved = f"{name}-saved-{run.step}" + (f"-{number}" if number > 1 else "")
        folder = RunFolder(run.folder.results, "/".join((*above, saved)))
        if not folder.path.exists():
            yield folder
            break
    with suppress(OSError):
        yield RunFolder(Path(tempfile.mkdtemp(prefix="palaestra-")), name)


def _save_in(folder: RunFolder, run: Run, state: dict[str, Any]) -> None:
    """Makes a folder from which the run can be resumed; curves and snapshots are copied if they can be read."""
    folder.path.mkdir(parents=True)
    Checkpoints(folder.checkpoints, 1).save(run.step, state)
    place = {"run_id": folder.run_id, "results_dir": str(folder.results)}
    chosen = run.settings.checkpoint_settings.model_copy(update=place)
    folder.configure(run.settings.model_copy(update={"checkpoint_settings": chosen}))
    status = copy.copy(run.models.status)
    status.file = folder.logs / status.file.name
    status.save()
    with suppress(OSError, shutil.Error):
        shutil.copy(run.folder.path / METRICS, folder.path / METRICS)
    for snapshots in run.folder.path.glob("*/snapshots"):
        with suppress(OSError, shutil.Error):
            shutil.copytree(snapshots, folder.path / snapshots.relative_to(run.folder.path))
