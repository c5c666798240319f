"""Metrics that the updates of PPO, MA-POCA and SAC measure besides their losses, by tag."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.data.rollout import Rollout, completed
from palaestra.losses.diagnostics import approximate_kl, clip_fraction, explained_variance, share_at_bounds
from palaestra.rewards.signals import title
from palaestra.trainers.advantages import Advantages

KL, CLIP_FRACTION = "Policy/KL Divergence", "Policy/Clip Fraction"
GRADIENT_NORM = "Policy/Gradient Norm"
AT_BOUNDS = "Policy/Actions At Bounds"
EXPLAINED = "Explained Variance"
"""Follows a signal's title: `Policy/Extrinsic Explained Variance`."""


class PolicyChange:
    """Change of the policy by an update, measured over the last pass over the rollout. Keeps tensors and computes once, at the end."""

    def __init__(self, rows: int, epochs: int) -> None:
        """`rows`: decisions of the rollout, over which `epochs` passes are made."""
        self._rows, self._held, self._added, self._in_all = rows, 0, 0, max(rows * epochs, 1)
        self._log_ratios = deque[Tensor]()

    def add(self, log_ratio: Tensor) -> None:
        """Takes in a minibatch's log-ratios of new to old probability, (N, A)."""
        self._log_ratios.append(log_ratio)
        self._held += len(log_ratio)
        self._added += len(log_ratio)
        while self._held - len(self._log_ratios[0]) >= self._rows:
            self._held -= len(self._log_ratios.popleft())

    @property
    def progress(self) -> float:
        """Share of the passes that is done, 0 to 1."""
        return min(1.0, self._added / self._in_all)

    def measured(self, clip_range: float) -> dict[str, Tensor]:
        """Returns approximate KL divergence and clip fraction, empty without minibatches. Frees what was kept."""
        if not self._log_ratios:
            return {}
        log_ratio = torch.cat(tuple(self._log_ratios))
        self._log_ratios.clear()
        return {KL: approximate_kl(log_ratio), CLIP_FRACTION: clip_fraction(log_ratio, clip_range)}


def value_metrics(names: Sequence[str], found: Advantages, baselines: Tensor | None = None) -> dict[str, Tensor]:
    """Returns each reward signal's mean value, mean baseline (K,) where there are any, and explained variance."""
    measured: dict[str, Tensor] = {}
    for k, name in enumerate(names):
        measured[f"Policy/{title(name)} Value Estimate"] = found.mean_value[k]
        if baselines is not None:
            measured[f"Policy/{title(name)} Baseline Estimate"] = baselines[k]
    shares = explained_variance(found.value, found.target)
    return measured | {explained_tag(name): shares[k] for k, name in enumerate(names)}


def explained_tag(name: str) -> str:
    """Returns the tag of a reward signal's explained variance."""
    return f"Policy/{title(name)} {EXPLAINED}"


def at_bounds(rollout: Rollout, played: Action) -> dict[str, Tensor]:
    """Returns the share of continuous actions (T, S, ...), as the environment got them, at -1 or 1; empty for a policy without any."""
    numbers = completed(rollout, (played.continuous,))[0]
    return {AT_BOUNDS: share_at_bounds(numbers)} if numbers.numel() else {}
