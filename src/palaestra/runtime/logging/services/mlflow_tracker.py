"""MLflow (https://mlflow.org): `pip install 'palaestra[mlflow]'`, then `--track mlflow`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaestra.core.files import file_name
from palaestra.runtime.logging.services.run_ids import RunIds, flat, group_of, import_service, videos_in
from palaestra.runtime.logging.services.sender import PATIENCE
from palaestra.runtime.logging.services.service_tracker import ServiceTracker
from palaestra.runtime.logging.tracker import Outcome, Summary, TrackedRun

STATUS: Mapping[Outcome, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
LONGEST_PARAM = 6000
LONGEST_TAG = 5000
BATCH = 100
"""Settings in one message at most."""


class MLflowTracker(ServiceTracker):
    """Sends metrics, settings, models and recordings of a run to one run of MLflow, which has no histograms.

    The settings are its parameters. The final model goes to `models/`, the others to `models/<Behavior>/`.
    """

    def __init__(
        self,
        run: TrackedRun,
        *,
        tracking_uri: str | None = None,
        experiment: str = "palaestra",
        tags: Mapping[str, str] | Sequence[str] = (),
        models: bool = True,
    ) -> None:
        """`tracking_uri`: a server, or `sqlite:///FILE`; default: MLFLOW_TRACKING_URI, else `mlflow.db` in the current
        folder.
        """
        self._mlflow = import_service("mlflow", "mlflow")
        self._uri = tracking_uri or self._mlflow.get_tracking_uri()
        if self._uri.startswith("sqlite:"):
            import_service("mlflow", "sqlalchemy", "alembic")
        unsent = (
            f"MLflow at {self._uri} has not received everything after {PATIENCE:g} s; metrics.jsonl has all numbers"
        )
        super().__init__(run, "mlflow", unsent, models=models)
        self._experiment = experiment
        self._tags = (
            dict(tags)
            if isinstance(tags, Mapping)
            else dict.fromkeys([tags] if isinstance(tags, str) else tags, "true")
        )
        self._ids = RunIds(run, "mlflow", {"tracking_uri": self._uri, "experiment": experiment})
        self._client: Any = None
        self._id = ""  # of the service's run, opened by the thread with the first call

    def _open(self) -> str:
        if self._id:
            return self._id
        self._client = self._client or self._mlflow.MlflowClient(tracking_uri=self._uri)
        known = self._ids.find()
        if known:
            self._client.set_terminated(known, "RUNNING")
            opened = known
        else:
            group = group_of(self._run.run_id)
            tags = {**self._tags, **({"group": group} if group else {}), "mlflow.source.name": "palaestra"}
            opened = self._client.create_run(self._experiment_id(), tags=tags, run_name=self._run.run_id).info.run_id
            self._ids.keep(opened)
            self._send_settings(opened)
        self._client.log_dict(opened, self._run.settings.as_dict(), "configuration.yaml")
        self._run.info(f"MLflow: run {opened} of experiment '{self._experiment}' at {self._uri}")
        self._id = opened
        return opened

    def _experiment_id(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        return self._client.create_experiment(self._experiment) if found is None else found.experiment_id

    def _send_settings(self, run: str) -> None:
        """Parameters cannot change: a resumed run keeps those that it began with; `configuration.yaml` there has the
        newest.
        """
        param = self._mlflow.entities.Param
        params = [
            param(_allowed(key), str(value)[:LONGEST_PARAM])
            for key, value in flat(self._run.settings.as_dict()).items()
        ]
        for first in range(0, len(params), BATCH):
            self._client.log_batch(run, params=params[first : first + BATCH])

    def _write(self, summary: Summary) -> None:
        run = self._open()
        metric = self._mlflow.entities.Metric
        at = int(summary.time * 1000)
        values = {**summary.values, "Time Elapsed": summary.elapsed}
        rows = [
            metric(_allowed(f"{summary.behavior}/{tag}"), value, at, summary.step)
            for tag, value in values.items()
            if math.isfinite(value)
        ]
        for first in range(0, len(rows), BATCH):
            self._client.log_batch(run, metrics=rows[first : first + BATCH])

    def _model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        self._client_log(path, "models" if final else f"models/{file_name(behavior)}")

    def _client_log(self, path: Path, folder: str) -> None:
        run = self._open()
        self._client.log_artifact(run, str(path), folder)

    def _end(self, outcome: Outcome, reason: str) -> None:
        if self._id and reason:
            self._client.set_tag(self._id, "reason", reason[:LONGEST_TAG])

    def _finish(self) -> None:
        if not self._id:
            return
        for video in videos_in(self._run.folder):
            self._client_log(video, "videos")
        self._client.set_terminated(self._id, STATUS[self._outcome])


def _allowed(name: str) -> str:
    """Returns the name with dashes for letters that MLflow refuses."""
    return "".join(letter if letter.isalnum() or letter in "_/-. :" else "-" for letter in name)[:250]
