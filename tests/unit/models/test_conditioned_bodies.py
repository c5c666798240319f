import math

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from palaestra.models.conditioned_bodies import ConditionedMLP, HyperLinear


def test_a_hyper_layer_gives_each_row_the_weights_of_its_goal():
    torch.manual_seed(0)
    layer = HyperLinear(3, 4, 2, 8)
    x = torch.randn(6, 3)
    goal = torch.randn(6, 2)
    layer.bias.data.normal_()
    for row in range(6):
        code = layer.first(goal[row])
        code = code * code.sigmoid()
        code = layer.second(code)
        code = code * code.sigmoid()
        code = (code - code.mean()) / (code.var(correction=0) + 1e-5).sqrt()
        weights = (layer.weights.weight @ code + layer.weights.bias).reshape(3, 4)
        assert_close(layer(x, goal)[row], x[row] @ weights + layer.bias)


def test_only_the_last_layer_of_a_conditioned_body_depends_on_the_goal():
    torch.manual_seed(0)
    body = ConditionedMLP(5, 2, 8, 3)
    x = torch.randn(4, 5)
    goal = torch.randn(4, 2)
    assert len(body.linears) == 2
    hidden = x
    for layer in body.linears:
        hidden = functional.silu(layer(hidden))
    assert_close(body(x, goal), functional.silu(body.hyper(hidden, goal)))
    assert not torch.allclose(body(x, goal), body(x, -goal))


def test_a_conditioned_body_of_one_layer_is_the_hyper_layer():
    body = ConditionedMLP(5, 2, 8, 1)
    assert len(body.linears) == 0
    assert body(torch.randn(4, 5), torch.randn(4, 2)).shape == (4, 8)


def test_generated_weights_start_uniform_within_their_bound():
    torch.manual_seed(0)
    layer = HyperLinear(16, 32, 4, 64)
    bound = math.sqrt(1 / (64 * 16))
    assert layer.weights.weight.abs().max().item() <= bound
    assert layer.weights.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert not layer.bias.any()
    assert not layer.weights.bias.any()
    assert layer.second.weight.std().item() == pytest.approx(1 / 8, rel=0.05)


@pytest.mark.parametrize(("rows", "goals"), [(6, 2), (40, 2), (40, 9)])
def test_rows_that_share_a_goal_get_what_they_would_alone(rows: int, goals: int):
    torch.manual_seed(0)
    layer = HyperLinear(3, 4, 2, 8)
    x = torch.randn(rows, 3, requires_grad=True)
    goal = torch.randn(goals, 2)[torch.arange(rows) % goals]
    together = layer(x, goal)
    assert_close(together, torch.cat([layer(x[i : i + 1], goal[i : i + 1]) for i in range(rows)]))
    assert x.grad is None
    together.square().sum().backward()
    shared = [p.grad.clone() for p in (x, *layer.parameters()) if p.grad is not None]
    layer.zero_grad()
    x.grad = None
    sum(layer(x[i : i + 1], goal[i : i + 1]).square().sum() for i in range(rows)).backward()
    assert_close(shared, [p.grad for p in (x, *layer.parameters())], rtol=1e-4, atol=1e-5)


def test_each_row_of_a_shared_goal_has_a_gradient_of_its_own():
    torch.manual_seed(0)
    layer = HyperLinear(3, 4, 2, 8)
    x = torch.randn(40, 3)
    goal = torch.eye(2)[torch.arange(40) % 2].requires_grad_()
    (together,) = torch.autograd.grad(layer(x, goal).square().sum(), goal)
    for row in range(40):
        alone = goal.detach()[row : row + 1].requires_grad_()
        assert_close(
            together[row : row + 1], torch.autograd.grad(layer(x[row : row + 1], alone).square().sum(), alone)[0]
        )
