import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal
from torch.testing import assert_close

from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action
from palaestra.models.distributions import branch_log_probs, draw, drawn_log_prob, for_environment, log_prob_and_entropy

HYBRID = ActionSpec(2, (3, 2))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(
    output: Tensor, log_std: Tensor, mask: Tensor | None, spec: ActionSpec, deterministic: bool = False
) -> tuple[Action, Tensor]:
    sample, branches = draw(output, log_std, mask, spec, seeded(), deterministic)
    return sample, drawn_log_prob(output, log_std, sample, branches, spec)


def test_log_probs_are_those_of_torch_distributions():
    output = torch.randn(20, 7, generator=seeded(1))
    log_std = torch.tensor([0.3, -0.7])
    sample, log_prob = drawn(output, log_std, None, HYBRID)
    expected = [
        Normal(output[:, :2], log_std.exp()).log_prob(sample.continuous),
        Categorical(logits=output[:, 2:5]).log_prob(sample.discrete[:, 0]).unsqueeze(1),
        Categorical(logits=output[:, 5:]).log_prob(sample.discrete[:, 1]).unsqueeze(1),
    ]
    assert_close(log_prob, torch.cat(expected, 1))


@pytest.mark.parametrize("spec", [ActionSpec(2), ActionSpec(branches=(3,)), ActionSpec(branches=(3, 2)), HYBRID])
@pytest.mark.parametrize("masked", [False, True])
def test_a_log_prob_computed_later_is_that_of_the_draw(spec: ActionSpec, masked: bool):
    output = torch.randn(50, spec.continuous + spec.choices, generator=seeded(1))
    log_std = torch.full((spec.continuous,), 0.2)
    mask = None
    if masked and spec.choices:
        mask = torch.ones(50, spec.choices, dtype=torch.bool)
        mask[::2, 1] = False
    sample, log_prob = drawn(output, log_std, mask, spec)
    later, _ = log_prob_and_entropy(output, log_std, mask, sample, spec)
    assert torch.equal(later, log_prob)
    assert log_prob.shape == (50, spec.components)


def test_continuous_samples_have_the_mean_and_spread_of_the_policy():
    sample, _ = drawn(torch.tensor([[1.0, -2.0]]).expand(100_000, 2), torch.tensor([0.0, -1.0]), None, ActionSpec(2))
    assert_close(sample.continuous.mean(0), torch.tensor([1.0, -2.0]), rtol=0, atol=0.02)
    assert_close(sample.continuous.std(0), torch.tensor([1.0, math.exp(-1)]), rtol=0.02, atol=0)


def test_choices_are_drawn_as_often_as_their_probabilities_say():
    logits = torch.tensor([[0.0, 1.0, -1.0, 0.5, 2.0]])
    sample, _ = drawn(logits.expand(200_000, 5), torch.zeros(0), None, ActionSpec(branches=(3, 2)))
    for branch, part in enumerate((logits[0, :3], logits[0, 3:])):
        frequency = sample.discrete[:, branch].bincount() / 200_000
        assert_close(frequency, part.softmax(0), rtol=0, atol=0.005)


def test_a_masked_choice_has_probability_0_and_is_never_drawn():
    mask = torch.tensor([[True, False, True, False, True]])
    logits = torch.tensor([[0.0, 9.0, 0.5, 3.0, 0.0]])
    probabilities = torch.cat(branch_log_probs(logits, mask, ActionSpec(branches=(3, 2))), 1).exp()
    assert probabilities[0, [1, 3]].tolist() == [0.0, 0.0]
    assert_close(probabilities[0, [0, 2]], torch.tensor([0.0, 0.5]).softmax(0))
    sample, log_prob = drawn(
        logits.expand(1_000_000, 5), torch.zeros(0), mask.expand(1_000_000, 5), ActionSpec(branches=(3, 2))
    )
    assert not (sample.discrete[:, 0] == 1).any()
    assert (sample.discrete[:, 1] == 1).all()
    assert log_prob.isfinite().all()


def test_a_masked_choice_stays_impossible_beside_very_unlikely_ones():
    logits = torch.tensor([[-500.0, 500.0, -400.0]])
    mask = torch.tensor([[True, False, True]])
    sample, log_prob = drawn(logits.expand(1000, 3), torch.zeros(0), mask.expand(1000, 3), ActionSpec(branches=(3,)))
    assert (sample.discrete == 2).all()
    assert_close(log_prob, torch.zeros(1000, 1))


def test_deterministic_takes_the_mean_and_the_likeliest_allowed_choice():
    output = torch.tensor([[0.4, -5.0, 1.0, 3.0, 2.0, 0.0, 1.0]])
    mask = torch.tensor([[True, False, True, True, True]])
    sample, log_prob = drawn(output, torch.zeros(2), mask, HYBRID, deterministic=True)
    assert_close(sample.continuous, torch.tensor([[0.4, -5.0]]))
    assert sample.discrete.tolist() == [[2, 1]]
    assert float(log_prob[0, 0]) == pytest.approx(-0.5 * math.log(2 * math.pi))


def test_the_environment_gets_a_third_of_what_is_left_within_3_and_the_sample_stays():
    sample = Action(torch.tensor([[1.5, -3.0, 4.0, -90.0]]), torch.tensor([[2]]))
    action = for_environment(sample)
    assert action.continuous.tolist() == [[0.5, -1.0, 1.0, -1.0]]
    assert action.discrete.tolist() == [[2]]
    assert sample.continuous.tolist() == [[1.5, -3.0, 4.0, -90.0]]


def test_entropy_is_the_mean_over_numbers_plus_the_sum_over_branches():
    output = torch.randn(9, 7, generator=seeded(2))
    log_std = torch.tensor([0.4, -0.2])
    sample, _ = drawn(output, log_std, None, HYBRID)
    _, entropy = log_prob_and_entropy(output, log_std, None, sample, HYBRID)
    numbers = Normal(torch.zeros(2), log_std.exp()).entropy().mean()
    assert_close(
        entropy, numbers + Categorical(logits=output[:, 2:5]).entropy() + Categorical(logits=output[:, 5:]).entropy()
    )


def test_entropy_of_a_branch_counts_allowed_choices_alone():
    mask = torch.tensor([[True, True, False]])
    sample = Action(torch.zeros(1, 0), torch.tensor([[0]]))
    _, entropy = log_prob_and_entropy(torch.zeros(1, 3), torch.zeros(0), mask, sample, ActionSpec(branches=(3,)))
    assert float(entropy) == pytest.approx(math.log(2))


def test_the_same_generator_state_draws_the_same():
    output = torch.randn(30, 7, generator=seeded(3))
    first = drawn(output, torch.zeros(2), None, HYBRID)[0]
    second = drawn(output, torch.zeros(2), None, HYBRID)[0]
    assert torch.equal(first.continuous, second.continuous)
    assert torch.equal(first.discrete, second.discrete)
