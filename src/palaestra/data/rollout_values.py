"""The rewards of a rollout and its values, from which advantages are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class RolloutValues:
    """The rewards of a rollout and the critic's values of it: T rows of time, S slots, K reward signals.

    Rows beyond a slot's last decision (`Rollout.lengths`) are ignored.
    """

    reward: Tensor  # (T, S, K) of each reward signal
    gamma: Tensor  # (K,) discount of each
    value: Tensor  # (T, S, K) of the observation at each decision
    next_value: Tensor  # (T, S, K) of what followed; 0 where the episode terminated, but for signals that ignore ends
    baseline: Tensor  # (T, S, K) to subtract from returns: the value; of MA-POCA the counterfactual baseline
    goes_on: Tensor  # (T, S, 1) bool: the slot's next row follows. Not at an end, nor after each `time_horizon` rows
    log_ratio: Callable[[], Tensor]
    """Runs the actor; returns the change of log-probabilities since the actions were drawn, (T, S, A): 0 for the
    current policy's actions."""
