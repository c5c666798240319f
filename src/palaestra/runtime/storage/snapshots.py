"""Snapshots of self-play, `<run>/<Behavior>/snapshots/<step>.safetensors`, which `palaestra league` plays."""

from __future__ import annotations

import os
from pathlib import Path

from safetensors.torch import load_file, save
from torch import Tensor

from palaestra.core.errors import RunError
from palaestra.core.files import explain, file_name, regular, write_whole
from palaestra.runtime.storage.shared_tensors import Shared, SharedFiles

MOST = 20
"""Largest number of snapshot files of a behavior. Beyond it, the file whose removal leaves the most even steps is
removed, but never the first or the last."""
SUFFIX = ".safetensors"


class SnapshotFiles:
    """Snapshot files of a run."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def add(self, behavior: str, step: int, weights: Shared) -> None:
        """Writes a snapshot, which takes no disk space if a checkpoint has it too, and removes one if there are too
        many. Raises RunError."""
        folder = self.folder(behavior)
        file = folder / f"{step}{SUFFIX}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                file.unlink(missing_ok=True)
                os.link(SharedFiles(self._run / "checkpoints").path(weights.digest), file)
            except OSError:  # no checkpoint has it, or the file system has no links
                write_whole(file, save({key: value.contiguous().cpu() for key, value in weights.tensors.items()}))
            for superfluous in too_many(self.steps(behavior)):
                (folder / f"{superfluous}{SUFFIX}").unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"cannot write a snapshot to {folder}: {explain(error)}") from error

    def drop_after(self, behavior: str, step: int) -> None:
        """Removes the snapshots of later steps, when a run resumes from `step`."""
        for later in self.steps(behavior):
            if later > step:
                (self.folder(behavior) / f"{later}{SUFFIX}").unlink(missing_ok=True)

    def steps(self, behavior: str) -> list[int]:
        """Returns the steps of the snapshots, in ascending order."""
        folder = self.folder(behavior)
        if not folder.is_dir():
            return []
        return sorted(int(file.stem) for file in folder.glob(f"*{SUFFIX}") if file.stem.isdecimal())

    def load(self, behavior: str, step: int) -> dict[str, Tensor]:
        """Loads the weights of a snapshot, on the CPU. Raises RunError."""
        file = self.folder(behavior) / f"{step}{SUFFIX}"
        try:
            os.close(regular(str(file), os.O_RDONLY))
            return load_file(file)
        except Exception as error:  # safetensors raises an error class of its own
            raise RunError(f"cannot read the snapshot {file}: {error}") from error

    def folder(self, behavior: str) -> Path:
        """Returns the folder of a behavior's snapshots."""
        return self._run / file_name(behavior) / "snapshots"


def too_many(steps: list[int]) -> list[int]:
    """Returns the steps to remove, so that MOST steps stay and the gaps between them grow as little as possible."""
    kept = list(steps)
    gone = list[int]()
    while len(kept) > MOST:
        gaps = [kept[i + 1] - kept[i - 1] for i in range(1, len(kept) - 1)]
        gone.append(kept.pop(1 + gaps.index(min(gaps))))
    return gone
