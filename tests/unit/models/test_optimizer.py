import math
from typing import Literal

import pytest
import torch

from palaestra.models.flat_parameters import flatten
from palaestra.models.optimizer import Adam, gradient_norm, scheduled


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


@pytest.mark.parametrize(
    ("schedule", "step", "value"),
    [("constant", 900, 0.2), ("linear", 0, 0.2), ("linear", 500, 0.15), ("linear", 1000, 0.1), ("linear", 1200, 0.1)],
)
def test_a_schedule_is_constant_or_falls_to_its_last_value_at_max_steps(
    schedule: Literal["constant", "linear"], step: int, value: float
):
    assert scheduled(schedule, 0.2, 0.1, step, 1000) == pytest.approx(value)


def test_flat_parameters_are_views_of_one_tensor_in_values_gradients_and_states():
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False))
    before = torch.cat([p.detach().flatten().clone() for p in network.parameters()])
    whole = flatten(network)
    assert torch.equal(whole, before)
    network(torch.ones(1, 3)).sum().backward()
    assert whole.grad is not None
    assert torch.equal(whole.grad, torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]))
    assert whole.grad.any()
    torch.optim.SGD([whole], lr=0.5).step()
    assert torch.equal(torch.cat([p.flatten() for p in network.parameters()]), before - 0.5 * whole.grad)
    network.load_state_dict({name: torch.full_like(value, 7.0) for name, value in network.state_dict().items()})
    assert whole.eq(7.0).all()


def test_the_gradient_norm_is_that_of_all_parameters_that_have_one():
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (2, 1, 1)]
    parameters[0].grad = torch.tensor([2.0, 3.0])
    parameters[1].grad = torch.tensor([6.0])
    assert float(gradient_norm(parameters)) == 7.0
    assert float(gradient_norm(parameters[:1])) == pytest.approx(math.sqrt(13))
