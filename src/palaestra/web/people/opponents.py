"""Brains that a person may choose for mates and opponents, and their ratings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palaestra.core.errors import PalaestraError
from palaestra.core.files import MODEL_FILES, best_file, file_name
from palaestra.core.metrics import ELO
from palaestra.runtime.monitor.bounded_reading import ResultsFiles
from palaestra.runtime.monitor.metrics_reader import MetricsReader
from palaestra.runtime.play.run_models import kept_models, models_by_step, run_folder, split_step
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.runtime.storage.status import TrainingStatus

OWN = ""
"""Choice of opponents: the models of the played run, else the environment's own rule."""
KINDS = {OWN: "the newest model, else the environment's own rule", "heuristic": "heuristic", "random": "random actions"}


def choices(results: Path, runs: Sequence[str], behavior: str) -> dict[str, str]:
    """Returns the brains that can play a behavior, in the form for --brain, with their labels: models by run and step.

    For a run that is watched while it learns, only the newest of its many models is listed.
    """
    found = dict(KINDS)
    for run in runs:
        if run.endswith(MODEL_FILES) or "," in run:  # would be read as a file
            continue
        folder = RunFolder(results, run)
        if not models_by_step(folder, behavior) and not (folder.path / f"{file_name(behavior)}.onnx").is_file():
            continue
        found[f"model:{run}"] = f"run {run}"
        if best_file(folder.path, behavior).is_file():
            found[f"model:{run}@best"] = f"run {run}, best"
        found |= {
            f"model:{run}@{step}": f"run {run}, step {step:,}"
            for step in sorted(kept_models(folder, behavior), reverse=True)
        }
    return found


def rating(results: Path, model: str, behavior: str) -> float | None:
    """Returns the self-play rating of a run's model, given as RUN or RUN@STEP; None if the model has none."""
    run, step = split_step(model, results)
    try:
        folder = run_folder(run, results)
    except PalaestraError:
        return None
    if isinstance(step, int):
        reader = MetricsReader(ResultsFiles(results), folder.path / "metrics.jsonl")
        reader.refresh()
        metrics = reader.behaviors.get(behavior)
        points = None if metrics is None else metrics.points(ELO)
        return None if points is None else float(points.value[abs(points.step - step).argmin()])
    status = TrainingStatus(folder.logs / "training_status.json")
    status.load()
    return status.elo(behavior)
