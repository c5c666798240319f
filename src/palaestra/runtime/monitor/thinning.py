"""Makes curves small and smooth enough to be shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palaestra.runtime.logging.history import Points

MOST = 1000
"""Most points of a curve that are shown."""
DIGITS = 6

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CurveView:
    """How a curve is shown."""

    over_time: bool = False
    smoothing: float = 0.0  # weight of what came before, from 0 to less than 1
    most: int = MOST


def shown(points: Points, view: CurveView) -> list[list[float]]:
    """Returns pairs of step (or hours of training) and value, smoothed, then thinned, without NaN and infinities."""
    x = points.seconds / 3600.0 if view.over_time else points.step
    finite = np.isfinite(x) & np.isfinite(points.value)
    x = x[finite]
    y = smoothed(points.value[finite], view.smoothing)
    at = kept(y, view.most)
    return [[_rounded(left), _rounded(right)] for left, right in zip(x[at].tolist(), y[at].tolist(), strict=True)]


def smoothed(values: Numbers, weight: float) -> Numbers:
    """Returns an exponential moving average whose start is not biased toward zero, as in TensorBoard."""
    if weight <= 0 or not len(values):
        return values
    mean = 0.0
    share = 0.0
    out = []
    for value in values.tolist():
        mean = weight * mean + (1 - weight) * value
        share = weight * share + (1 - weight)
        out.append(mean / share)
    return np.array(out)


def kept(values: Numbers, most: int) -> NDArray[np.int64]:
    """Returns ascending indices of at most `most` values: the first, the last, and the extremes of equal intervals."""
    count = len(values)
    if count <= most:
        return np.arange(count)
    width = -(-count // max(1, (most - 2) // 2))
    padded = np.full(-(-count // width) * width, np.nan)
    padded[:count] = values
    table = padded.reshape(-1, width)
    starts = np.arange(len(table)) * width
    return np.unique(np.concatenate([[0, count - 1], starts + np.nanargmin(table, 1), starts + np.nanargmax(table, 1)]))


def _rounded(number: float) -> float:
    return int(number) if number.is_integer() and abs(number) < 1e15 else float(f"{number:.{DIGITS}g}")
