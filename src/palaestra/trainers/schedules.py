"""How learning rate, entropy coefficient and clip range fall with the steps."""

from __future__ import annotations

from palaestra.trainers.settings import Schedule

LAST_LEARNING_RATE, LAST_EPSILON, LAST_BETA = 1e-10, 0.1, 1e-5
"""Where a linear schedule ends, as in ML-Agents."""


def scheduled(schedule: Schedule, first: float, last: float, step: int, max_steps: int) -> float:
    """`first` all along, or on a line from `first` at step 0 to `last` at `max_steps`."""
    if schedule == "constant":
        return first
    return (first - last) * (1 - min(step, max_steps) / max_steps) + last
