import math

import pytest
import torch
from torch.testing import assert_close

from palaestra.models.trunk import StackedMLP


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


@pytest.mark.parametrize("networks", [1, 2])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("many", [False, True], ids=("few rows", "many rows"))
def test_backward_is_autograds(layers: int, networks: int, many: bool, monkeypatch: pytest.MonkeyPatch):
    mlp = StackedMLP(networks, 4, 6, layers).double()
    x = torch.randn(networks, 7, 4).double()
    grad = torch.randn(networks, 7, 6).double()
    expected = mlp(x)
    expected.backward(grad)
    gradients = [p.grad.clone() for p in mlp.parameters() if p.grad is not None]
    monkeypatch.setattr("palaestra.models.trunk.FEWEST_ROWS", 1 if many else 1000)
    mlp.zero_grad()
    mlp(x).backward(grad)  # the product that is chosen has the gradient of the other
    assert_close([p.grad for p in mlp.parameters()], gradients)
    with torch.no_grad():
        out, trace = mlp.trace(x)
        for parameter in mlp.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)
        mlp.backward(trace, grad)
    assert_close(out, expected.detach())
    assert_close([p.grad for p in mlp.parameters()], gradients)


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
