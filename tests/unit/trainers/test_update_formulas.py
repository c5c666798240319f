"""Measures of an update against numbers worked out by hand, and against what they estimate."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from palaestra.models.optimizer import gradient_norm
from palaestra.trainers.update_metrics import approximate_kl, clip_fraction, explained_variance, share_at_bounds


def test_the_kl_of_two_rows_is_the_mean_of_r_minus_1_minus_ln_r():
    log_ratio = torch.tensor([[math.log(2.0)], [math.log(0.5)]])
    expected = ((2 - 1 - math.log(2)) + (0.5 - 1 + math.log(2))) / 2  # = 0.25
    assert float(approximate_kl(log_ratio)) == pytest.approx(expected) == pytest.approx(0.25)


def test_the_kl_adds_up_over_action_components():
    log_ratio = torch.tensor([[math.log(2.0), math.log(0.5)]])
    assert float(approximate_kl(log_ratio)) == pytest.approx(0.5)


def test_the_kl_estimates_that_of_two_gaussians():
    """KL(N(0, 1) || N(m, s²)) = ln s + (1 + m²) / (2 s²) - 1/2."""
    mean, std = 0.3, 1.2
    sample = torch.randn(200_000, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    old = torch.distributions.Normal(0.0, 1.0)
    new = torch.distributions.Normal(mean, std)
    exact = math.log(std) + (1 + mean**2) / (2 * std**2) - 0.5
    assert float(approximate_kl(new.log_prob(sample) - old.log_prob(sample))) == pytest.approx(exact, rel=0.02)


def test_the_clip_fraction_counts_ratios_on_both_sides_of_the_range():
    log_ratio = torch.tensor([[0.5, 0.79], [0.81, 1.0], [1.19, 1.21], [2.0, 1.0]]).log()
    assert float(clip_fraction(log_ratio, 0.2)) == 4 / 8


def test_explained_variance_is_one_less_the_share_that_is_left():
    target = torch.tensor([[0.0, 0.0, 5.0], [2.0, 2.0, 5.0]])
    value = torch.tensor([[10.5, 1.0, 5.0], [11.5, 1.0, 4.0]])  # half of the step, and a constant more: 1 - 0.25 / 1
    explained = explained_variance(value, target)
    assert_close(explained[:2], torch.tensor([0.75, 0.0]))
    assert math.isnan(float(explained[2]))  # all targets alike: nothing to explain


def test_values_that_mislead_explain_less_than_nothing():
    assert float(explained_variance(torch.tensor([[2.0], [0.0]]), torch.tensor([[0.0], [2.0]]))) == -3.0


def test_the_gradient_norm_is_that_of_all_parameters_together():
    parameters = [
        torch.nn.Parameter(torch.zeros(2)),
        torch.nn.Parameter(torch.zeros(1)),
        torch.nn.Parameter(torch.zeros(1)),
    ]
    parameters[0].grad = torch.tensor([2.0, 3.0])
    parameters[1].grad = torch.tensor([6.0])
    assert float(gradient_norm(parameters)) == 7.0
    assert float(gradient_norm(parameters[:1])) == pytest.approx(math.sqrt(13))


def test_numbers_at_either_end_are_at_bounds():
    assert float(share_at_bounds(torch.tensor([[-1.0, 0.2], [0.995, 0.98]]))) == 0.5
