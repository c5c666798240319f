"""Compares a self-play policy with its snapshots: as metrics, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BEATEN, JUDGED = "Self-play/Snapshots Beaten", "Self-play/Snapshots Judged"
WORST_RATE, WORST_STEP = "Self-play/Worst Win Rate", "Self-play/Worst Snapshot"


def standing(rates: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Returns metrics of the win rates against snapshots, each with the snapshot's step; empty if there are none."""
    if not rates:
        return {}
    worst, step = min(rates)
    return {BEATEN: sum(rate > 0.5 for rate, _ in rates), JUDGED: len(rates), WORST_RATE: worst, WORST_STEP: step}


def standing_in_words(values: Mapping[str, float]) -> str:
    """Returns the metrics of `standing` in words; empty if there are none."""
    if not values.keys() >= {BEATEN, JUDGED, WORST_RATE, WORST_STEP}:
        return ""
    which = f"{values[BEATEN]:.0f} of {values[JUDGED]:.0f} snapshots"
    return f"beats {which}; worst: {100 * values[WORST_RATE]:.0f} % against step {values[WORST_STEP]:,.0f}"
