"""PPO's losses, and their gradients with respect to a network's outputs.

The clipped ratio stands here in two forms: `clipped_surrogate` for autograd, `surrogate_gradient` with its gradient in
closed form. Likewise `clipped_value` and `value_part`. Tests compare each pair. With 64 rows in a minibatch, the closed
form takes half as long as autograd, which mostly spends time in calls, not arithmetic. Shapes: see ARCHITECTURE.md.
Functions in closed form return losses as () tensors and gradients already divided by the number of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def clipped_surrogate(log_ratio: Tensor, advantage: Tensor, *, clip_range: float, joint: bool = False) -> Tensor:
    """Returns the policy loss of each row and component, (N, A). Schulman et al. 2017,
    https://arxiv.org/abs/1707.06347, eq. 7. Its gradient in closed form is `surrogate_gradient`.

    `log_ratio` (N, A) is the new log-probability less the old. The minimum makes the bound pessimistic: leaving the
    clip range never lowers the loss, and a ratio that left it on the worse side still gets a gradient back. As in
    ML-Agents, each action component has a ratio of its own; `joint` takes the ratio of the whole action, as the paper
    does, and gives (N, 1). `advantage` is (N,).
    """
    ratio = (log_ratio.sum(1, keepdim=True) if joint else log_ratio).exp()
    gain = advantage.unsqueeze(1)
    return -torch.minimum(ratio * gain, ratio.clamp(1 - clip_range, 1 + clip_range) * gain)


def squared_error(value: Tensor, target: Tensor) -> Tensor:
    """Returns the value loss of each row and signal, (N, K)."""
    return (target - value).square()


def clipped_value(value: Tensor, old_value: Tensor, target: Tensor, *, clip_range: float) -> Tensor:
    """Returns the value loss of each row and signal, (N, K): the larger of two squared errors, of the value and of the
    value clipped to within `clip_range` of the old one.

    From the implementation of Schulman et al. 2017 (OpenAI Baselines, ppo2); not in the paper.
    """
    near = old_value + (value - old_value).clamp(-clip_range, clip_range)
    return torch.maximum((target - value).square(), (target - near).square())


@dataclass(frozen=True, slots=True)
class HeadGradient:
    """One part of the loss and its gradient."""

    loss: Tensor  # () policy or value loss
    entropy: Tensor  # ()
    grad: Tensor  # (N, width) of the outputs that this part reads
    log_ratio: Tensor  # (N, components of this part)


def surrogate_gradient(log_ratio: Tensor, advantage: Tensor, *, clip_range: float) -> tuple[Tensor, Tensor]:
    """Returns the sum of the clipped surrogate, (), and its gradient with respect to log_ratio, (N, A)."""
    gain = advantage.unsqueeze(1)
    ratio = log_ratio.exp()
    kept = ratio.clamp(1 - clip_range, 1 + clip_range).mul_(gain)
    free = ratio.mul_(gain)
    # where the clipped term is the smaller, the loss does not depend on the policy
    return -torch.minimum(free, kept).sum(), (free <= kept) * -free


def gaussian_part(
    mean: Tensor,
    log_std: Tensor,
    sample: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    *,
    clip_range: float,
    entropy_coef: float,
    components: int,
) -> HeadGradient:
    """Returns the loss of all continuous actions (N, continuous), out of `components`; writes log_std's `.grad`."""
    assert log_std.grad is not None
    inverse = torch.exp(-log_std)
    z = (sample - mean).mul_(inverse)
    squares = z.square()
    log_ratio = squares.mul(-0.5).sub_(log_std + HALF_LOG_TAU).sub_(old_log_prob)
    loss, grad = surrogate_gradient(log_ratio, advantage, clip_range=clip_range)
    share = 1 / max(mean.shape[0] * components, 1)
    grad = grad.mul_(share)
    # d log_prob / d log_std = z² - 1;  the entropy is mean(log_std) + constant
    torch.sum(squares.sub_(1).mul_(grad), 0, out=log_std.grad)
    log_std.grad.sub_(entropy_coef / mean.shape[1])
    entropy = (log_std + (HALF_LOG_TAU + 0.5)).mean()
    # d log_prob / d mean = z / std
    return HeadGradient(loss.mul_(share), entropy, grad.mul_(z).mul_(inverse), log_ratio)


def branch_part(
    log_probs: Tensor,
    choice: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    *,
    clip_range: float,
    entropy_coef: float,
    components: int,
) -> HeadGradient:
    """Returns the loss part of one branch, with its logits' gradient: log_probs (N, branch), choice and old (N, 1)."""
    rows = max(log_probs.shape[0], 1)
    probs = log_probs.exp()
    log_ratio = log_probs.gather(1, choice).sub_(old_log_prob)
    loss, grad = surrogate_gradient(log_ratio, advantage, clip_range=clip_range)
    share = 1 / (rows * components)
    grad = grad.mul_(share)
    entropy = -(probs * log_probs).sum(1, keepdim=True)
    # d log p(choice) / d logits = onehot - p;  dH / d logits = -p (log p + H)
    out = (log_probs + entropy).mul_(probs).mul_(entropy_coef / rows)
    out.addcmul_(probs, grad, value=-1).scatter_add_(1, choice, grad)
    return HeadGradient(loss.mul_(share), entropy.mean(), out, log_ratio)


def value_part(
    value: Tensor, old_value: Tensor, target: Tensor, *, value_coef: float, clip_range: float | None
) -> tuple[Tensor, Tensor]:
    """Returns the value loss () and the gradient of `value_coef` times it, (N, K). No clip_range: squared error."""
    error = value - target
    share = 1 / max(error.numel(), 1)
    if clip_range is None:
        return error.square().mean(), error.mul(2 * share * value_coef)
    moved = value - old_value
    near = error + (moved.clamp(-clip_range, clip_range) - moved)  # not rounded away from `error` within the range
    loss = torch.maximum(error.square(), near.square()).mean()
    # where the clipped error is the larger, it is a constant
    return loss, error.mul(error.abs() >= near.abs()).mul_(2 * share * value_coef)
