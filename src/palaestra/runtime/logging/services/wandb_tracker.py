"""Weights & Biases (https://wandb.ai): `pip install 'palaestra[wandb]'`, then `--track wandb`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from palaestra.core.display import escaped
from palaestra.core.errors import PluginError
from palaestra.core.files import file_name, read_whole_text, write_whole
from palaestra.runtime.logging.services.sender import PATIENCE, Sender
from palaestra.runtime.logging.tracker import Outcome, Summary, TrackedRun

Mode = Literal["online", "offline", "disabled", "shared"]
MODES = ("online", "offline", "disabled", "shared")
UNREACHABLE = 60.0
"""Seconds after which a run that could not be opened online is recorded offline."""


class WandbTracker:
    """Sends metrics, histograms, settings, models and recordings of a run to one run of Weights & Biases.

    A separate thread calls the service's library. The first call opens the run in the service.
    """

    def __init__(
        self,
        run: TrackedRun,
        *,
        project: str = "palaestra",
        entity: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        mode: Mode | None = None,
        models: bool = True,
        init: Mapping[str, Any] | None = None,
    ) -> None:
        """`init`: further arguments of wandb.init."""
        try:
            self._wandb: Any = import_module("wandb")
        except ImportError as error:
            raise PluginError(f"tracker 'wandb': {error}; install it with: pip install 'palaestra[wandb]'") from error
        self._run = run
        self._models = models
        self._sender = Sender("wandb")
        self._outcome: Outcome = "stopped"
        self._mode = mode or os.environ.get("WANDB_MODE") or "online"
        if self._mode not in MODES:
            raise PluginError(f"tracker 'wandb': mode is '{self._mode}'; expected one of {', '.join(MODES)}")
        self._id = RunId(run, {"project": project, "entity": entity})
        self._given: dict[str, Any] = {
            "project": project,
            "entity": entity,
            "name": run.run_id,
            "group": group or run.run_id.rpartition("/")[0] or None,
            "tags": [tags] if isinstance(tags, str) else list(tags),
            "config": run.settings.as_dict(),
            **(init or {}),
        }
        self._must_be_logged_in()
        self._there: Any = None  # the service's run, opened by the thread with the first call
        self._known: set[str] = set()

    def _must_be_logged_in(self) -> None:
        """Raises PluginError if the user is not logged in to the service; this check sends nothing."""
        if self._mode not in ("online", "shared"):
            return
        known = False
        with suppress(self._wandb.errors.Error):
            known = self._wandb.login(prompt=False, verify=False)
        if not known:
            raise PluginError(
                "tracker 'wandb': nobody is logged in on this machine; run `wandb login`, or set WANDB_API_KEY, or "
                "record without a network with --track=wandb:mode=offline and send it later with `wandb sync`"
            )

    def write(self, summary: Summary) -> None:
        """Sends the numbers and histograms of one behavior."""
        self._sender.send(partial(self._write, summary))

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Opens the run in the service, and sends the settings."""
        self._sender.send(self._open)

    def record_model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        """Sends an ONNX file, unless a later checkpoint has replaced it in the meantime."""
        if self._models:
            self._sender.send(partial(self._send_model, behavior, path, step, final))

    def record_end(self, outcome: Outcome, reason: str) -> None:
        """Tells the service how the run ended."""
        self._outcome = outcome
        self._sender.send(partial(self._end, outcome, reason))

    def close(self) -> None:
        """Ends the run in the service, and waits until everything is sent, for at most a minute."""
        self._sender.send(self._finish)
        if not self._sender.finish():
            self._run.info(
                f"Weights & Biases has not received everything after {PATIENCE:g} s; `wandb sync "
                f"{self._run.folder / 'wandb'}/run-*` sends the rest later"
            )
        elif self._there is not None and self._there.offline:
            self._run.info(f"Weights & Biases: `wandb sync {shlex.quote(str(self._offline_folder()))}` sends the run")

    def _offline_folder(self) -> Path:
        return self._run.folder / "wandb" / Path(self._there.dir).parent.name

    def _open(self) -> Any:
        if self._there is None:
            known = self._id.find()
            given = {**self._given, "id": known or uuid4().hex[:8], "resume": "allow" if known else None}
            try:
                self._there = self._init(given, self._mode)
            except self._wandb.errors.CommError as error:
                first = str(error).splitlines()[0]
                self._run.info(f"Weights & Biases cannot be reached ({first}): the run is recorded offline")
                if known:
                    self._wandb.teardown()  # the id is taken until the attempt is forgotten
                self._there = self._init({**given, "id": known or uuid4().hex[:8]}, "offline")
            self._id.keep(
                self._there.id, url=self._there.url if self._mode == "online" and not self._there.offline else None
            )
            if self._there.offline:
                self._run.info(f"Weights & Biases: recorded offline in {self._offline_folder()}")
            elif self._there.url:
                self._run.info(f"Weights & Biases: {self._there.url}")
        return self._there

    def _init(self, given: dict[str, Any], mode: str) -> Any:
        self._run.folder.mkdir(parents=True, exist_ok=True)  # else wandb takes a temporary one
        chosen = {"console": "off", "silent": True, "init_timeout": UNREACHABLE, **given.get("settings", {})}
        fixed = {"dir": str(self._run.folder), "mode": mode, "reinit": "create_new", "allow_val_change": True}
        return self._wandb.init(**{**given, **fixed, "settings": self._wandb.Settings(**chosen)})

    def _write(self, summary: Summary) -> None:
        run = self._open()
        name = summary.behavior
        if name not in self._known:
            self._known.add(name)
            run.define_metric(f"{name}/Step", hidden=True)
            run.define_metric(f"{name}/*", step_metric=f"{name}/Step")
        row: dict[str, Any] = {f"{name}/{tag}": value for tag, value in summary.values.items()}
        for tag, numbers in summary.histograms.items():
            with suppress(ValueError):  # infinite numbers have no histogram
                row[f"{name}/{tag} (histogram)"] = self._wandb.Histogram(numbers)
        run.log({f"{name}/Step": summary.step, f"{name}/Time Elapsed": summary.elapsed, **row})

    def _send_model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        if not path.is_file():
            return
        run = self._open()
        name = artifact_name(self._run.run_id, behavior)
        metadata = {"step": step, "file": path.name}
        artifact = self._wandb.Artifact(name, type="model", metadata=metadata)
        artifact.add_file(str(path), name=f"{file_name(behavior)}.onnx")
        run.log_artifact(artifact, aliases=["latest", "final" if final else f"step-{step}"])

    def _end(self, outcome: Outcome, reason: str) -> None:
        if self._there is not None:
            self._there.summary.update({"outcome": outcome, **({"reason": escaped(reason)} if reason else {})})

    def _finish(self) -> None:
        if self._there is None:
            return
        videos = sorted(file for kind in ("gif", "mp4", "webm") for file in self._run.folder.glob(f"*.{kind}"))
        for video in videos:
            self._there.log({video.name: self._wandb.Video(str(video), format=video.suffix[1:])})
        self._there.finish(exit_code=1 if self._outcome == "failed" else 0)


class RunId:
    """Reads and writes `run_logs/wandb.json`, so that a resumed run continues the same run of the service."""

    def __init__(self, run: TrackedRun, place: Mapping[str, str | None]) -> None:
        """`place`: project and entity in the service. An id that belongs elsewhere is not used."""
        self._file = run.folder / "run_logs" / "wandb.json"
        self._place = {key: value for key, value in place.items() if value is not None}
        self._resumed = bool(run.resumed)

    def find(self) -> str | None:
        """Returns the id of the run that is resumed; None: a new run begins."""
        if not self._resumed:
            return None
        try:
            stored = json.loads(read_whole_text(self._file))
            same = all(stored.get(key) == value for key, value in self._place.items())
            return stored["id"] if same and isinstance(stored["id"], str) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def keep(self, run_id: str, url: str | None) -> None:
        """Stores the id, and the run's address."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        whole = {"id": run_id, **self._place, **({} if url is None else {"url": url})}
        write_whole(self._file, json.dumps(whole, indent=2).encode() + b"\n")


def artifact_name(run_id: str, behavior: str) -> str:
    """Returns `<run>-<Behavior>`, with dashes for characters that names of artifacts cannot have."""
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-"
        for letter in f"{run_id}-{behavior}"
    )[:128]
