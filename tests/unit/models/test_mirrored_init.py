"""Critics of soft actor-critic value everything at zero at first, and still teach what lies before their heads."""

from typing import Any

import pytest
import torch
from tiny_envs import network_settings, spec_of
from torch import Tensor, nn

from palaestra.core.row_index import Sequences
from palaestra.models.sac_networks import SoftActorCritic

ROWS = 12
VECTOR, ENTITIES, IMAGE = (3,), (4, 5), (3, 20, 20)
MEMORY = {"sequence_length": 4, "memory_size": 8}


class Unlike(nn.Module):
    """A body whose features cannot be made alike by its layers: it numbers them."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, hidden)
        self.register_buffer("numbers", torch.arange(float(hidden)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.numbers


class Short(nn.Module):
    """A body without a linear layer."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, hidden))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.weight)


def values(network: SoftActorCritic, seed: int = 0) -> Tensor:
    """Of random views and actions; with memory, of sequences of four."""
    generator = torch.Generator().manual_seed(seed)
    spec = network.spec
    views = tuple(torch.randn(ROWS, *obs.shape, generator=generator) for obs in spec.obs)
    size = network.critics.memory_size
    sequences = Sequences(4, torch.arange(ROWS), torch.zeros(ROWS // 4, size)) if size else None
    encoding = network.critics.encoding(network.prepare(views), sequences)
    return network.critics(encoding, torch.randn(ROWS, spec.action.continuous, generator=generator))


SPECS = {
    "vector": spec_of(VECTOR, continuous=2),
    "discrete": spec_of(VECTOR, branches=(3, 2)),
    "hybrid": spec_of(VECTOR, continuous=1, branches=(2,)),
    "entities": spec_of(ENTITIES, ENTITIES, continuous=1),
    "image": spec_of(IMAGE, continuous=1),
    "goal": spec_of(VECTOR, (2,), continuous=1, goals=(1,)),
}
NETWORKS: dict[str, dict[str, Any]] = {
    "even": {},
    "odd": {"hidden_units": 15, "num_layers": 1},
    "memory": {"memory": MEMORY},
    "own body": {"body": "test_custom_networks:Wide"},
    "own body with shortcuts": {"body": "examples.own_encoder:Residual"},
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("seen", SPECS)
def test_values_start_at_zero_and_every_weight_of_the_critics_has_a_gradient(seen: str, network: str):
    torch.manual_seed(1)
    made = SoftActorCritic(SPECS[seen], network_settings(**NETWORKS[network]), signals=2)
    worth = values(made)
    assert worth.abs().max() < 1e-5
    assert all(torch.equal(*pair) for pair in zip(made.critics.parameters(), made.targets.parameters(), strict=True))
    (worth * torch.randn(worth.shape)).sum().backward()
    assert [
        name for name, p in made.critics.named_parameters() if p.numel() and (p.grad is None or not p.grad.any())
    ] == []


def test_units_and_their_twins_are_taught_the_opposite_and_part_at_the_first_step():
    made = SoftActorCritic(SPECS["entities"], network_settings())
    (values(made) * torch.randn(2, ROWS, 1, 1)).sum().backward()
    grad = made.critics.body.weights[-1].grad
    assert grad is not None
    torch.testing.assert_close(grad[..., :8], -grad[..., 8:])


def test_signals_and_twins_have_heads_of_their_own():
    heads = SoftActorCritic(SPECS["vector"], network_settings(), signals=2).critics.head_weight.detach()
    assert len(torch.unique(heads.abs())) == 2 * 2 * 8


@pytest.mark.parametrize("body", ["Unlike", "Short"])
def test_a_body_that_cannot_be_mirrored_keeps_its_weights_under_heads_of_zero(body: str):
    torch.manual_seed(1)
    made = SoftActorCritic(SPECS["vector"], network_settings(body=f"test_mirrored_init:{body}"))
    assert not made.critics.head_weight.any()
    weight = next(made.critics.bodies[0].parameters())
    assert len(torch.unique(weight)) == weight.numel()


def test_one_hidden_unit_is_enough():
    assert not values(SoftActorCritic(SPECS["vector"], network_settings(hidden_units=1))).any()
