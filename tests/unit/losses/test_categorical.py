"""Values over bins against numbers worked out by hand."""

import math

import pytest
import torch
from torch import Tensor, tensor
from torch.testing import assert_close

from palaestra.losses import categorical
from palaestra.losses.categorical import (
    bin_values,
    by_nearness,
    choice_shares,
    cross_entropy,
    gaussian_entropy,
    logits_of_taken,
    mean_value,
    project,
    smaller,
)
from palaestra.losses.sac import entropy_excess, soft_value


def test_an_atom_is_shared_among_its_neighbours_and_clamped_at_the_ends():
    # bins at -5, 0, 5: -2.5 lies halfway, 4 lies 0.8 of the way from 0 to 5, 9 is beyond
    moved = project(tensor([[0.2, 0.5, 0.3]]), tensor([[-2.5, 4.0, 9.0]]))
    assert_close(moved, tensor([[0.1, 0.1 + 0.5 * 0.2, 0.5 * 0.8 + 0.3]]))
    assert_close(project(tensor([0.2, 0.5, 0.3]), tensor([-7.0, -5.0, 5.0])), tensor([0.7, 0.0, 0.3]))


def test_a_distribution_within_the_bins_keeps_its_mean():
    torch.manual_seed(0)
    probs = torch.randn(4, 2, 3, 101).softmax(-1)
    atoms = 0.3 + 0.9 * bin_values(101)
    moved = project(probs, atoms.expand_as(probs))
    assert_close(moved.sum(-1), torch.ones(4, 2, 3))
    assert_close(moved @ bin_values(101), probs @ atoms, atol=1e-5, rtol=1e-5)


def test_sums_over_bins_are_not_rounded_where_networks_are_computed_in_bfloat16():
    torch.manual_seed(0)
    logits, values = torch.randn(2, 50, 1, 1, 101), bin_values(101)
    probs, place = logits[0].softmax(-1), 100 * torch.rand(50, 1, 1, 101)
    with torch.autocast("cpu", torch.bfloat16):
        chosen, mean, spread = smaller(logits, values), mean_value(probs, values), by_nearness(probs, place)
    assert_close(mean, (probs.double() @ values.double()).float())
    assert_close(chosen, torch.where((logits.softmax(-1) @ values).diff(dim=0)[0, ..., None] >= 0, *logits.softmax(-1)))
    assert_close(spread, project(probs, place / 10 - 5), atol=1e-5, rtol=1e-4)


def test_distributions_are_shared_out_in_parts_where_there_are_many(monkeypatch):
    probs, atoms = torch.rand(5, 2, 3, 11), 12 * torch.rand(5, 2, 3, 11) - 6
    monkeypatch.setattr(categorical, "MOST_SHARES", 4 * 11 * 11)
    assert_close(by_nearness(probs, (atoms + 5).clamp(0, 10)), project(probs, atoms))


def test_the_critic_that_says_less_gives_its_whole_distribution():
    # of two rows the first critic says less in the first, though its least bin is the less likely one
    probs = tensor([[[0.1, 0.8, 0.1], [0.0, 0.2, 0.8]], [[0.2, 0.1, 0.7], [0.3, 0.4, 0.3]]])
    chosen = smaller(probs.clamp(min=1e-30).log().view(2, 2, 1, 1, 3), bin_values(3))
    assert_close(chosen.view(2, 3), tensor([[0.1, 0.8, 0.1], [0.3, 0.4, 0.3]]))


def test_each_branch_predicts_the_target_by_cross_entropy():
    logits = tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]).log().view(1, 1, 1, 2, 3).expand(2, -1, -1, -1, -1)
    loss = cross_entropy(logits + tensor([7.0, -3.0]).view(2, 1, 1, 1, 1), tensor([[[0.0, 0.5, 0.5]]]))
    one, other = -math.log(0.25), -0.5 * (math.log(0.1) + math.log(0.8))
    assert_close(loss, torch.full((2,), (one + other) / 2))


def test_the_logits_of_what_was_taken_are_those_of_its_branches():
    logits = torch.arange(2 * 2 * 5 * 3).view(2, 2, 1, 5, 3)
    taken = logits_of_taken(logits, tensor([[1, 0], [0, 2]]), (2, 3))
    assert taken.shape == (2, 2, 1, 2, 3)
    assert taken[1, 0, 0].tolist() == [logits[1, 0, 0, 1].tolist(), logits[1, 0, 0, 2].tolist()]
    assert taken[0, 1, 0].tolist() == [logits[0, 1, 0, 0].tolist(), logits[0, 1, 0, 4].tolist()]


@pytest.mark.parametrize(("numbers", "sizes"), [(2, ()), (0, (3,)), (2, (2, 4))])
def test_shares_and_bonus_come_to_the_soft_value(numbers: int, sizes: tuple[int, ...]):
    torch.manual_seed(0)
    log_prob = torch.randn(5, numbers)
    branches: list[Tensor] = [torch.randn(5, n).log_softmax(1) for n in sizes]
    values = torch.randn(5, 2, sum(sizes) or 1)
    temperature = tensor([0.3, 0.2, 0.7])[: bool(numbers) + len(sizes)]
    shares, bonus = choice_shares(log_prob, branches, temperature)
    value = ((values + bonus.unsqueeze(1)) * shares.unsqueeze(1)).sum(2)
    assert_close(value, soft_value(values, log_prob, branches, temperature))


def test_the_entropy_of_a_deviation_is_the_target():
    # ½ ln(2πe 0.15²) = ½ ln 0.384294
    assert gaussian_entropy(0.15) == pytest.approx(-0.478174, abs=1e-4)
    target = gaussian_entropy(0.15)
    excess, _ = entropy_excess(tensor([[0.5, 0.2]]), [], None, target)
    assert_close(excess, tensor([[-0.7 + 2 * 0.478174]]), atol=1e-4, rtol=0)
