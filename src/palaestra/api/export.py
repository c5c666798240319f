"""Writes a run's policies as ONNX models, from Python."""

from __future__ import annotations

from pathlib import Path

from palaestra.api.given_runs import Run, word_of
from palaestra.api.python_calls import python_call
from palaestra.runtime.play.model_export import Export, export_models


@python_call
def export(
    run: Run,
    *,
    behavior: str | None = None,
    out: str | Path | None = None,
    force: bool = False,
    step: int | None = None,
    policy_inputs: bool = False,
    results_dir: str | Path = "results",
    trust: bool = False,
) -> Export:
    """Writes a run's policies as ONNX models, from its checkpoint. Training already writes them once.

    >>> import palaestra
    >>> exported = palaestra.export("pole", out="pole.onnx", force=True)
    >>> exported.files
    {'CartPole': PosixPath('pole.onnx')}

    run: a run id, a run's folder, or the `Result` of a training.
    behavior: write this behavior only; None: all.
    out: file to write, for a single behavior; None: NAME.onnx in the run's folder.
    force: overwrite the file that `out` names.
    step: step of the checkpoint; None: the last.
    policy_inputs: leave out inputs of a Unity game's model that the critic alone saw (`critic_only`), for builds
    without those sensors.
    results_dir, trust: as for `evaluate`.

    Returns the `Export`: files, and how well they agree with the networks. Raises PalaestraError.
    """
    place = None if out is None else Path(out)
    return export_models(
        word_of(run),
        Path(results_dir),
        behavior=behavior,
        out=place,
        force=force,
        step=step,
        trust=trust,
        policy_inputs=policy_inputs,
    )
