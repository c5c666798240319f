"""The folder of one run: `results/<run-id>/`."""

from __future__ import annotations

import shutil
import time
from difflib import get_close_matches
from pathlib import Path

from palaestra.core.errors import ConfigError, FolderLost, RunError
from palaestra.core.files import explain, file_name, write_whole
from palaestra.runtime.settings import RunSettings, to_yaml
from palaestra.runtime.storage.signature import sign
from palaestra.runtime.storage.trust import CONFIGURATION as CONFIGURATION
from palaestra.runtime.storage.writer_lock import LOCK, WRITER, WriterLock

LOOK_EVERY = 1.0
"""Seconds between two looks at whether the folder is still there."""
HALF = ".*.tmp-*"
"""Names of files that are written beside their place and then renamed."""


def check_run_id(run_id: str) -> None:
    """Raises ConfigError for a name that is no folder on every system, or that leads out of the results folder."""
    for part in run_id.split("/"):
        if part.startswith(("-", ".")) or file_name(part) != part:
            raise ConfigError(
                f"--run-id: '{run_id}' cannot name a folder; use letters, digits, '-', '_' and '.', beginning with a letter or a digit, "
                f"such as 'first' or 'ball/first'"
            )


class RunFolder:
    """Where a run's files lie, and what may be done with what lies there already."""

    def __init__(self, results: Path, run_id: str) -> None:
        self.results, self.run_id = results, run_id
        self.path = results / run_id
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "run_logs"
        self.lock: WriterLock | None = None
        """That of the process that trains here; None in commands that only read."""
        self._looked = 0.0

    @property
    def exists(self) -> bool:
        """Whether a run of that name was begun."""
        return self.path.is_dir() and not self._is_bare()

    def must_exist(self, purpose: str) -> None:
        """Raises RunError, with the nearest names, unless there is such a run."""
        if self.exists:
            return
        if self.path.is_dir():
            begun = " (it ended before it began: leave out --resume to start it)" if purpose == "resume" else ""
            raise RunError(f"cannot {purpose}: {self.path} is no run: it has no {CONFIGURATION}{begun}")
        try:
            names = sorted(entry.name for entry in self.results.iterdir() if entry.is_dir() and not entry.name.startswith("."))
            names = [name for name in names if name != self.run_id]
        except OSError:
            names = []
        near = get_close_matches(self.run_id, names, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
        there = "" if near else f" (runs there: {', '.join(names[:10])})" if names else " (there are no runs in it)"
        anew = " (leave out --resume to start a new one)" if purpose == "resume" else ""
        raise RunError(f"cannot {purpose}: there is no run '{self.run_id}' in {self.results}{hint}{there}{anew}")

    def must_be_free(self, force: bool) -> None:
        """Raises RunError where a new run would write over another, unless it is forced to."""
        if self.path.exists() and not force and not self._is_bare():
            raise RunError(
                f"the run '{self.run_id}' exists already ({self.path}): go on with --resume, begin anew in it with --force, "
                f"or choose another --run-id"
            )

    def _is_bare(self) -> bool:
        """Whether it holds nothing but what a start leaves that then did not begin a run: a lock, logs of games, half a first file."""
        files = [path for path in self.path.rglob("*") if not path.is_dir() and not path.match(HALF)]
        return self.path.is_dir() and all(
            (path.parent == self.logs and path.name.startswith("Player-")) or (path.parent == self.path and path.name in (LOCK, WRITER))
            for path in files
        )

    def create(self, settings: RunSettings) -> None:
        """Begins a run in the folder: its resolved settings are the first file in it.

        Where one is there (`force`), what an earlier run left stays, but for its checkpoints, snapshots and metrics, which
        would mix with the new ones. Raises RunError.
        """
        shutil.rmtree(self.path.with_name(f".{self.path.name}.new"), ignore_errors=True)  # of an earlier version that was killed
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._clear()
        except OSError as error:
            raise RunError(f"cannot make the run's folder {self.path}: {explain(error)}") from error
        self.configure(settings)

    def trouble(self) -> str | None:
        """Why the run's files can no longer be written; None where they can."""
        if self.lock is None:
            return None
        found = self.lock.trouble()
        if found is None and not (self.path / CONFIGURATION).is_file():
            return "was emptied"
        return found

    def must_be_writable(self, *, at_once: bool = True) -> None:
        """Raises FolderLost where the folder was deleted or moved while a run trains, or cannot be written to any more.

        Unless it is to be written to `at_once`, it looks once a second.
        """
        now = time.monotonic()
        if not at_once and now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        if found := self.trouble():
            raise FolderLost(f"the folder of the run '{self.run_id}' ({self.path}) {found} while the run was training")

    def _clear(self) -> None:
        for folder in (self.checkpoints, *self.path.glob("*/snapshots")):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("metrics.jsonl", "run_logs/training_status.json"):
            (self.path / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Clears away the halves of files that a killed run was writing; `Checkpoints` does so for its own."""
        for half in self.path.rglob(HALF):
            if half.is_file() and self.checkpoints not in half.parents:
                half.unlink(missing_ok=True)

    def configure(self, settings: RunSettings) -> None:
        """Writes the resolved settings, and signs them as the user's own."""
        try:
            write_whole(self.path / CONFIGURATION, to_yaml(settings).encode())
            sign(self.path, settings)
        except OSError as error:
            raise RunError(f"cannot write {self.path / CONFIGURATION}: {explain(error)}") from error
