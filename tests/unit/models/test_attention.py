"""Attention over entities: against torch's own, and what order, padding and kinds may and may not change."""

import math

import pytest
import torch
from tiny_envs import network_settings, spec_of
from torch.nn import functional
from torch.testing import assert_close

from palaestra.models.actor_critic import ActorCritic
from palaestra.models.entity_attention import EMBEDDING, HEADS, EntityAttention, seen


def attention(itself: int = 3, sizes: tuple[int, ...] = (4,)) -> EntityAttention:
    torch.manual_seed(0)
    module = EntityAttention(itself, sizes)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return module


@torch.no_grad()
def test_it_is_torchs_multi_head_attention_between_two_norms():
    module = attention()
    encoding = torch.randn(5, 3)
    entities = torch.randn(5, 6, 4)
    assert module.itself is not None
    itself = functional.silu(module.itself(encoding)).unsqueeze(1).expand(-1, 6, -1)
    embedded = functional.layer_norm(
        functional.silu(module.embeddings[0](torch.cat([itself, entities], 2))), (EMBEDDING,)
    )
    theirs = torch.nn.MultiheadAttention(EMBEDDING, HEADS, batch_first=True)
    # torch divides by the root of a head's size, ML-Agents by that of the whole embedding's: twice as much
    scale = torch.ones(3 * EMBEDDING)
    scale[:EMBEDDING] /= math.sqrt(HEADS)
    theirs.in_proj_weight.copy_(module.queries_keys_values.weight * scale.unsqueeze(1))
    theirs.in_proj_bias.copy_(module.queries_keys_values.bias * scale)
    theirs.out_proj.weight.copy_(module.out.weight)
    theirs.out_proj.bias.copy_(module.out.bias)
    expected = functional.layer_norm(theirs(embedded, embedded, embedded)[0] + embedded, (EMBEDDING,)).mean(1)
    assert_close(module(encoding, [entities]), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("inputs", [1, 4, 300])
def test_the_embeddings_weights_start_as_small_as_ml_agents_however_many_inputs_there_are(inputs: int):
    torch.manual_seed(1)
    module = EntityAttention(inputs, (inputs,))
    assert module.itself is not None
    # ML-Agents draws normal weights and multiplies them by the root of 0.125 / 128, which is 0.03125
    for layer in (module.itself, module.embeddings[0]):
        assert layer.weight.std().item() == pytest.approx(0.03125, rel=0.2)
        assert not layer.bias.any()


@torch.no_grad()
def test_the_order_of_entities_means_nothing():
    module = attention()
    encoding = torch.randn(5, 3)
    entities = torch.randn(5, 6, 4)
    assert_close(module(encoding, [entities[:, torch.randperm(6)]]), module(encoding, [entities]), rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("count", [0, 1, 6])
def test_rows_of_zeros_stand_for_nothing(count: int):
    module = attention()
    encoding = torch.randn(5, 3)
    entities = torch.randn(5, count, 4)
    filled = torch.cat([entities, torch.zeros(5, 9 - count, 4)], 1)
    expected = module(encoding, [entities]) if count else torch.zeros(5, EMBEDDING)
    assert_close(module(encoding, [filled]), expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_small_entity_is_not_taken_for_nothing():
    module = attention()
    encoding = torch.randn(1, 3)
    assert module(encoding, [torch.full((1, 1, 4), 0.01)]).any()


@torch.no_grad()
def test_each_kind_is_embedded_in_its_own_way_and_all_see_all():
    module = attention(sizes=(4, 4, 2))
    encoding = torch.randn(1, 3)
    first = torch.randn(1, 2, 4)
    second = torch.randn(1, 1, 4)
    third = torch.randn(1, 3, 2)
    together = module(encoding, [first, second, third])
    assert not torch.allclose(module(encoding, [first[:, :1], torch.cat([second, first[:, 1:]], 1), third]), together)
    changed = module(encoding, [first, second, third * torch.tensor([[[0.0], [1.0], [1.0]]])])
    assert not torch.allclose(changed, together)


@torch.no_grad()
def test_without_other_observations_entities_stand_alone():
    module = attention(itself=0, sizes=(4,))
    entities = torch.randn(2, 3, 4)
    assert module.itself is None
    assert module(torch.empty(2, 0), [entities]).shape == (2, EMBEDDING)


def test_places_that_nobody_fills_cost_nothing():
    entities = torch.zeros(3, 5, 2)
    entities[0, 1] = 1.0
    entities[2, 3] = 2.0
    assert torch.equal(seen(entities), entities[:, [1, 3]])
    assert seen(torch.zeros(3, 5, 2)).shape == (3, 1, 2)
    assert seen(entities[:0]).shape == (0, 5, 2)


@torch.no_grad()
def test_a_row_is_answered_alike_whoever_stands_beside_it():
    torch.manual_seed(0)
    network = ActorCritic(spec_of((6, 3), (4,), (2, 5), continuous=2), network_settings())
    obs = torch.randn(4, 6, 3), torch.randn(4, 4), torch.randn(4, 2, 5)
    obs[0][0, 2:] = 0.0
    obs[2][0] = 0.0
    together = network.act(network.prepare(obs))
    alone = network.act(network.prepare(tuple(x[:1] for x in obs)))
    assert_close(together[:1], alone, rtol=1e-5, atol=1e-6)
