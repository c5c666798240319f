"""Compares settings over several seeds, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from palaestra.api.given_runs import Runs, listed, word_of, words_of
from palaestra.api.python_calls import python_call
from palaestra.core.errors import CallError
from palaestra.runtime.comparison.comparing import compare as compare_runs
from palaestra.runtime.comparison.scores import Measure
from palaestra.runtime.comparison.shown_comparison import Comparison


@python_call
def compare(
    runs: Runs | Mapping[str, Runs] = (),
    *,
    groups: str | Sequence[str] | Mapping[str, str | Sequence[str]] = "settings",
    metric: str | None = None,
    behavior: str | Sequence[str] = (),
    bar: float | None = None,
    at: float | None = None,
    last: float = 0.1,
    normalize: str | Sequence[str] = (),
    lower: bool = False,
    confidence: float = 0.95,
    results_dir: str | Path = "results",
) -> Comparison:
    """Compares settings over several seeds, with intervals.

    >>> import palaestra
    >>> comparison = palaestra.compare(["pole", "pole-2"], groups="runs")
    >>> print(comparison)  # doctest: +ELLIPSIS
    CartPole: Environment/Cumulative Reward, ...

    The score of a run is the mean of its last summaries; the score of a group is the interquartile mean (IQM) of its
    runs, with a stratified bootstrap interval.

    runs: run ids, run folders, patterns such as "ball-seed-*", or results of `train` and `train_seeds`; in a dictionary
        they are grouped by its names: {"slow": first, "fast": second}.
    groups: which runs belong together: "settings" (equal apart from the seed), "names" (equal apart from a number at
        the end), "runs" (each on its own), or patterns by name: {"ppo": "ppo-*", "sac": "sac-*"}.
    metric: TensorBoard tag to compare, or its last part; None: the reward.
    behavior: compare only this behavior, or these behaviors; None: all.
    bar: also compare the decisions and the time until a summary reaches this value.
    at: compare at this step; None: at the end of each run.
    last: share of the steps, at the end, over which a score is the mean.
    normalize: rewards that are scaled to 0 and 1: "LOW,HIGH", "TASK=LOW,HIGH" or "minmax".
    lower: lower is better, as for a loss.
    confidence: confidence level of the intervals, such as 0.95.
    results_dir: folder of all runs.

    Returns the `Comparison`. Raises PalaestraError.
    """
    if isinstance(runs, Mapping):
        if groups != "settings":
            raise CallError("runs is a dictionary, whose names are the groups: leave groups out")
        groups = {str(name): words_of(some) for name, some in runs.items()}
        runs = [word for words in groups.values() for word in words]
    if isinstance(groups, Mapping):
        how = {str(name): one.split(",") if isinstance(one, str) else list(one) for name, one in groups.items()}
    else:
        how = [groups] if isinstance(groups, str) else list(groups)
    several = [[one] if isinstance(one, str) else list(one) for one in (behavior, normalize)]
    measure = Measure(metric, several[0], bar, at, last, several[1], lower, confidence)
    return compare_runs([word_of(run) for run in listed(runs)], how, Path(results_dir), measure)
