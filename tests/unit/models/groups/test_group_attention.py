"""Attention over the agents of a group: what it gives, and its gradient by the chain rule."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from palaestra.core.row_index import Groups
from palaestra.models.entity_attention import HEADS
from palaestra.models.groups import group_attention
from palaestra.models.groups.group_attention import attend

SIZE = 3


def plainly(query: Tensor, seen: Tensor, done: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """The same for one group, one head and one agent after another."""
    most = groups.members.shape[1]
    out = torch.zeros(2, len(groups.members), most, HEADS, SIZE, dtype=query.dtype)
    for m, members in enumerate(groups.members):
        there = groups.present[m].nonzero().flatten()
        for h in range(HEADS):
            part = slice(h * SIZE, (h + 1) * SIZE)
            asks = query[members][:, part]
            (key, worth), (keys, worths) = (
                (x[members][:, part], x[members][:, HEADS * SIZE :][:, part]) for x in (seen, done)
            )
            for i in range(most):
                own = (torch.arange(most) == i).unsqueeze(1)
                for kind, k, w in ((0, key, worth), (1, torch.where(own, key, keys), torch.where(own, worth, worths))):
                    score = (k[there] @ asks[i]) / math.sqrt(SIZE)
                    out[kind, m, i, h] = torch.softmax(score, 0) @ w[there]
    return out[0].flatten(2).flatten(0, 1), out[1].flatten(2).flatten(0, 1)


@pytest.mark.parametrize("tiny", [True, False], ids=("sums of columns", "products"))
@pytest.mark.parametrize("places", [1, 2, 3])
def test_attention_and_its_gradient_are_those_of_one_agent_after_another(
    places: int, tiny: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_attention, "TINY", 1000 if tiny else 0)
    torch.manual_seed(0)
    members = torch.tensor([[4, 1, 2], [0, 3, 3]])[:, :places]
    present = torch.tensor([[True, True, True], [True, True, False]])[:, :places]
    query, seen, done = (torch.randn(5, n * HEADS * SIZE, dtype=torch.float64).requires_grad_() for n in (1, 2, 2))
    groups = Groups(members, present)
    found, expected = attend(query, seen, done, groups), plainly(query, seen, done, groups)
    here = present.flatten()
    weights = torch.randn(2, int(here.sum()), HEADS * SIZE, dtype=torch.float64)
    sums = []
    for both in (found, expected):
        rows = torch.stack(both)[:, here]
        sums.append((rows, *torch.autograd.grad((rows * weights).sum(), (query, seen, done))))
    assert_close(sums[0], sums[1])
