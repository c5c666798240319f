from __future__ import annotations

import pytest
import torch

from palaestra.models.optimizer import Adam


def test_the_first_step_is_the_learning_rate_against_the_sign_of_the_gradient():
    parameter = torch.nn.Parameter(torch.zeros(3))
    parameter.grad = torch.tensor([4.0, -0.25, 0.0])
    Adam([parameter], learning_rate=0.1).step()
    # both running means are corrected to g and g², so that the step is g / |g|
    torch.testing.assert_close(parameter.detach(), torch.tensor([-0.1, 0.1, 0.0]))


def test_many_steps_are_those_of_torch():
    mine, theirs = (torch.nn.Parameter(torch.linspace(-1, 1, 50)) for _ in range(2))
    ours = Adam([mine], 3e-3)
    reference = torch.optim.Adam([theirs], lr=3e-3)
    for seed in range(20):
        gradient = torch.randn(50, generator=torch.Generator().manual_seed(seed))
        mine.grad = gradient
        theirs.grad = gradient.clone()
        ours.step()
        reference.step()
    torch.testing.assert_close(mine, theirs)


def test_what_has_no_gradient_stays_and_its_neighbors_move():
    frozen, unused, moving = (
        torch.nn.Parameter(torch.ones(2), requires_grad=False),
        *(torch.nn.Parameter(torch.ones(3)) for _ in range(2)),
    )
    adam = Adam([frozen, unused, moving], learning_rate=0.1)
    moving.grad = torch.tensor([4.0, -0.25, 0.0])
    adam.step()
    torch.testing.assert_close(moving.detach(), torch.tensor([0.9, 1.1, 1.0]))
    assert torch.equal(frozen, torch.ones(2))
    assert torch.equal(unused.detach(), torch.ones(3))


def test_a_loaded_state_goes_on_with_the_same_digits():
    first, second = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    one = Adam([first], 0.01)
    two = Adam([second], 0.01)
    first.grad = torch.tensor([1.0, -2.0, 3.0, 0.5])
    one.step()
    second.data.copy_(first.data)
    two.load_state_dict(one.state_dict())
    second.grad = first.grad
    one.step()
    two.step()
    assert torch.equal(first, second)


def test_a_state_of_other_shapes_is_refused():
    adam = Adam([torch.nn.Parameter(torch.zeros(4))], 0.01)
    with pytest.raises(ValueError, match=r"saved for a parameter of shape \(3,\), here it is \(4,\)"):
        adam.load_state_dict(Adam([torch.nn.Parameter(torch.zeros(3))], 0.01).state_dict())
