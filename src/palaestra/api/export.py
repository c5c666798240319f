"""Writes a run's policies as ONNX models, or a run as a static page, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from palaestra.api.given_runs import Run, word_of
from palaestra.api.python_calls import python_call
from palaestra.runtime.play.model_export import Export, export_models
from palaestra.web.publishing.static_site import SiteChoices, StaticSite
from palaestra.web.publishing.static_site import publish as publish_run


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
    """Writes a run's policies as ONNX models, from its checkpoint. A training writes these models already when it ends.

    >>> import palaestra
    >>> exported = palaestra.export("pole", out="pole.onnx", force=True)
    >>> exported.files
    {'CartPole': PosixPath('pole.onnx')}

    run: a run id, a run's folder, or the `Result` of a training.
    behavior: write this behavior only; None: all.
    out: file to write, for a single behavior; None: NAME.onnx in the run's folder.
    force: overwrite the file that `out` names.
    step: step of the checkpoint; None: the last.
    policy_inputs: leave out the model inputs for the critic alone (`critic_only`), for Unity builds without those
        sensors.
    results_dir, trust: as for `evaluate`.

    Returns the `Export`: the files, and how well their outputs agree with the networks' outputs. Raises PalaestraError.
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


@python_call
def publish(
    run: Run,
    out: str | Path = "site",
    *,
    steps: Sequence[int] = (),
    areas: int | None = None,
    env: str | None = None,
    play: bool = True,
    force: bool = False,
    results_dir: str | Path = "results",
    trust: bool = False,
) -> StaticSite:
    """Writes a run as a static page: recorded episodes of its checkpoints, its curve, its models, its policy live.

    >>> import palaestra
    >>> site = palaestra.publish("ball", "site", play=False, force=True)
    >>> site.folder / "index.html"
    PosixPath('site/index.html')

    run: a run id, a run's folder, or the `Result` of a training.
    out: the folder of the page.
    steps: show the checkpoints of these steps; empty: some checkpoints, evenly spread.
    areas: copies of the environment that the page shows; None: up to 9.
    env: the environment; None: the one of the training. Only environments that describe their solid bodies can be
        shown.
    play: let the policy play live in the browser, if the browser can simulate the environment.
    force: replace the folder if it is there.
    results_dir, trust: as for `evaluate`.

    Returns the `StaticSite`: folder, bytes, steps that are shown, whether the policy plays, and notes. Raises
    PalaestraError.
    """
    choices = SiteChoices(steps, areas, env, play)
    return publish_run(word_of(run), Path(out), choices, results=Path(results_dir), force=force, trust=trust)
