from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from palaestra.models.optimizer import flatten
from palaestra.models.trunk import MANY_ROWS, StackedMLP, one_by_one


def test_stacked_networks_compute_what_plain_layers_do():
    torch.manual_seed(0)
    mlp = StackedMLP(2, 3, 8, 2)
    x = torch.randn(2, 5, 3)
    for bias in mlp.biases:
        bias.data.normal_()
    out = mlp(x)
    for i in range(2):
        plain = x[i]
        for weight, bias in zip(mlp.weights, mlp.biases, strict=True):
            plain = plain @ weight[i] + bias[i]
            plain = plain * plain.sigmoid()
        assert_close(out[i], plain)


def test_one_network_alone_gives_its_share_of_the_stacked_pass():
    mlp = StackedMLP(2, 3, 8, 3)
    x = torch.randn(5, 3)
    together = mlp(x.expand(2, 5, 3))
    for index, place in ((0, 0), (1, 1), (-1, 1)):
        assert_close(mlp.one(index, x), together[place])


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("networks", [1, 2])
def test_backward_is_autograds(layers: int, networks: int):
    mlp = StackedMLP(networks, 4, 6, layers).double()
    x = torch.randn(networks, 7, 4).double()
    grad = torch.randn(networks, 7, 6).double()
    mlp(x).backward(grad)
    expected = [p.grad.clone() for p in mlp.parameters() if p.grad is not None]
    with torch.no_grad():
        out, trace = mlp.trace(x)
        for parameter in mlp.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)
        mlp.backward(trace, grad)
    assert_close(out, mlp(x).detach())
    assert_close([p.grad for p in mlp.parameters()], expected)


@pytest.mark.parametrize("networks", [1, 2])
def test_networks_multiplied_one_by_one_give_the_same(networks: int, monkeypatch: pytest.MonkeyPatch):
    mlp = StackedMLP(networks, 4, 6, 2).double()
    x = torch.randn(networks, 7, 4).double()
    grad = torch.randn(networks, 7, 6).double()
    expected = mlp(x)
    expected.backward(grad)
    gradients = [p.grad.clone() for p in mlp.parameters() if p.grad is not None]
    calls = []
    monkeypatch.setattr("palaestra.models.trunk.one_by_one", lambda x: calls.append(x.shape) or True)
    mlp.zero_grad()
    out = mlp(x)
    out.backward(grad)
    assert_close(out, expected)
    assert_close([p.grad for p in mlp.parameters()], gradients)
    with torch.no_grad():
        for parameter in mlp.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)
        mlp.backward(mlp.trace(x)[1], grad)
    assert_close([p.grad for p in mlp.parameters()], gradients)
    assert len(calls) == 6


def test_only_many_rows_on_an_accelerator_are_multiplied_one_by_one():
    assert not one_by_one(torch.zeros(2, MANY_ROWS, 1))
    assert one_by_one(torch.zeros(2, MANY_ROWS, 1, device="meta"))
    assert not one_by_one(torch.zeros(2, MANY_ROWS - 1, 1, device="meta"))


def test_weights_start_with_std_gain_over_root_of_inputs_and_biases_at_0():
    torch.manual_seed(0)
    mlp = StackedMLP(2, 64, 128, 2)
    for weight, inputs in zip(mlp.weights, (64, 128), strict=True):
        assert weight.mean().item() == pytest.approx(0, abs=0.005)
        assert weight.std().item() == pytest.approx(1 / math.sqrt(inputs), rel=0.02)
    assert all(not bias.any() for bias in mlp.biases)


def test_actor_and_critic_start_with_different_weights():
    weight = StackedMLP(2, 8, 8, 1).weights[0]
    assert not torch.equal(weight[0], weight[1])


def test_flatten_keeps_values_and_makes_every_parameter_a_view():
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    whole = flatten(network)
    assert whole.shape == (3 * 4 + 4 + 4 * 2,)
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter, before[name])
    with torch.no_grad():
        whole.fill_(7.0)
    assert all(p.eq(7.0).all() for p in network.parameters())


def test_flattened_gradients_are_one_tensor_too():
    network = torch.nn.Linear(3, 1)
    whole = flatten(network)
    network(torch.tensor([[1.0, 2.0, 3.0]])).sum().backward()
    assert whole.grad is not None
    assert whole.grad.tolist() == [1.0, 2.0, 3.0, 1.0]


def test_loading_a_state_reaches_the_flat_tensor():
    old = torch.nn.Linear(3, 2)
    new = torch.nn.Linear(3, 2)
    whole = flatten(new)
    new.load_state_dict(old.state_dict())
    assert torch.equal(whole, torch.cat([old.weight.flatten(), old.bias]))


def test_a_step_on_the_flat_tensor_moves_the_network():
    network = torch.nn.Linear(2, 1)
    whole = flatten(network)
    x = torch.ones(1, 2)
    before = network(x).item()
    assert whole.grad is not None
    whole.grad.fill_(1.0)
    torch.optim.SGD([whole], lr=0.5).step()
    assert network(x).item() == pytest.approx(before - 1.5)


def test_swish_is_x_sigmoid_x():
    x = torch.linspace(-3, 3, 7)
    assert_close(functional.silu(x), x * x.sigmoid())
