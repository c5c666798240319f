from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from palaestra.losses.ppo import clipped_surrogate, clipped_value, surrogate_gradient, value_part


def test_surrogate_gradient_is_that_of_the_loss_on_both_sides_of_the_clip_range():
    ratio = torch.tensor([[0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 2.0]])
    log_prob = torch.cat([ratio.log()] * 3).requires_grad_()
    advantage = torch.tensor([1.5, -1.5, 0.0])
    loss = clipped_surrogate(log_prob, advantage, clip_range=0.2).sum()
    loss.backward()
    mine, grad = surrogate_gradient(log_prob.detach(), advantage, clip_range=0.2)
    assert_close(mine, loss.detach())
    assert_close(grad, log_prob.grad)


@pytest.mark.parametrize("far", [0.05, 1.0])
def test_value_gradient_is_that_of_the_loss_in_every_row(far: float):
    generator = torch.Generator().manual_seed(3)
    value = torch.randn(2000, 2, generator=generator).requires_grad_()
    old = value.detach() + far * torch.randn(2000, 2, generator=generator)
    target = torch.randn(2000, 2, generator=generator)
    loss = clipped_value(value, old, target, clip_range=0.2).mean()
    (0.5 * loss).backward()
    mine, grad = value_part(value.detach(), old, target, value_coef=0.5, clip_range=0.2)
    assert value.grad is not None
    assert_close(mine, loss.detach())
    assert_close(grad, value.grad, rtol=1e-4, atol=1e-9)
    assert torch.equal(grad == 0, value.grad == 0)


def test_value_gradient_without_clipping_is_that_of_the_squared_error():
    loss, grad = value_part(
        torch.tensor([[3.0]]), torch.tensor([[0.0]]), torch.tensor([[1.0]]), value_coef=0.5, clip_range=None
    )
    assert (float(loss), float(grad)) == (4.0, 2.0)
