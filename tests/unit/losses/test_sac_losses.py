"""Soft actor-critic's formulas against numbers worked out by hand, and against sums over every action."""

import itertools
import math

import pytest
import torch
from torch import Tensor, tensor
from torch.testing import assert_close

from palaestra.losses.sac import backup, entropy_excess, soft_value, temperature_loss, value_of_taken

NONE = torch.zeros(1, 0)


def log_probs(*rows: list[float]) -> Tensor:
    return tensor(rows).log()


def test_the_value_of_numbers_is_what_they_are_worth_and_how_surprising_they_are():
    value = soft_value(tensor([[[3.0], [5.0]]]), tensor([[-1.0, 0.25]]), [], tensor([0.2]))
    assert_close(value, tensor([[3 + 0.2 * 0.75, 5 + 0.2 * 0.75]]))


def test_the_value_of_choices_is_an_expectation():
    value = soft_value(tensor([[[1.0, 3.0]]]), NONE, [log_probs([0.25, 0.75])], tensor([0.5]))
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert_close(value, tensor([[0.25 * 1 + 0.75 * 3 + 0.5 * entropy]]))


def test_several_branches_are_worth_their_mean():
    values = tensor([[[1.0, 3.0, 10.0, 20.0, 30.0]]])
    branches = [log_probs([0.5, 0.5]), log_probs([0.2, 0.3, 0.5])]
    entropies = [-(x.exp() * x).sum().item() for x in branches]
    expected = ((2 + 0.1 * entropies[0]) + (2 + 6 + 15 + 0.4 * entropies[1])) / 2
    assert_close(soft_value(values, NONE, branches, tensor([0.1, 0.4])), tensor([[expected]]))


def test_both_parts_of_a_hybrid_action_are_paid_for_their_entropy():
    value = soft_value(tensor([[[1.0, 3.0]]]), tensor([[0.5]]), [log_probs([0.5, 0.5])], tensor([0.3, 0.2]))
    assert_close(value, tensor([[2 + 0.2 * math.log(2) - 0.3 * 0.5]]))


def test_a_forbidden_choice_adds_nothing():
    forbidden = torch.log_softmax(tensor([[0.0, -1e8]]), 1)
    assert_close(soft_value(tensor([[[1.0, 99.0]]]), NONE, [forbidden], tensor([0.5])), tensor([[1.0]]))


def test_the_expectation_is_over_every_action():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(4, 2, 5, generator=generator)
    branches = [torch.randn(4, n, generator=generator).log_softmax(1) for n in (2, 3)]
    total = torch.zeros(4, 2)
    for a, b in itertools.product(range(2), range(3)):
        action = tensor([[a, b]]).expand(4, 2)
        chance = (branches[0][:, a] + branches[1][:, b]).exp().unsqueeze(1)
        total += chance * value_of_taken(values, action, (2, 3))
    assert_close(soft_value(values, torch.zeros(4, 0), branches, tensor([0.0, 0.0])), total)


def test_an_action_is_worth_the_mean_of_its_choices():
    values = torch.arange(10.0).view(1, 2, 5)
    assert_close(value_of_taken(values, tensor([[1, 2]]), (2, 3)), tensor([[(1 + 4) / 2, (6 + 9) / 2]]))
    assert_close(value_of_taken(values[..., :1], torch.zeros(1, 0, dtype=torch.int64), ()), tensor([[0.0, 5.0]]))
    twins = torch.stack([values, 10 * values])
    assert_close(value_of_taken(twins, tensor([[0, 0]]), (2, 3)), tensor([[[1.0, 6.0]], [[10.0, 60.0]]]))


def test_a_terminated_episode_is_worth_nothing_more_but_to_signals_that_ignore_ends():
    found = backup(
        tensor([[1.0, 2.0], [3.0, 4.0]]),
        tensor([[10.0, 20.0], [30.0, 40.0]]),
        tensor([True, False]),
        tensor([0.9, 0.5]),
        tensor([False, True]),
    )
    assert_close(found, tensor([[1.0, 2 + 10.0], [3 + 27.0, 4 + 20.0]]))


def test_entropy_is_held_against_minus_one_a_number_and_a_fifth_of_what_the_allowed_choices_can_have():
    mask = tensor([[True, True, True, False], [True, True, False, False], [False, True, False, False]])
    even = torch.log_softmax(torch.zeros(3, 4).masked_fill(~mask, -1e8), 1)
    excess, counts = entropy_excess(tensor([[-0.5, 0.25]] * 3), [even], mask)
    assert_close(excess[:, 0], torch.full((3,), 0.25 + 2))
    assert_close(excess[:, 1], tensor([0.8 * math.log(3), 0.8 * math.log(2), 0.0]))
    assert counts.tolist() == [[1, 1], [1, 1], [1, 0]]


def test_without_masks_all_choices_are_allowed():
    excess, counts = entropy_excess(NONE, [log_probs([0.5, 0.5]), log_probs([1.0])], None)
    assert_close(excess, tensor([[0.8 * math.log(2), 0.0]]))
    assert counts.tolist() == [[1, 0]]


@pytest.mark.parametrize("start", [0.5, 3.0])
def test_a_temperature_falls_where_entropy_abounds_and_rises_where_it_lacks(start: float):
    log = tensor([math.log(start)] * 3, requires_grad=True)
    excess = tensor([[2.0, -1.0, 5.0], [4.0, -1.0, 7.0]])
    counts = tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    temperature_loss(log, excess, counts).backward()
    assert_close(log.grad, tensor([start * 3, -start, 0.0]))
