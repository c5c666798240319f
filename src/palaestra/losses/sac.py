"""Soft actor-critic's losses. Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905; for branches, Christodoulou 2019,
https://arxiv.org/abs/1910.07207.

Shapes: N rows, K reward signals, B branches. Values of actions are (..., N, K, outputs): one output if there are only
continuous actions, else one per choice, branch after branch. The value of a whole action is the mean over branches of
the taken choices' values, so that a branch's share does not depend on the number of other branches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

TARGET_SHARE = 0.2
"""Target entropy of a branch, as a share of the greatest entropy. ML-Agents' value; the paper has no branches."""


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

    `values` (N, K, outputs) of continuous actions that the policy drew, with log-density `log_prob` (N, continuous);
    `branches`: log-probabilities (N, branch) of each branch; `temperature`: first the temperature of continuous
    actions, if there are any, then one for each branch. The policy's loss is minus the mean of this value, eq. 7.
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
    """Returns the gradient of all values, (..., N, K, outputs), from the gradient of `value_of_taken`, (..., N, K)."""
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
    """Returns the gradients of the policy's loss (minus the mean of `soft_value` of the smaller of two critics) for
    `values` (2, N, K, outputs), for each log-density, (N, 1), and for `branches`, each (N, branch)."""
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
    episode is the value of its final observation.
    """
    goes_on = ~terminated.unsqueeze(1) | ignores_ends
    return torch.addcmul(reward, gamma * next_value, goes_on.to(reward.dtype))


def temperature_loss(log_temperature: Tensor, excess: Tensor, counts: Tensor) -> Tensor:
    """Returns the temperature's loss, (), eq. 18: the temperature falls if the policy has more entropy than its target,
    and rises if it has less.

    `excess` (N, up to 1 + B): entropy minus its target, detached; `counts` (same shape): 1 for rows that count. The
    loss multiplies by the temperature, as in the paper; ML-Agents multiplies by its logarithm.
    """
    mean = (excess * counts).sum(0) / counts.sum(0).clamp(min=1)
    return (log_temperature.exp() * mean).sum()


def temperature_gradient(
    log_prob: Tensor, branches: Sequence[Tensor], mask: Tensor | None, temperature: Tensor
) -> Tensor:
    """Returns the gradient of `temperature_loss` for the temperatures' logarithms, (temperatures,), from the arguments
    of `entropy_excess`."""
    if not branches:
        return (log_prob.shape[1] - log_prob.sum(1)).mean() * temperature
    excess, counts = entropy_excess(log_prob, branches, mask)
    return (excess * counts).sum(0) / counts.sum(0).clamp(min=1) * temperature


def entropy_excess(
    log_prob: Tensor, branches: Sequence[Tensor], mask: Tensor | None, target: float = -1.0
) -> tuple[Tensor, Tensor]:
    """Returns the entropy above its target, and 1 for each row that counts, both (N, temperatures).

    Targets: `target` for each continuous number; for each branch a share of the greatest entropy that the choices
    allowed in the row can have. A row with one allowed choice cannot have entropy and does not count, or the
    temperature would rise without end.
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
