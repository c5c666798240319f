"""Interquartile means of few runs, with bootstrap intervals: estimates for a setting trained with several seeds.

Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice",
https://arxiv.org/abs/2108.13264. The intervals are percentiles of a bootstrap that is stratified by task: runs are
drawn again with replacement, within each task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 10_000
"""Bootstrap samples of a single number."""
BAND_RESAMPLES = 2_000
"""Bootstrap samples of each point of a curve, of which there are many."""
CONFIDENCE = 0.95
PART = 2_000_000
"""Most numbers that are drawn at once."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its interval; the ends are None for a single run, which shows no spread."""

    value: float
    low: float | None
    high: float | None


def interquartile_mean(values: Floats) -> Floats:
    """Returns the mean of the middle half, along the last axis: a quarter of the values, rounded down, is left out at
    each end.

    Infinite values are allowed; they count as greater than any finite value.
    """
    count = values.shape[-1]
    cut = count // 4
    return np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)


def estimate(
    strata: Sequence[Floats], *, confidence: float = CONFIDENCE, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Returns the interquartile mean of all scores together. `strata` has an array with the scores of all runs for each
    task."""
    value = float(interquartile_mean(np.concatenate(strata)))
    if max(map(len, strata)) < 2:
        return Estimate(value, None, None)
    rng = np.random.default_rng(seed)
    drawn = [
        interquartile_mean(np.concatenate([_again(scores, count, rng) for scores in strata], axis=1))
        for count in _parts(strata, resamples)
    ]
    low, high = interval(np.concatenate(drawn), confidence)
    return Estimate(value, float(low), float(high))


def band(
    curves: Floats, *, confidence: float = CONFIDENCE, seed: int = 0, resamples: int = BAND_RESAMPLES
) -> tuple[Floats, Floats, Floats]:
    """Returns interquartile mean, lower and upper end at each point of `curves` (runs, points). Whole runs are drawn,
    so that neighboring points belong together. With a single run all three are equal."""
    middle = interquartile_mean(curves.T)
    runs, points = curves.shape
    if runs < 2:
        return middle, middle, middle
    chosen = np.random.default_rng(seed).integers(runs, size=(resamples, runs))
    low = np.empty(points)
    high = np.empty(points)
    step = max(1, PART // chosen.size)
    for at in range(0, points, step):
        drawn = interquartile_mean(np.moveaxis(curves[:, at : at + step][chosen], 1, -1))  # (resamples, points)
        low[at : at + step], high[at : at + step] = interval(drawn, confidence)
    return middle, low, high


def improvement_probability(left: Sequence[Floats], right: Sequence[Floats]) -> float:
    """Returns the probability that a run of `left` scores higher than a run of `right`: the mean over tasks of the
    share of pairs in which it does, where a tie counts half (Mann and Whitney's U over the number of pairs)."""
    return float(np.mean([_wins(mine[None], theirs[None])[0] for mine, theirs in zip(left, right, strict=True)]))


def improvement(
    left: Sequence[Floats],
    right: Sequence[Floats],
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Returns `improvement_probability` with its interval. Both arguments hold an array with the scores of all runs for
    each task."""
    value = improvement_probability(left, right)
    if max(map(len, [*left, *right])) < 2:
        return Estimate(value, None, None)
    rng = np.random.default_rng(seed)
    drawn = []
    for count in _parts([np.repeat(mine, len(theirs)) for mine, theirs in zip(left, right, strict=True)], resamples):
        wins = [_wins(_again(a, count, rng), _again(b, count, rng)) for a, b in zip(left, right, strict=True)]
        drawn.append(np.mean(wins, axis=0))
    low, high = interval(np.concatenate(drawn), confidence)
    return Estimate(value, float(low), float(high))


def interval(drawn: Floats, confidence: float) -> Floats:
    """Returns two percentiles along the first axis that enclose this share of the values, which may be infinite."""
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    if np.isfinite(drawn).all():
        return np.quantile(drawn, ends, axis=0)
    return np.quantile(drawn, ends, axis=0, method="higher")  # between a number and infinity there is none


def _again(scores: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Draws as many scores as there are, with replacement, `count` times: (count, runs)."""
    return scores[rng.integers(len(scores), size=(count, len(scores)))]


def _wins(left: Floats, right: Floats) -> Floats:
    mine = left[:, :, None]
    theirs = right[:, None, :]
    return ((mine > theirs) + 0.5 * (mine == theirs)).mean(axis=(1, 2))


def _parts(strata: Sequence[Floats], resamples: int) -> list[int]:
    """Returns the sizes of the parts in which samples are drawn, so that each fits into memory."""
    size = max(1, PART // sum(map(len, strata)))
    return [min(size, resamples - at) for at in range(0, resamples, size)]
