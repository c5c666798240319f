"""Gathers the files of a run for a push: a selection, without details of this machine."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import yaml

from palaestra.core.display import listed
from palaestra.core.errors import PalaestraError, RunError
from palaestra.core.files import explain
from palaestra.hub.contents import CONFIGURATION
from palaestra.runtime.sharing.pushed_files import Kept, choose
from palaestra.runtime.sharing.shareable import shareable, tells_home

ATTEMPTS = 3
"""Times that files are gathered anew while the run trains and replaces them."""
MOST_BYTES = 50_000_000_000
"""Largest file that the Hub takes."""


class Gathered:
    """The files of a run for a push, in a separate folder, since a learning run may replace the originals."""

    def __init__(self, run: Path, checkpoints: Kept) -> None:
        self.notes: list[str] = []
        self.files: list[str] = []
        self.left_out: tuple[str, ...] = ()
        self._run = run
        self._checkpoints: Kept = checkpoints
        self.place = _folder_beside(run)

    def __enter__(self) -> Gathered:
        try:
            for attempt in range(ATTEMPTS):
                try:
                    self._gather()
                    return self
                except FileNotFoundError:  # the run trains, and replaced a checkpoint
                    if attempt == ATTEMPTS - 1:
                        raise
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError) and not isinstance(error, PalaestraError):
                raise RunError(
                    f"the files of {self._run} cannot be gathered: {error.filename or ''}: {explain(error)}"
                ) from error
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def write(self, path: str, body: bytes) -> None:
        """Writes a file among the files to upload; it replaces a file of the same path."""
        (self.place / path).parent.mkdir(parents=True, exist_ok=True)
        (self.place / path).unlink(missing_ok=True)  # it may be a link to the run's own
        (self.place / path).write_bytes(body)
        if path not in self.files:
            self.files.append(path)

    def copy(self, path: str, to: str) -> None:
        """Adds a second copy of a file under another name."""
        shutil.copyfile(self.place / path, self.place / to)
        self.files.append(to)

    def _gather(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        self.files.clear()
        self.notes.clear()
        chosen = choose(self._run, self._checkpoints)
        private = list[str]()
        for path in chosen.files:
            if not self._add(path):
                private.append(path)
        if private:
            self.notes.append(
                f"left out, since the path of your home folder or a token is in them: {', '.join(private)}"
            )
        folders = [re.sub(r"^(checkpoints/\d+|[^/]+/snapshots)/.*", r"\1/", path) for path in chosen.left_out]
        self.left_out = tuple(sorted({*folders, *private}))

    def _add(self, path: str) -> bool:
        """Adds a file of the run; False if it names this machine and cannot be cleaned."""
        source = self._run / path
        target = self.place / path
        if (size := source.stat().st_size) > MOST_BYTES:
            raise RunError(f"{source} has {size:,} bytes; the Hub takes files of at most {MOST_BYTES:,}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if path == CONFIGURATION or path.startswith("run_logs/"):
            try:
                body, taken = shareable(source)
            except (ValueError, RecursionError, yaml.YAMLError):
                return False
            self.write(path, source.read_bytes() if body is None else body)
            self.notes += [f"{what} were taken out of {path}: {listed(places)}" for what, places in taken.items()]
            return True
        if path.endswith(".jsonl") or "tfevents" in path:
            shutil.copyfile(source, target)  # a run that trains adds to it
        else:
            _link(source, target)
        if tells_home(target):
            target.unlink()
            return False
        self.files.append(path)
        return True


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)


def _folder_beside(run: Path) -> Path:
    """Makes a hidden folder beside the run, where its files can be linked to; or one among temporary files."""
    try:
        return Path(tempfile.mkdtemp(prefix=f".{run.name}.push-", dir=run.absolute().parent))
    except OSError:
        return Path(tempfile.mkdtemp(prefix="palaestra-push-"))
