"""Saves a run to another place if its own folder is gone or can no longer be written to."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from palaestra.core.errors import FolderLost, PalaestraError, RunError
from palaestra.core.files import explain
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.run import report
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.run_folder import RunFolder


def rescue(run: Run, error: RunError) -> FolderLost | None:
    """Saves what a run has learned after its folder could not be written to. Returns the error that says where it is and how to go on.

    None where its own folder has it all.
    """
    if run.inference or (run.saved_step == run.step and run.folder.trouble() is None):
        return None
    failed: list[str] = []
    for folder in places(run):
        try:
            save_in(folder, run)
        except (OSError, PalaestraError) as problem:
            shutil.rmtree(folder.path, ignore_errors=True)
            failed.append(f"{folder.path}: {explain(problem) if isinstance(problem, OSError) else problem}")
        else:
            return FolderLost(
                f"{error}. What was learned until step {run.step:,} is saved in {folder.path}; to go on from there: "
                f"{report.resume_command(folder)}",
                folder.path,
            )
    return FolderLost(f"{error}. What was learned since could not be saved in another place either ({'; '.join(failed)})")


def places(run: Run) -> Iterator[RunFolder]:
    """Folders to try: beside the run's own, and among temporary files."""
    *above, name = run.folder.run_id.split("/")
    for number in range(1, 100):
        saved = f"{name}-saved-{run.step}" + (f"-{number}" if number > 1 else "")
        folder = RunFolder(run.folder.results, "/".join((*above, saved)))
        if not folder.path.exists():
            yield folder
            break
    with suppress(OSError):
        yield RunFolder(Path(tempfile.mkdtemp(prefix="palaestra-")), name)


def save_in(folder: RunFolder, run: Run) -> None:
    """Makes a folder from which the run can be resumed; curves and snapshots are copied if they can be read."""
    folder.path.mkdir(parents=True)
    Checkpoints(folder.checkpoints, 1).save(run.step, run.state_dict())
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
