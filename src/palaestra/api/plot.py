"""Draws learning curves of one or several runs, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from palaestra.api.given_runs import Runs, words_of
from palaestra.api.python_calls import python_call
from palaestra.core.files import must_be_new
from palaestra.runtime.comparison.run_curves import curves_of_runs
from palaestra.runtime.plots.chart_style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@python_call
def plot(
    runs: Runs,
    *,
    metric: str | Sequence[str] = (),
    x: Literal["step", "time"] = "step",
    smooth: float | None = None,
    out: str | Path | None = None,
    force: bool = False,
    results_dir: str | Path = "results",
) -> Figure:
    """Draws learning curves of one or several runs.

    >>> import palaestra
    >>> figure = palaestra.plot("pole")
    >>> figure = palaestra.plot(["pole", "pole-2"], metric="Losses/*", out="losses.png", force=True)

    runs: run ids, run folders, patterns such as "ball-seed-*", or results of `train` and `train_seeds`. Runs of
        ML-Agents are read from their TensorBoard event files.
    metric: TensorBoard tags, their last parts, or patterns such as "Losses/*"; none: the reward.
    x: the horizontal axis: "step" (decisions) or "time" (of training).
    smooth: weight of earlier values, from 0 to below 1; None: chosen by the noise of the curves.
    out: file to write too, in the format of its name: .png, .svg, .pdf.
    force: overwrite that file.
    results_dir: folder of all runs.

    Returns a figure of matplotlib, which a notebook shows; it belongs to no window and changes nothing in pyplot.
    Raises PalaestraError.
    """
    if out is not None:
        must_be_new(Path(out), force=force)
    figure = curves_of_runs(
        words_of(runs),
        [metric] if isinstance(metric, str) else metric,
        Path(results_dir),
        by_time=x == "time",
        smooth=smooth,
    )
    if out is not None:
        save(figure, Path(out))
    return figure
