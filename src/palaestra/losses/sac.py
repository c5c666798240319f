"""Soft actor-critic's losses. Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905; for branches, Christodoulou 2019,
https://arxiv.org/abs/1910.07207.

Shapes: N rows, K reward signals, B branches. Values of actions are (..., N, K, outputs): one output where there are
only continuous numbers, else one a choice, branch after branch. The value of a whole action is the mean over branches
of what each choice is worth, so that a branch's share does not depend on how many others there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

TARGET_SHARE = 0.2
"""Target entropy of a branch, as a share of the greatest. ML-Agents' figure; the paper has no branches."""


def value_of_taken(values: Tensor, discrete: Tensor, branches: Sequence[int]) -> Tensor:
    """Returns the value of the action that was taken, (..., N, K). `discrete` (N, B)."""
    if not branches:
        return values[..., 0]
    parts = values.split(list(branches), -1)
    rows = values.shape[:-1]
    taken = [part.gather(-1, discrete[:, i].view(-1, 1, 1).expand(*rows, 1)) for i, part in enumerate(parts)]
    return (taken[0] if len(taken) == 1 else torch.cat(taken, -1)).mean(-1)


def soft_value(values: Tensor, log_prob: Tensor, branches: Sequence[Tensor], temperature: Tensor) -> Tensor:
    """Returns the value of an observation under the policy, its entropy included, (N, K): eq. 3, in expectation over
    choices.

    `values` (N, K, outputs) of numbers that the policy drew, whose log-density is `log_prob` (N, continuous);
    `branches`: log-probabilities (N, branch) of each; `temperature`: that of the numbers, where there are any, then the
    branches'. Minus its mean is the policy's loss, eq. 7.
    """
    if not branches:
        return values[..., 0] - temperature[0] * log_prob.sum(1, keepdim=True)
    rest = iter(temperature)
    bonus = -next(rest) * log_prob.sum(1) if log_prob.shape[1] else 0.0
    parts = values.split([log_probs.shape[1] for log_probs in branches], -1)
    worth = torch.stack(
        [
            # an expectation over choices of what each is worth and how surprising it is
            (log_probs.exp().unsqueeze(1) * (part - alpha * log_probs.unsqueeze(1))).sum(-1)
            for log_probs, part, alpha in zip(branches, parts, rest, strict=True)
        ]
    ).mean(0)
    return worth + bonus.unsqueeze(1) if isinstance(bonus, Tensor) else worth


def value_of_taken_gradient(grad: Tensor, outputs: int, discrete: Tensor, branches: Sequence[int]) -> Tensor:
    """Returns the gradient of all values, (..., N, K, outputs), from that of `value_of_taken`, (..., N, K)."""
    if not branches:
        return grad.unsqueeze(-1)
    share = grad.unsqueeze(-1) / len(branches)
    first = [sum(branches[:i]) for i in range(len(branches))]
    places = (discrete + discrete.new_tensor(first)).unsqueeze(1)
    places, share = places.expand(*grad.shape, -1), share.expand(*grad.shape, len(branches))
    return grad.new_zeros((*grad.shape, outputs)).scatter_(-1, places, share)


def soft_value_gradient(
    values: Tensor, log_prob: Tensor, branches: Sequence[Tensor], temperature: Tensor
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """Returns the gradient of the policy's loss, minus the mean of `soft_value` of the smaller of two critics: that of
    `values` (2, N, K, outputs), of each log-density, (N, 1), and of `branches`, each (N, branch).
    """
    low = values.amin(0)
    smaller = values == low
    grad = low.new_full(low.shape[:2], -1 / low[..., 0].numel())
    if not branches:
        of_log_prob = grad.sum(1, keepdim=True) * -temperature[0]
        return smaller * grad.unsqueeze(2) / smaller.sum(0), of_log_prob, []  # critics that agree share it
    smaller = smaller / smaller.sum(0)
    rest = iter(temperature)
    of_log_prob = grad.sum(1, keepdim=True) * -next(rest) if log_prob.shape[1] else None
    grad = (grad / len(branches)).unsqueeze(2)
    of_low = []
    of_branches = []
    parts = low.split([log_probs.shape[1] for log_probs in branches], -1)
    for log_probs, part, alpha in zip(branches, parts, rest, strict=True):
        chance = log_probs.exp()
        of_low.append(grad * chance.unsqueeze(1))
        through_chance = (grad * (part - alpha * log_probs.unsqueeze(1))).sum(1) * chance
        of_branches.append(through_chance - of_low[-1].sum(1) * alpha)
    return smaller * torch.cat(of_low, -1), of_log_prob, of_branches


def backup(reward: Tensor, next_value: Tensor, terminated: Tensor, gamma: Tensor, ignores_ends: Tensor) -> Tensor:
    """Returns the critics' target (N, K), eq. 5 and 6: terminated episodes have no value, except for signals that
    ignore ends.

    `reward` and `next_value` (N, K), `terminated` (N,), `gamma` and `ignores_ends` (K,). `next_value` of a truncated
    episode is that of its final observation.
    """
    goes_on = ~terminated.unsqueeze(1) | ignores_ends
    return torch.addcmul(reward, gamma * next_value, goes_on.to(reward.dtype))


def temperature_loss(log_temperature: Tensor, excess: Tensor, counts: Tensor) -> Tensor:
    """Returns the temperature's loss, (), eq. 18: it falls where the policy has more entropy than its target, and rises
    where less.

    `excess` (N, up to 1 + B): entropy minus its target, detached; `counts` (same shape): 1 for rows that count. The
    factor is the temperature, as in the paper; in ML-Agents it is its logarithm.
    """
    mean = (excess * counts).sum(0) / counts.sum(0).clamp(min=1)
    return (log_temperature.exp() * mean).sum()


def temperature_gradient(
    log_prob: Tensor, branches: Sequence[Tensor], mask: Tensor | None, temperature: Tensor
) -> Tensor:
    """Returns the gradient of `temperature_loss`, that of the temperatures' logarithms, (temperatures,), from what
    `entropy_excess` takes.
    """
    if not branches:
        return (log_prob.shape[1] - log_prob.sum(1)).mean() * temperature
    excess, counts = entropy_excess(log_prob, branches, mask)
    return (excess * counts).sum(0) / counts.sum(0).clamp(min=1) * temperature


def entropy_excess(
    log_prob: Tensor, branches: Sequence[Tensor], mask: Tensor | None, target: float = -1.0
) -> tuple[Tensor, Tensor]:
    """Returns the entropy above its target, and 1 for each row that counts, both (N, temperatures).

    Targets: `target` a continuous number; of each branch a share of the greatest entropy that the choices allowed in
    the row can have. A row with one allowed choice has none to ask for: it has no say, or its temperature would rise
    without end.
    """
    excess = []
    counts = []
    if log_prob.shape[1]:
        excess.append(-target * log_prob.shape[1] - log_prob.sum(1))
        counts.append(torch.ones_like(excess[0]))
    sizes = [log_probs.shape[1] for log_probs in branches]
    allowed: Sequence[Tensor | None] = [None] * len(sizes) if mask is None else mask.split(sizes, 1)
    for log_probs, part in zip(branches, allowed, strict=True):
        some = torch.full_like(log_probs[:, 0], log_probs.shape[1]) if part is None else part.sum(1).to(log_probs.dtype)
        excess.append(-(log_probs.exp() * log_probs).sum(1) - TARGET_SHARE * some.log())
        counts.append((some > 1).to(log_probs.dtype))
    return torch.stack(excess, 1), torch.stack(counts, 1)
