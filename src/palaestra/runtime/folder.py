"""The folder of one run: `results/<run-id>/`."""

from __future__ import annotations

import os
import shutil
from difflib import get_close_matches
from pathlib import Path

from palaestra.core.errors import RunError
from palaestra.runtime.files import explain, write_whole
from palaestra.runtime.settings import RunSettings, to_yaml

CONFIGURATION = "configuration.yaml"


class RunFolder:
    """Where a run's files lie, and what may be done with what lies there already."""

    def __init__(self, results: Path, run_id: str) -> None:
        self.results, self.run_id = results, run_id
        self.path = results / run_id
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "run_logs"

    @property
    def exists(self) -> bool:
        return self.path.is_dir()

    def must_exist(self, purpose: str) -> None:
        """Raises RunError, with the nearest names, unless there is such a run."""
        if self.exists:
            return
        try:
            names = sorted(entry.name for entry in self.results.iterdir() if entry.is_dir())
        except OSError:
            names = []
        near = get_close_matches(self.run_id, names, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
        there = "" if near else f" (runs there: {', '.join(names[:10])})" if names else " (there are no runs in it)"
        raise RunError(f"cannot {purpose}: there is no run '{self.run_id}' in {self.results}{hint}{there}")

    def must_be_free(self, force: bool) -> None:
        """Raises RunError where a new run would write over another, unless it is forced to."""
        if self.path.exists() and not force:
            raise RunError(
                f"the run '{self.run_id}' exists already ({self.path}): go on with --resume, begin anew in it with --force, "
                f"or choose another --run-id"
            )

    def create(self, settings: RunSettings) -> None:
        """Makes the folder with the resolved settings in it, both or neither.

        Where one is there (`force`), what an earlier run left stays, but for its checkpoints and its metrics, which
        would mix with the new ones. Raises RunError.
        """
        beside = self.results / f".{self.run_id}.tmp-{os.getpid()}"
        try:
            if self.exists:
                self._clear()
                self.configure(settings)
                return
            beside.mkdir(parents=True)
            write_whole(beside / CONFIGURATION, to_yaml(settings).encode())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside.rename(self.path)
        except OSError as error:
            raise RunError(f"cannot make the run's folder {self.path}: {explain(error)}") from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _clear(self) -> None:
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        for name in ("metrics.jsonl", "run_logs/training_status.json"):
            (self.path / name).unlink(missing_ok=True)

    def configure(self, settings: RunSettings) -> None:
        """Writes the resolved settings."""
        try:
            write_whole(self.path / CONFIGURATION, to_yaml(settings).encode())
        except OSError as error:
            raise RunError(f"cannot write {self.path / CONFIGURATION}: {explain(error)}") from error
