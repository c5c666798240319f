"""Trackio (https://github.com/gradio-app/trackio): `pip install 'palaestra[trackio]'`, then `--track trackio`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from palaestra.core.files import file_name
from palaestra.runtime.logging.services.run_ids import RunIds, flat, group_of, import_service, videos_in
from palaestra.runtime.logging.services.sender import PATIENCE
from palaestra.runtime.logging.services.service_tracker import ServiceTracker, artifact_name
from palaestra.runtime.logging.tracker import Outcome, Summary, TrackedRun


class TrackioTracker(ServiceTracker):
    """Sends metrics, histograms, settings, models and recordings of a run to one run of Trackio: a local file, or a
    Space.
    """

    def __init__(
        self,
        run: TrackedRun,
        *,
        project: str = "palaestra",
        group: str | None = None,
        space_id: str | None = None,
        server_url: str | None = None,
        models: bool = True,
    ) -> None:
        """`space_id`: a Space of Hugging Face, `server_url`: a server of your own; without them everything stays on
        this machine.
        """
        self._trackio = import_service("trackio", "trackio")
        unsent = f"Trackio has not received everything after {PATIENCE:g} s; metrics.jsonl has all numbers"
        super().__init__(run, "trackio", unsent, models=models)
        self._ids = RunIds(run, "trackio", {"project": project, "space_id": space_id, "server_url": server_url})
        self._given: dict[str, Any] = {
            "project": project,
            "group": group or group_of(run.run_id),
            "space_id": space_id,
            "server_url": server_url,
            "config": {**flat(run.settings.as_dict())},
        }
        self._there: Any = None  # the service's run, opened by the thread with the first call
        self._last = 0

    def _open(self) -> Any:
        if self._there is None:
            known = self._ids.find()
            self._there = self._trackio.init(
                name=known or self._run.run_id, resume="allow" if known else "never", embed=False, **self._given
            )
            self._ids.keep(self._there.name)
        return self._there

    def _write(self, summary: Summary) -> None:
        self._last = max(self._last, summary.step)
        row: dict[str, Any] = {f"{summary.behavior}/{tag}": value for tag, value in summary.values.items()}
        for tag, numbers in summary.histograms.items():
            with suppress(ValueError):  # infinite numbers have no histogram
                row[f"{summary.behavior}/{tag} (histogram)"] = self._trackio.Histogram(numbers)
        self._open().log({f"{summary.behavior}/Time Elapsed": summary.elapsed, **row}, step=summary.step)

    def _model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        artifact = self._trackio.Artifact(
            artifact_name(self._run.run_id, behavior), type="model", metadata={"step": step}
        )
        artifact.add_file(str(path), name=f"{file_name(behavior)}.onnx")
        self._open().log_artifact(artifact, aliases=["latest", "final" if final else f"step-{step}"])

    def _end(self, outcome: Outcome, reason: str) -> None:
        if (
            self._there is not None and outcome != "finished"
        ):  # Trackio does not keep how a run ended: a note of an early end
            level = self._trackio.AlertLevel
            self._there.alert(
                f"Training {outcome}", text=reason or None, level=level.ERROR if outcome == "failed" else level.INFO
            )

    def _finish(self) -> None:
        if self._there is None:
            return
        for video in videos_in(self._run.folder):
            self._there.log({video.name: self._trackio.Video(str(video))}, step=self._last)
        self._there.finish()
