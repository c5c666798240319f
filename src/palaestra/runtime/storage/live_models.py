"""Models that a run writes while someone watches it learn: `run_logs/live`.

Whoever watches touches a file there once a second, and the run, which sees it, writes its policy every half a second or
so. Some dozens are kept, evenly spread, to look back at.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from palaestra.core.files import file_name

LIVE = Path("run_logs", "live")
"""Folder of these models, in that of the run."""
WATCHED = 3.0
"""Seconds for which a run writes after it was last seen to be watched."""
MOST, MOST_BYTES = 48, 2**26
"""Models of a behavior that are kept, and bytes of all of them."""


class LiveModels:
    """The folder of one run's live models: `<Behavior>/<step>.onnx`."""

    def __init__(self, run: Path) -> None:
        self._folder = run / LIVE
        self._mark = self._folder / "watched"

    def watch(self) -> None:
        """Asks the run for models for the next seconds. Has no effect where the folder cannot be written."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._mark.touch()

    @property
    def watched(self) -> bool:
        """Whether someone has asked for models within the last seconds."""
        try:
            return abs(time.time() - self._mark.stat().st_mtime) < WATCHED
        except OSError:
            return False

    def behaviors(self) -> list[str]:
        """Returns the behaviors that have models, as their folders are called (`core.files.file_name`)."""
        return sorted({path.parent.name for path in self._folder.glob("*/*.onnx")})

    def steps(self, behavior: str | None = None) -> list[int]:
        """Returns the steps of a behavior's models, or of all, in order."""
        pattern = "*/*.onnx" if behavior is None else f"{file_name(behavior)}/*.onnx"
        return sorted({int(path.stem) for path in self._folder.glob(pattern) if path.stem.isdecimal()})

    def file(self, behavior: str, step: int) -> Path | None:
        """Returns a behavior's newest model of no later than `step`; None: there is none."""
        found = [one for one in self.steps(behavior) if one <= step]
        return self._path(behavior, found[-1]) if found else None

    def add(self, behavior: str, step: int, write: Callable[[Path], object]) -> None:
        """Adds a model, written by `write`; drops the one whose neighbours are closest where there are too many."""
        path = self._path(behavior, step)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".part")
        write(whole)
        size = whole.stat().st_size
        whole.replace(path)
        steps = self.steps(behavior)
        while len(steps) > max(3, min(MOST, MOST_BYTES // max(1, size))):
            at = min(range(1, len(steps) - 1), key=lambda i: steps[i + 1] - steps[i - 1])
            self._path(behavior, steps.pop(at)).unlink(missing_ok=True)

    def drop_after(self, step: int) -> None:
        """Drops models of later steps, which a run that goes on from an earlier one will not have."""
        for path in self._folder.glob("*/*.onnx"):
            if path.stem.isdecimal() and int(path.stem) > step:
                path.unlink(missing_ok=True)

    def _path(self, behavior: str, step: int) -> Path:
        return self._folder / file_name(behavior) / f"{step}.onnx"
