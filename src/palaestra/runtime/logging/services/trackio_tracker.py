"""Trackio (https://github.com/gradio-app/trackio): `pip install 'palaestra[trackio]'`, then `--track trackio`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from palaestra.core.files import file_name
from palaestra.runtime.logging.services.run_ids import RunIds, flat, group_of, import_service, videos_in
from palaestra.runtime.logging.services.sender import PATIENCE, Sender
from palaestra.runtime.logging.tracker import Outcome, Summary, TrackedRun


class TrackioTracker:
    """Sends metrics, histograms, settings, models and recordings of a run to one run of Trackio: a local file, or a Space."""

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
        """`space_id`: a Space of Hugging Face, `server_url`: a server of your own; without them everything stays on this machine."""
        self._trackio = import_service("trackio", "trackio")
        self._run, self._models = run, models
        self._ids = RunIds(run, "trackio", {"project": project, "space_id": space_id, "server_url": server_url})
        self._given: dict[str, Any] = {
            "project": project,
            "group": group or group_of(run.run_id),
            "space_id": space_id,
            "server_url": server_url,
            "config": {**flat(run.settings.as_dict())},
        }
        self._sender = Sender("trackio")
        self._there: Any = None  # the service's run, opened by the thread with the first call
        self._outcome: Outcome = "stopped"
        self._last = 0

    def write(self, summary: Summary) -> None:
        """Sends the numbers and histograms of one behavior, with its decisions as the step."""
        self._last = max(self._last, summary.step)
        self._sender.send(partial(self._write, summary))

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Opens the run in the service; the settings are its config."""
        self._sender.send(self._open)

    def record_model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        """Sends an ONNX file as a version of the artifact `<run>-<Behavior>`."""
        if self._models:
            self._sender.send(partial(self._model, behavior, path, step, final))

    def record_end(self, outcome: Outcome, reason: str) -> None:
        """Leaves a note of an end that came early: Trackio does not keep how a run ended."""
        self._outcome = outcome
        if outcome != "finished":
            self._sender.send(partial(self._alert, outcome, reason))

    def close(self) -> None:
        """Ends the run there, and waits until everything is sent, for at most a minute."""
        self._sender.send(self._finish)
        if not self._sender.finish():
            self._run.info(f"Trackio has not received everything after {PATIENCE:g} s; metrics.jsonl has all numbers")

    def _open(self) -> Any:
        if self._there is None:
            known = self._ids.find()
            self._there = self._trackio.init(
                name=known or self._run.run_id, resume="allow" if known else "never", embed=False, **self._given
            )
            self._ids.keep(self._there.name)
        return self._there

    def _write(self, summary: Summary) -> None:
        row: dict[str, Any] = {f"{summary.behavior}/{tag}": value for tag, value in summary.values.items()}
        for tag, numbers in summary.histograms.items():
            with suppress(ValueError):  # infinite numbers have no histogram
                row[f"{summary.behavior}/{tag} (histogram)"] = self._trackio.Histogram(numbers)
        self._open().log({f"{summary.behavior}/Time Elapsed": summary.elapsed, **row}, step=summary.step)

    def _model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        if not path.is_file():  # a later checkpoint has replaced it
            return
        artifact = self._trackio.Artifact(_allowed(f"{self._run.run_id}-{behavior}"), type="model", metadata={"step": step})
        artifact.add_file(str(path), name=f"{file_name(behavior)}.onnx")
        self._open().log_artifact(artifact, aliases=["latest", "final" if final else f"step-{step}"])

    def _alert(self, outcome: Outcome, reason: str) -> None:
        if self._there is not None:
            level = self._trackio.AlertLevel
            self._there.alert(f"Training {outcome}", text=reason or None, level=level.ERROR if outcome == "failed" else level.INFO)

    def _finish(self) -> None:
        if self._there is None:
            return
        for video in videos_in(self._run.folder):
            self._there.log({video.name: self._trackio.Video(str(video))}, step=self._last)
        self._there.finish()


def _allowed(name: str) -> str:
    """Returns the name with dashes for what the names of artifacts may not have."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in name)[:128]
