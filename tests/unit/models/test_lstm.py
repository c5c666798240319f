"""The LSTM: its formulas by hand, its starts, and the same digits decision by decision as along a sequence."""

import math

import pytest
import torch
from tiny_envs import network_settings, spec_of
from torch.testing import assert_close

from palaestra.core.row_index import Sequences
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.lstm import FORGET_BIAS, LSTMLayer, weights

MEMORY = {"sequence_length": 8, "memory_size": 12}
KINDS = {
    "vector": spec_of((5,), continuous=2),
    "goal": spec_of((5,), (3,), branches=(3, 2), goals=(1,)),
    "image": spec_of((3, 20, 20), continuous=1, branches=(2,)),
    "entities": spec_of((4, 3), (2,), continuous=1),
}


@torch.no_grad()
def test_one_decision_worked_by_hand():
    memory = LSTMLayer(networks=1, inputs=1, size=2)
    for weight, value in zip(weights(memory.lstm(0)), (1.0, 2.0, 0.5, 0.0), strict=True):
        weight.fill_(value)
    out, after = memory.step(0, torch.tensor([[1.0]]), torch.tensor([[0.25, -1.0]]))
    # every gate reads 1 * 1 + 2 * 0.25 + 0.5 = 2
    gate = 1 / (1 + math.exp(-2.0))
    cell = math.tanh(2.0)
    cell = gate * -1.0 + gate * cell
    assert after[0].tolist() == pytest.approx([gate * math.tanh(cell), cell], rel=1e-6)
    assert out.tolist() == after[:, :1].tolist()


def test_a_new_memory_forgets_little_and_has_xavier_gates():
    torch.manual_seed(0)
    memory = LSTMLayer(networks=1, inputs=100, size=400)
    products, carried, bias, other = weights(memory.lstm(0))
    assert torch.equal((bias + other).view(4, 200), torch.tensor([[0.0], [FORGET_BIAS], [0.0], [0.0]]).expand(4, 200))
    for weight, inputs in ((products, 100), (carried, 200)):
        bound = math.sqrt(6 / (inputs + 200))
        assert 0.99 * bound < weight.abs().max().item() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_every_body_keeps_a_memory_of_its_own():
    memory = LSTMLayer(networks=2, inputs=3, size=4)
    rows = torch.arange(16.0).view(2, 8)
    assert memory.own(0, rows).tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert memory.own(1, rows).tolist() == memory.own(-1, rows).tolist() == [[4, 5, 6, 7], [12, 13, 14, 15]]


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [False, True])
def test_sequences_give_what_decision_by_decision_gives(kind: str, shared: bool):
    torch.manual_seed(0)
    spec = KINDS[kind]
    network = ActorCritic(spec, network_settings(memory=MEMORY), shared_critic=shared)
    network.value_head.weight.normal_()
    lengths = [7, 1, 4]
    steps = max(lengths)
    count = len(lengths)
    obs = tuple(torch.rand(steps, count, *one.shape) for one in spec.obs)
    start = torch.randn(count, network.memory_size) * 0.5
    present = torch.tensor([[t < length for length in lengths] for t in range(steps)])
    place = present.flatten().nonzero().squeeze(1)

    rows = network.prepare(tuple(x.flatten(0, 1)[place] for x in obs))
    output, value = network(rows, Sequences(steps, place, start))

    memory = start
    outputs = []
    values = []
    for t in range(steps):
        inputs = network.prepare(tuple(x[t] for x in obs))
        values.append(network.value_with(inputs, memory))
        packed, memory = network.decide(inputs, memory)
        outputs.append(packed)
    assert_close(output, torch.cat(outputs)[place], rtol=0, atol=1e-5)
    assert_close(value, torch.cat(values)[place], rtol=0, atol=1e-5)
    assert_close(network.value(rows, Sequences(steps, place, start)), value, rtol=0, atol=1e-5)


def test_what_is_asked_at_the_end_of_a_sequence_teaches_its_beginning():
    network = ActorCritic(KINDS["vector"], network_settings(memory=MEMORY))
    obs = torch.rand(6, 5, requires_grad=True)
    output, _ = network(network.prepare((obs,)), Sequences(3, torch.arange(6), torch.zeros(2, network.memory_size)))
    output[4].sum().backward()  # the second sequence's last decision: its rows are 1, 3 and 5
    assert obs.grad is not None
    assert obs.grad.abs().sum(1).gt(0).tolist() == [True, False, True, False, True, False]
