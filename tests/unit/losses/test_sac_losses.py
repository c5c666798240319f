"""Soft actor-critic's formulas against numbers worked out by hand, and against sums over every action."""

import itertools
import math

import pytest
import torch
from torch import Tensor, tensor
from torch.testing import assert_close

from palaestra.losses.sac import (
    backup,
    entropy_excess,
    soft_value,
    soft_value_gradient,
    temperature_gradient,
    temperature_loss,
    value_of_taken,
    value_of_taken_gradient,
)
from palaestra.models.sac_networks import squashed_gradient, squashed_log_prob

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


@pytest.mark.parametrize("branches", [(), (3,), (2, 4)])
@pytest.mark.parametrize("numbers", [0, 2])
def test_gradients_in_closed_form_are_autograds(branches: tuple[int, ...], numbers: int):
    if not branches and not numbers:
        return
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    values, log_prob = noise(2, 6, 3, sum(branches) or 1), noise(6, numbers)
    with torch.no_grad():
        values[1, :2] = values[0, :2]  # the critics agree
    logits = [noise(6, size) for size in branches]
    log_probs = [x.log_softmax(1) for x in logits]
    heat = noise(bool(numbers) + len(branches))
    temperature = heat.exp()
    chosen = [torch.randint(size, (6, 1), generator=generator) for size in branches]
    discrete = torch.cat([torch.zeros(6, 0, dtype=torch.int64), *chosen], 1)
    loss = -soft_value(values.amin(0), log_prob, log_probs, temperature.detach()).mean()
    wanted = torch.autograd.grad(loss, [values, *log_probs, *([log_prob] if numbers else [])], retain_graph=True)
    of_values, of_log_prob, of_branches = soft_value_gradient(values, log_prob, log_probs, temperature)
    found = [of_values, *of_branches, *([] if of_log_prob is None else [of_log_prob.expand(6, numbers)])]
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other)

    share = noise(2, 6, 3)
    taken = value_of_taken(values, discrete, branches)
    (wanted_values,) = torch.autograd.grad(taken, values, share)
    assert_close(value_of_taken_gradient(share, values.shape[3], discrete, branches), wanted_values)

    mask = torch.ones(6, sum(branches), dtype=torch.bool) if branches else None
    excess, counts = entropy_excess(log_prob, log_probs, mask)
    (wanted_heat,) = torch.autograd.grad(temperature_loss(heat, excess.detach(), counts), heat)
    assert_close(temperature_gradient(log_prob, log_probs, mask, temperature), wanted_heat)


def test_the_gradient_of_a_squashed_draw_is_autograds():
    generator = torch.Generator().manual_seed(0)
    mean, log_std, noise, of_action = (torch.randn(5, 2, generator=generator, dtype=torch.float64) for _ in range(4))
    mean[0] = 30.0  # tanh is 1 there
    mean.requires_grad_()
    log_std.requires_grad_()
    of_log_prob = torch.tensor([[0.3]], dtype=torch.float64).expand(5, 1)
    raw = mean + noise * log_std.exp()
    loss = (raw.tanh() * of_action).sum() + (squashed_log_prob(raw, noise, log_std) * of_log_prob).sum()
    found = squashed_gradient(raw, raw.tanh(), noise, log_std.exp(), of_action, of_log_prob)
    for one, other in zip(found, torch.autograd.grad(loss, (mean, log_std)), strict=True):
        assert_close(one, other)


def test_the_density_of_a_squashed_draw_is_that_of_its_gaussian_over_the_slope_of_tanh():
    raw, noise, log_std = tensor([[0.5]]), tensor([[-1.0]]), tensor([[math.log(0.5)]])
    gaussian = -0.5 - math.log(0.5) - 0.5 * math.log(2 * math.pi)
    assert_close(squashed_log_prob(raw, noise, log_std), tensor([[gaussian - math.log(1 - math.tanh(0.5) ** 2)]]))
