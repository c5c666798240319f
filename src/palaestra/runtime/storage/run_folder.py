"""The folder of a run, `results/<run-id>/`: its paths, and checks before writing to it."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from palaestra.core.display import listed, shortened
from palaestra.core.errors import ConfigError, FolderLost, RunError
from palaestra.core.files import MODEL_FILES, explain, file_name, near_files, read_end, tensorflow_files, write_whole
from palaestra.hub.fetching import checkpoint_folder
from palaestra.hub.hub_names import is_hub_name, read_name
from palaestra.runtime.settings import RunSettings, to_yaml
from palaestra.runtime.storage.status import TrainingStatus
from palaestra.runtime.storage.trust import CONFIGURATION as CONFIGURATION
from palaestra.runtime.storage.trust import sign
from palaestra.runtime.storage.writer_lock import LOCK, WRITER, WriterLock

CHECK_EVERY = 1.0
"""Seconds between two checks whether the folder still exists."""
LONGEST_NAME, MOST_BYTES = 120, 200
"""Longest name of a folder, in characters and in bytes, that every file system accepts."""
UNSAVED_SECONDS = 600.0
"""Seconds of training after which a run must have saved a checkpoint: one is due every minute, between two updates."""
HALF = ".*.tmp-*"
"""Pattern of the names of incomplete files, which are renamed when they are complete."""
_MODEL = re.compile(r"([^/]+)/\1-\d+\.onnx|[^/]+-best\.onnx")  # of a checkpoint, or the best
THEIRS = "checkpoint.pt"
"""Name of ML-Agents' file of a behavior's networks."""
EVENTS = "events.out.tfevents.*"
"""Pattern of the names of TensorBoard's files."""


def their_checkpoints(folder: Path) -> list[Path]:
    """Returns ML-Agents' checkpoints in a run's folder, one for each behavior; empty for a folder of Palaestra."""
    return [] if (folder / "checkpoints").is_dir() else sorted(folder.glob(f"*/{THEIRS}"))


def tensorflow_run(folder: Path) -> str:
    """Returns a hint about an ML-Agents folder with TensorFlow's files, at most one level down; '' for others."""
    return (
        ""
        if (folder / "checkpoints").is_dir()
        else tensorflow_files(path.name for depth in ("*", "*/*") for path in folder.glob(depth))
    )


def check_run_id(run_id: str) -> None:
    """Raises ConfigError for a name that some system does not allow for folders, or that leads out of the results."""
    for part in run_id.split("/"):
        if len(part) > LONGEST_NAME or len(part.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise ConfigError(
                f"--run-id: '{shortened(part)}' is too long for the name of a folder; expected at most {LONGEST_NAME} "
                "characters"
            )
        if part.startswith(("-", ".")) or file_name(part) != part:
            raise ConfigError(
                f"--run-id: '{run_id}' cannot name a folder; use letters, digits, '-', '_' and '.', beginning with a "
                "letter or a digit, such as 'first' or 'ball/first'"
            )


def origin_folder(results: Path, run_id: str) -> RunFolder:
    """Returns the folder of the run that `--initialize-from` names; for a run on the Hub, the folder of its newest
    checkpoint."""
    if is_hub_name(run_id):
        place = checkpoint_folder(run_id)
        return RunFolder(place.parent, place.name)
    path = Path(run_id)
    is_path = len(path.parts) > 1 and not (results / path).is_dir() and path.is_dir()  # a path that a shell completed
    return RunFolder(path.parent, path.name) if is_path else RunFolder(results, run_id)


def _names_in(results: Path) -> list[str]:
    """Returns the names of the runs in a folder, also of those one folder further down, such as ball/first."""
    names: list[str] = []
    with suppress(OSError):
        for folder in sorted(entry for entry in results.iterdir() if entry.is_dir() and entry.name[0] != "."):
            within = [] if (folder / CONFIGURATION).is_file() else sorted(folder.glob(f"*/{CONFIGURATION}"))
            if within:
                names += [f"{folder.name}/{file.parent.name}" for file in within]
            elif not RunFolder(results, folder.name)._is_bare():
                names.append(folder.name)
    return names


class RunFolder:
    """Paths of a run's files, and checks of existing files."""

    def __init__(self, results: Path, run_id: str) -> None:
        self.results = results
        self.run_id = run_id
        self.path = results / run_id
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "run_logs"
        self.lock: WriterLock | None = None
        """Lock of the process that trains here; None in commands that only read."""
        self._checked_at = 0.0

    @property
    def exists(self) -> bool:
        """Whether the folder is a run's folder: it has settings, checkpoints, logs, metrics or models of Palaestra or
        ML-Agents."""
        if not self.path.is_dir() or self._is_bare():
            return False
        named = (CONFIGURATION, "checkpoints", "run_logs", "metrics.jsonl")
        patterns = (*(f"*{end}" for end in MODEL_FILES), EVENTS, f"*/{EVENTS}", f"*/{THEIRS}")
        return any((self.path / name).exists() for name in named) or any(
            any(self.path.glob(pattern)) for pattern in patterns
        )

    def trained_file(self) -> Path | None:
        """Returns a file with results of the run's training: a model, or metrics long enough that a checkpoint must
        have been saved.

        None if there is none. Raises RunError."""
        # else a run within this one
        folders = [self.path, *(path for path in self.path.glob("*") if not (path / CONFIGURATION).exists())]
        models = (path for folder in folders for path in folder.glob("*") if path.name.endswith(MODEL_FILES))
        if (model := next(models, None)) is not None:
            return model
        metrics = self.path / "metrics.jsonl"
        status = TrainingStatus(self.logs / "training_status.json")
        if _elapsed(metrics) > UNSAVED_SECONDS:
            return metrics
        status.load()
        return status.file if status.behaviors() else None

    def must_exist(self, purpose: str, asked: str = "") -> None:
        """Raises RunError, with the nearest names, if there is no such run, or if a run of ML-Agents would be resumed.

        `asked`: the line of the settings file that asks for the run, if no flag did.
        """
        trains = purpose in ("resume", "play")
        if self.exists or (not trains and self.path.is_dir() and not self._is_bare()):
            if trains and their_checkpoints(self.path):
                raise RunError(
                    f"cannot {purpose}: {self.path} is a run of ML-Agents, whose checkpoints hold less than a run of "
                    f"ours needs; start a new run with its networks: --run-id=NAME --initialize-from={self.run_id}"
                )
            return
        if is_hub_name(self.run_id):
            repo = read_name(self.run_id).repo
            raise RunError(
                f"cannot {purpose}: {self.run_id} is on the Hub: 'palaestra pull {repo}' brings the run's folder here"
            )
        cannot = "" if purpose == "open" else f"cannot {purpose}: "
        if self.run_id.endswith(MODEL_FILES) and not self.path.exists():
            file = Path(self.run_id)
            what = "is a model file; expected a run" if file.is_file() else "does not exist"
            raise RunError(f"{cannot}the file {file} {what}{'' if file.is_file() else near_files(file, MODEL_FILES)}")
        leave = f"{asked} asks for it: give --set checkpoint_settings.resume=false" if asked else "leave out --resume"
        if self.path.is_dir() and not self._is_bare():
            anew = f"; {leave}, and choose another --run-id, to start a new run" if purpose == "resume" else ""
            raise RunError(f"cannot {purpose}: {self.path} is not a run's folder: {self._content()}{anew}")
        if self.path.is_dir():
            begun = (
                f"the run stopped before it began: {leave} to start it" if purpose == "resume" else "no run has begun"
            )
            raise RunError(f"cannot {purpose}: {self.path} is empty ({begun})")
        names = [name for name in _names_in(self.results) if name != self.run_id]
        near = get_close_matches(self.run_id, names, n=3)
        hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
        there = "" if near else f" (runs there: {listed(names, 10)})" if names else ", which has none"
        anew = f" ({leave} to start a new one)" if purpose == "resume" else ""
        if asked and purpose != "resume":
            anew = f" ({asked} asks for it: give --set checkpoint_settings.initialize_from=null to start without one)"
        for old in (Path("models") / self.run_id, self.results.absolute().parent / "models" / self.run_id):
            if old.is_dir() and any(old.iterdir()):
                raise RunError(
                    f"cannot {purpose}: {old} is a run of ML-Agents before release 3, which saved TensorFlow's "
                    f"networks; train it again into {self.path}{anew}"
                )
        raise RunError(f"{cannot}there is no run '{self.run_id}' in {self.results}{hint}{there}{anew}")

    def must_be_free(self, force: bool, go_on: str = "--resume") -> None:
        """Raises RunError if a new run would overwrite another, unless `force` is set. `go_on` continues the other."""
        if self.path.exists() and not force and not self._is_bare() and not _in_vain(self):
            if self.path.is_dir() and not self.exists:
                raise RunError(f"{self.path} is not free for a new run: {self._content()}; choose another --run-id")
            raise RunError(
                f"the run '{self.run_id}' exists already ({self.path}): continue it with {go_on}, start it again with "
                "--force, or choose another --run-id"
            )

    def _is_bare(self) -> bool:
        """Whether the folder holds only what a failed start leaves: a lock, logs of games, a half-written file."""
        return self.path.is_dir() and not any(self._files())

    def _files(self) -> Iterator[Path]:
        for path in self.path.rglob("*"):
            log = path.parent == self.logs and path.name.startswith("Player-")
            lock = path.parent == self.path and path.name in (LOCK, WRITER)
            if not (log or lock or path.is_dir() or path.match(HALF)):
                yield path

    def _content(self) -> str:
        """Names one thing in a folder that is not a run: a run in a subfolder, else a file."""
        runs = (path.parent for depth in (1, 2, 3) for path in self.path.glob(f"{'*/' * depth}{CONFIGURATION}"))
        if (run := next(runs, None)) is not None:
            return f"it holds other runs, such as '{self.run_id}/{run.relative_to(self.path).as_posix()}'"
        return (
            tensorflow_run(self.path)
            or f"it holds other files, such as {next(self._files()).relative_to(self.path).as_posix()}"
        )

    def create(self, settings: RunSettings) -> None:
        """Starts a run in the folder by writing its resolved settings.

        With `force`, checkpoints, snapshots, metrics, and all models except the last one of an earlier run are removed,
        since they would mix with the new run's files; other files stay. Raises RunError.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._clear()
        except OSError as error:
            raise RunError(f"cannot make the run's folder {self.path}: {explain(error)}") from error
        self.configure(settings)

    def trouble(self) -> str | None:
        """Returns why the run's files can no longer be written; None if they can."""
        if self.lock is None:
            return None
        found = self.lock.trouble()
        if found is None and not (self.path / CONFIGURATION).is_file():
            return "was emptied"
        return found

    def must_be_writable(self) -> None:
        """Raises FolderLost if the folder was deleted, moved or made read-only during the training."""
        self.report(self.trouble())

    def may_be_lost(self) -> bool:
        """Whether the folder can no longer be written to; checks once a second."""
        now = time.monotonic()
        if now - self._checked_at < CHECK_EVERY:
            return False
        self._checked_at = now
        return self.trouble() is not None

    def report(self, trouble: str | None) -> None:
        """Raises FolderLost if there is any trouble."""
        if trouble is not None:
            raise FolderLost(
                f"the folder of the run '{self.run_id}' ({self.path}) {trouble} while the run was training"
            )

    def _clear(self) -> None:
        for folder in (self.checkpoints, *self.path.glob("*/snapshots")):
            shutil.rmtree(folder, ignore_errors=True)
        found = [*self.path.glob("*.onnx"), *self.path.glob("*/*.onnx")]
        models = [path for path in found if path.is_file() and _MODEL.fullmatch(path.relative_to(self.path).as_posix())]
        for path in (*models, self.path / "metrics.jsonl", self.path / "run_logs/training_status.json"):
            path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Removes half-written files of a killed run; `Checkpoints` removes its own."""
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


def _elapsed(metrics: Path) -> float:
    try:
        last = read_end(metrics, 1 << 20).splitlines()[-1]
        return float(json.loads(last)["elapsed"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0.0


def _in_vain(run: RunFolder) -> bool:
    """Whether a run ended before its first summary and had no checkpoint after step 0."""
    saved = [path.name for path in run.checkpoints.glob("*")]
    return saved == ["0"] and not (run.path / "metrics.jsonl").exists() and run.trained_file() is None
