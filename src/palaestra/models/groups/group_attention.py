"""Attention of each agent of a group over its group mates, with its gradient by the chain rule.

Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, eq. 1. Groups are small and many: autograd spends most of its
time on rearranging heads and on many tiny products.

Letters in shapes: In shapes: M group steps, P places, H heads, s numbers of a head, B = M * H.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from palaestra.core.row_index import Groups
from palaestra.models.entity_attention import FORBIDDEN, HEADS

TINY = 400
"""Multiplications in a product of matrices below which PyTorch's CPU code loops over each number of a batch."""


def attend(query: Tensor, seen: Tensor, done: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """Returns the results of each agent's attention, (M * P, H * s) each: over all agents' observations, and over its
    own observation and its mates' observations and actions.

    Columns of observations: `query` (N, H * s); `seen`: keys and values (N, 2 * H * s) of observations; `done`: the
    same of observations with actions.
    """
    with torch.autocast(query.device.type, enabled=False):
        size = query.shape[1] // HEADS
        wide = (x.float() if x.dtype == torch.bfloat16 else x for x in (query, seen, done))
        columns = (_in_heads(groups.of(x), size) for x in wide)
        absent = (~groups.present[:, None, None, :] * FORBIDDEN).expand(-1, HEADS, -1, -1).flatten(0, 1)
        of_obs, of_actions = _Attention.apply(*columns, absent)
        return _in_rows(of_obs), _in_rows(of_actions)


class _Attention(torch.autograd.Function):
    """From queries (1, B, P, s), and keys and values, (2, B, P, s): those of observations, then those with actions."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, seen: Tensor, done: Tensor, absent: Tensor) -> tuple[Tensor, Tensor]:
        (asks,), (key, worth), (keys, worths) = query, _laid_out(seen), _laid_out(done)
        scale = math.sqrt(asks.shape[2])
        itself = torch.eye(asks.shape[1], dtype=torch.bool, device=asks.device)
        of_obs = torch.bmm(asks, key.transpose(1, 2))
        of_actions = torch.where(itself, of_obs, torch.bmm(asks, keys.transpose(1, 2)))
        first, second = (torch.softmax(scores / scale + absent, 2) for scores in (of_obs, of_actions))
        own, mates = second.diagonal(dim1=1, dim2=2).unsqueeze(2), second.masked_fill(itself, 0.0)
        ctx.save_for_backward(query, seen, done, first, second, itself)
        return _mixed(first, worth), _mixed(mates, worths) + own * worth

    @staticmethod
    def backward(ctx: Any, of_first: Tensor, of_second: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        query, seen, done, first, second, itself = ctx.saved_tensors
        (asks,), (key, worth), (keys, worths) = query, _laid_out(seen), _laid_out(done)
        scale = math.sqrt(asks.shape[2])
        own, mates = second.diagonal(dim1=1, dim2=2).unsqueeze(2), second.masked_fill(itself, 0.0)
        of_own = (of_second * worth).sum(2, keepdim=True)
        of_weight = torch.where(itself, of_own, torch.bmm(of_second, worths.transpose(1, 2)))
        scores = _softmax_gradient(torch.bmm(of_first, worth.transpose(1, 2)), first) / scale
        scores_with = _softmax_gradient(of_weight, second) / scale
        scores = scores + scores_with.masked_fill(~itself, 0.0)
        scores_with = scores_with.masked_fill(itself, 0.0)
        of_query, of_seen, of_done = (torch.empty_like(x) for x in (query, seen, done))
        torch.add(_mixed(scores_with, keys), _mixed(scores, key), out=of_query[0])
        of_seen[0] = _of_keys(scores, asks)
        torch.add(_mixed(first.transpose(1, 2), of_first), own * of_second, out=of_seen[1])
        of_done[0] = _of_keys(scores_with, asks)
        of_done[1] = _mixed(mates.transpose(1, 2), of_second)
        return of_query, of_seen, of_done, None


def _softmax_gradient(grad: Tensor, weight: Tensor) -> Tensor:
    return torch.ops.aten._softmax_backward_data(grad, weight, 2, weight.dtype)


def _tiny(x: Tensor) -> bool:
    """Whether products of (P, P) with matrices shaped like x (B, P, s) are faster as sums of columns."""
    return x.device.type == "cpu" and x.shape[1] ** 2 * x.shape[2] < TINY


def _mixed(weight: Tensor, x: Tensor) -> Tensor:
    """Returns weights (B, P, P) times x (B, P, s)."""
    if not _tiny(x):
        return torch.bmm(weight, x)
    total = weight[:, :, :1] * x[:, :1]
    for i in range(1, x.shape[1]):
        total = total + weight[:, :, i : i + 1] * x[:, i : i + 1]
    return total


def _of_keys(scores: Tensor, asks: Tensor) -> Tensor:
    """Returns the gradient of keys, (B, P, s), from the gradient of scores, (B, P, P), and queries (B, P, s)."""
    if _tiny(asks):
        return _mixed(scores.transpose(1, 2), asks)
    return torch.bmm(asks.transpose(1, 2), scores).transpose(1, 2)


def _laid_out(keys_and_values: Tensor) -> tuple[Tensor, Tensor]:
    """Returns keys and values, each (B, P, s); keys are transposed in memory as autograd would have them."""
    key, value = keys_and_values
    return key if _tiny(key) else key.transpose(1, 2).contiguous().transpose(1, 2), value


def _in_heads(x: Tensor, size: int) -> Tensor:
    """Splits (M, P, parts * H * s) into heads, (parts, B, P, s)."""
    parts = x.unflatten(2, (-1, HEADS, size))
    return parts.permute(2, 0, 3, 1, 4).contiguous().flatten(1, 2)


def _in_rows(x: Tensor) -> Tensor:
    """Joins the heads of (B, P, s) to (M * P, H * s)."""
    return x.unflatten(0, (-1, HEADS)).transpose(1, 2).flatten(2).flatten(0, 1)
