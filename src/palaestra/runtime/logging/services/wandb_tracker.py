"""Weights & Biases (https://wandb.ai): `pip install 'palaestra[wandb]'`, then `--track wandb`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from palaestra.core.display import escaped
from palaestra.core.errors import PluginError
from palaestra.core.files import file_name
from palaestra.runtime.logging.services.run_ids import RunIds, group_of, import_service, videos_in
from palaestra.runtime.logging.services.sender import PATIENCE
from palaestra.runtime.logging.services.service_tracker import ServiceTracker, artifact_name
from palaestra.runtime.logging.tracker import Outcome, Summary, TrackedRun

Mode = Literal["online", "offline", "disabled", "shared"]
MODES = ("online", "offline", "disabled", "shared")
UNREACHABLE = 60.0
"""Seconds after which a run that could not be opened online is recorded offline."""


class WandbTracker(ServiceTracker):
    """Sends metrics, histograms, settings, models and recordings of a run to one run of Weights & Biases."""

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
        self._wandb = import_service("wandb", "wandb")
        self._mode = mode or os.environ.get("WANDB_MODE") or "online"
        if self._mode not in MODES:
            raise PluginError(f"tracker 'wandb': mode is '{self._mode}'; expected one of {', '.join(MODES)}")
        unsent = (
            f"Weights & Biases has not received everything after {PATIENCE:g} s; `wandb sync "
            f"{run.folder / 'wandb'}/run-*` "
            "sends the rest later"
        )
        super().__init__(run, "wandb", unsent, models=models)
        self._ids = RunIds(run, "wandb", {"project": project, "entity": entity})
        self._given: dict[str, Any] = {
            "project": project,
            "entity": entity,
            "name": run.run_id,
            "group": group or group_of(run.run_id),
            "tags": [tags] if isinstance(tags, str) else list(tags),
            "config": run.settings.as_dict(),
            **(init or {}),
        }
        self._must_be_logged_in()
        self._there: Any = None  # the service's run, opened by the thread with the first call
        self._known: set[str] = set()

    def _must_be_logged_in(self) -> None:
        """Raises PluginError if the service does not know who sends; nothing is sent for this."""
        if self._mode not in ("online", "shared"):
            return
        known = False
        with suppress(self._wandb.errors.Error):
            known = self._wandb.login(prompt=False, verify=False)
        if not known:
            raise PluginError(
                "tracker 'wandb': nobody is logged in on this machine; run `wandb login`, or set WANDB_API_KEY, or "
                "record without a "
                "network with --track wandb:mode=offline and send it later with `wandb sync`"
            )

    def _open(self) -> Any:
        if self._there is None:
            known = self._ids.find()
            given = {**self._given, "id": known or uuid4().hex[:8], "resume": "allow" if known else None}
            try:
                self._there = self._init(given, self._mode)
            except self._wandb.errors.CommError as error:
                first = str(error).splitlines()[0]
                self._run.info(
                    f"Weights & Biases cannot be reached ({first}): the run is recorded offline, for `wandb sync` to "
                    "send later"
                )
                if known:
                    self._wandb.teardown()  # the id is taken until the attempt is forgotten
                self._there = self._init({**given, "id": known or uuid4().hex[:8]}, "offline")
            self._ids.keep(
                self._there.id, url=self._there.url if self._mode == "online" and not self._there.offline else None
            )
            if not self._there.offline and self._there.url:
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

    def _model(self, behavior: str, path: Path, step: int, final: bool) -> None:
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
        for video in videos_in(self._run.folder):
            self._there.log({video.name: self._wandb.Video(str(video), format=video.suffix[1:])})
        self._there.finish(exit_code=1 if self._outcome == "failed" else 0)
