import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from palaestra.losses.ppo import clipped_surrogate, clipped_value, squared_error


def surrogate(ratio: list[list[float]], advantage: list[float]) -> Tensor:
    log_prob = torch.tensor(ratio).log()
    return clipped_surrogate(log_prob, torch.tensor(advantage), clip_range=0.25)


def test_surrogate_worked_by_hand():
    loss = surrogate([[0.5, 1.0, 1.5], [0.5, 1.0, 1.5]], [2.0, -2.0])
    # for a gain the ratio counts up to 1.25, for a loss down to 0.75
    assert_close(loss, torch.tensor([[-1.0, -2.0, -2.5], [1.5, 2.0, 3.0]]))


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [
        (1.5, 2.0, 0.0),  # left the range upward, where the gain would rise
        (0.5, -2.0, 0.0),  # left it downward, where the loss would fall
        (0.5, 2.0, -1.0),  # on the way back it always pays: -ratio * advantage
        (1.5, -2.0, 3.0),
        (1.1, 2.0, -2.2),
        (1.1, -2.0, 2.2),
    ],
)
def test_the_surrogate_is_flat_only_beyond_the_clip_range_and_only_outward(
    ratio: float, advantage: float, slope: float
):
    log_prob = torch.tensor([[ratio]]).log().requires_grad_()
    clipped_surrogate(log_prob, torch.tensor([advantage]), clip_range=0.25).sum().backward()
    assert log_prob.grad is not None
    assert float(log_prob.grad) == pytest.approx(slope, rel=1e-6)


def test_each_action_component_has_a_ratio_of_its_own():
    # together the ratios are 1, which the product would not clip
    assert_close(surrogate([[2.0, 0.5]], [1.0]), torch.tensor([[-1.25, -0.5]]))


def test_value_loss_is_the_larger_of_the_error_and_that_of_the_value_kept_near():
    value = torch.tensor([[1.0], [1.0], [0.1], [1.0]])
    old = torch.zeros(4, 1)
    target = torch.tensor([[3.0], [0.0], [1.0], [-3.0]])
    # kept near the old value 0 these are 0.25, 0.25, 0.1, 0.25
    expected = torch.tensor([[2.75**2], [1.0], [0.81], [16.0]])
    assert_close(clipped_value(value, old, target, clip_range=0.25), expected)


def test_squared_error_by_row_and_signal():
    assert_close(squared_error(torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, 0.0]])), torch.tensor([[9.0, 4.0]]))


def test_a_joint_ratio_is_that_of_the_whole_action():
    log_prob = torch.tensor([[1.1, 1.0], [0.5, 0.5]]).log()
    loss = clipped_surrogate(log_prob, torch.tensor([2.0, -2.0]), clip_range=0.25, joint=True)
    # 1.1 * 1 lies within the range; 0.5 * 0.5 below it, where a bad action gains nothing more
    assert_close(loss, torch.tensor([[-2.2], [1.5]]))
