"""How far a policy is from what a teacher did. Pomerleau 1991, https://doi.org/10.1162/neco.1991.3.1.88."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def squared_errors(played: Tensor, demonstrated: Tensor) -> Tensor:
    """Mean squared error of each continuous number, (continuous,). Both (N, continuous), as the environment gets them."""
    return (played - demonstrated).square().mean(0)


def cross_entropy(log_probs: Sequence[Tensor], demonstrated: Tensor) -> Tensor:
    """Mean of -log p(what was demonstrated), (). `log_probs` of each branch, (N, branch); demonstrated (N, branches)."""
    columns = [branch.gather(1, demonstrated[:, i : i + 1]) for i, branch in enumerate(log_probs)]
    return -torch.cat(columns, 1).mean()
