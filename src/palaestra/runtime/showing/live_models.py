"""Models that a run writes while a person watches it learn: `run_logs/live`.

A viewer touches a file in the folder once a second; while this happens, the run writes its policy about every half
second. Some dozens of models are kept, evenly spread, to look back at.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from palaestra.core.files import file_name

LIVE = Path("run_logs", "live")
"""Folder of these models, inside the run's folder."""
WATCHED = 3.0
"""Seconds for which a run continues to write models after a viewer last asked for them."""
MOST, MOST_BYTES = 48, 2**26
"""Most models of a behavior that are kept, and most bytes of all of them."""


class LiveModels:
    """The folder of one run's live models: `<Behavior>/<Behavior>-<step>.onnx`, the form of other models' names."""

    def __init__(self, run: Path) -> None:
        self._folder = run / LIVE
        self._mark = self._folder / "watched"

    def watch(self) -> None:
        """Asks the run to write models during the next seconds. Has no effect if the folder cannot be written to."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._mark.touch()

    @property
    def watched(self) -> bool:
        """Whether a viewer has asked for models within the last seconds."""
        try:
            return abs(time.time() - self._mark.stat().st_mtime) < WATCHED
        except OSError:
            return False

    def behaviors(self) -> list[str]:
        """Returns the names of the behaviors' folders, in the form of `core.files.file_name`."""
        return sorted(folder.name for folder in self._folder.glob("*/") if folder.is_dir())

    def files(self, behavior: str) -> dict[int, Path]:
        """Returns a behavior's models by their step, in order."""
        return self._files_in(self._folder / file_name(behavior))

    def steps(self) -> list[int]:
        """Returns the steps of the models of all behaviors, in order."""
        return sorted({step for folder in self._folder.glob("*/") for step in self._files_in(folder)})

    def add(self, behavior: str, step: int, write: Callable[[Path], object]) -> None:
        """Adds a model, written by `write`; if there are too many models, drops the one with the closest neighbors."""
        name = file_name(behavior)
        path = self._folder / name / f"{name}-{step}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".part")
        write(whole)
        size = whole.stat().st_size
        whole.replace(path)
        files = self.files(behavior)
        steps = list(files)
        while len(steps) > max(3, min(MOST, MOST_BYTES // max(1, size))):
            at = min(range(1, len(steps) - 1), key=lambda i: steps[i + 1] - steps[i - 1])
            files[steps.pop(at)].unlink(missing_ok=True)

    def drop_after(self, step: int) -> None:
        """Drops models of later steps, which a run that was resumed from an earlier step has not reached."""
        for folder in self._folder.glob("*/"):
            for there, file in self._files_in(folder).items():
                if there > step:
                    file.unlink(missing_ok=True)

    @staticmethod
    def _files_in(folder: Path) -> dict[int, Path]:
        found = ((file.stem.removeprefix(f"{folder.name}-"), file) for file in folder.glob("*.onnx"))
        return dict(sorted((int(step), file) for step, file in found if step.isdecimal()))
