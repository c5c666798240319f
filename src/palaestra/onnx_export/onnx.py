"""A behavior's policy as an ONNX file with the tensors that Unity looks for.

Names, shapes and constants are those of ML-Agents' model version 3; only the actor is written.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from palaestra.core.onnx_models.onnx_graph import BATCH, Graph, Node
from palaestra.core.onnx_models.onnx_metadata import write_notes
from palaestra.core.onnx_models.onnx_policy import continuous_outputs, discrete_outputs, form_outputs
from palaestra.core.specs import ActionSpec, BehaviorSpec
from palaestra.models.actor_critic import ACTOR
from palaestra.models.distributions import RANGE
from palaestra.models.entity_attention import EntityAttention
from palaestra.models.lstm import LSTMLayer, weights
from palaestra.models.sac_networks import (
    LEAST_LOG_STD,
    MOST_LOG_STD,
    SMOOTH_LEAST,
    SMOOTH_LOG_STD,
    SoftActorCritic,
)
from palaestra.models.trunk import Trunk
from palaestra.onnx_export.attention import attention
from palaestra.onnx_export.layers import columns, gemm, join, write

FLOAT = 1  # of ONNX's TensorProto.DataType


def export(network: Trunk, spec: BehaviorSpec, path: Path, *, for_unity: bool = False) -> None:
    """Writes the policy to `path` atomically; `spec` has all observations of the behavior. Raises ExportError.

    `for_unity`: observations for the critic alone have inputs too, which no operator reads. Unity gives the sensor of
    number i to `obs_i`, and plays no model that lacks one.
    """
    policy_graph(network, spec, for_unity=for_unity).write(path)


@torch.no_grad()
def policy_graph(network: Trunk, spec: BehaviorSpec, *, for_unity: bool = False) -> Graph:
    """Returns the graph, with inputs and outputs in ML-Agents' order."""
    named = spec if network.shown is None or for_unity else network.spec
    read = range(len(named.obs)) if network.shown is None or not for_unity else network.shown
    graph = Graph(metadata=write_notes(named, read))
    action = spec.action
    inputs = [graph.input(f"obs_{i}", (BATCH, *one.shape)) for i, one in enumerate(named.obs)]
    obs = [inputs[i] for i in read]
    memory = network.memory
    form_outputs(graph, 0 if memory is None else memory.size)
    features = actor_body(graph, network, obs)
    # Unity's importers look inputs up by name; ML-Agents' files have the masks before the memory
    mask = graph.input("action_masks", (BATCH, action.choices)) if action.branches else ""
    if memory is not None:
        features = remember(graph, memory, features)
    head = network.action_head
    assert isinstance(head, nn.Linear)
    if action.continuous and isinstance(network, SoftActorCritic):
        squashed(graph, head, action, features, smooth=network.smooth)
    elif action.continuous:
        assert isinstance(network.log_std, torch.Tensor)
        gaussian(graph, head, network.log_std, action, features)
    if action.branches:
        discrete(graph, head, action, features, mask, network.greedy)
    if memory is not None:
        graph.output("recurrent_out", (BATCH, 1, memory.size))
    return graph


def actor_body(graph: Graph, network: Trunk, obs: list[str]) -> str:
    """Writes observations to the body's features: vectors are normalized, images and entities encoded, then come the
    layers."""
    parts = []
    if network.vectors:
        vector = join(graph, [obs[i] for i in network.vectors])
        parts.append(vector if network.normalizer is None else write(graph, network.normalizer, "normalizer", vector))
    encoders = network.encoders[ACTOR]
    assert isinstance(encoders, nn.ModuleList)
    for i, encoder in zip(network.images, encoders, strict=True):
        image = (
            graph.add("Sub", obs[i], graph.add("ReduceMean", obs[i], axes=[2, 3], keepdims=1))
            if network.centered
            else obs[i]
        )
        parts.append(write(graph, encoder, f"encoder_{i}", image))
    encoding = join(graph, parts) if parts else None
    if network.entities:
        attending = network.attentions[ACTOR]
        assert isinstance(attending, EntityAttention)
        entities = [(obs[i], network.spec.obs[i].shape[0]) for i in network.entities]
        attended = attention(graph, attending, "attention", encoding, entities)
        encoding = attended if encoding is None else join(graph, [encoding, attended])
    assert encoding is not None
    if network.conditioned:
        goal = columns(graph, encoding, network.goal_columns.tolist())
        return write(graph, network.bodies[ACTOR], "body", encoding, goal)
    return write(graph, network.bodies[ACTOR] if network.apart else network.body, "body", encoding)


def remember(graph: Graph, module: LSTMLayer, features: str) -> str:
    """Writes the actor's LSTM over one decision: `recurrent_in` and features (N, F) to `recurrent_out` and (N, size /
    2).

    The operators are those of ML-Agents' files, one by one: Barracuda names a layer by its first output, and reads the
    LSTM's sequence of outputs (Y). Without that output every later layer gives a warning at import.
    """
    half = module.outputs
    size = module.size
    before = graph.add("Transpose", graph.input("recurrent_in", (BATCH, 1, size)), perm=[1, 0, 2])
    hidden, cell = (graph.add("Slice", before, axes=[2], starts=[at], ends=[at + half]) for at in (0, half))
    products, carried, bias, other = (in_order(weight) for weight in weights(module.lstm(ACTOR)))
    steps = graph.add("Reshape", features, graph.constant("memory.steps", np.array([-1, 1, products.shape[1]])))
    inputs = (
        graph.add("Transpose", steps, perm=[1, 0, 2]),
        graph.constant("memory.weight", products.unsqueeze(0)),
        graph.constant("memory.carried", carried.unsqueeze(0)),
        graph.constant("memory.bias", torch.cat([bias, other]).unsqueeze(0)),
        "",  # lengths of sequences: all have one decision
        hidden,
        cell,
    )
    graph.nodes.append(Node("LSTM", inputs, ("memory.outputs", "memory.hidden", "memory.cell"), {"hidden_size": half}))
    rows = graph.add("Transpose", graph.add("Squeeze", "memory.outputs", axes=[1]), perm=[1, 0, 2])
    after = graph.add("Concat", "memory.hidden", "memory.cell", axis=2)
    graph.add("Transpose", after, perm=[1, 0, 2], output="recurrent_out")
    return graph.add("Reshape", rows, graph.constant("memory.rows", np.array([-1, half])))


def in_order(weight: Tensor) -> Tensor:
    """Returns rows of torch's gates (input, forget, cell, output) in ONNX's order (input, output, forget, cell)."""
    entry, forget, cell, out = weight.chunk(4)
    return torch.cat([entry, out, forget, cell])


def gaussian(graph: Graph, head: nn.Linear, log_std: Tensor, spec: ActionSpec, features: str) -> None:
    """Writes continuous actions from the first rows of the head: means. Noise is drawn in the graph, unseeded."""
    size = spec.continuous
    mean = gemm(graph, "action.mean", features, head.weight[:size], head.bias[:size])
    noise = graph.add("RandomNormalLike", mean, dtype=FLOAT)
    spread = graph.add("Mul", noise, graph.constant("action.std", log_std.exp().unsqueeze(0)))
    limit = graph.constant("action.range", RANGE)
    names = ("continuous_actions", "deterministic_continuous_actions")
    for name, raw in zip(names, (graph.add("Add", mean, spread), mean), strict=True):
        graph.add("Div", graph.add("Clip", raw, min=-RANGE, max=RANGE), limit, output=name)
    continuous_outputs(graph, size)


def squashed(graph: Graph, head: nn.Linear, spec: ActionSpec, features: str, *, smooth: bool) -> None:
    """Writes continuous actions from means and log deviations, within -1..1 in both outputs, unlike ML-Agents.

    `smooth`: as in `SoftActorCritic`.
    """
    size = spec.continuous
    mean = gemm(graph, "action.mean", features, head.weight[:size], head.bias[:size])
    log_std = gemm(graph, "action.log_std", features, head.weight[size : 2 * size], head.bias[size : 2 * size])
    if smooth:
        stretch = graph.constant("action.stretch", SMOOTH_LOG_STD)
        least = graph.constant("action.least", SMOOTH_LOG_STD - SMOOTH_LEAST)
        bounded = graph.add("Add", graph.add("Mul", graph.add("Tanh", log_std), stretch), least)
    else:
        bounded = graph.add("Clip", log_std, min=LEAST_LOG_STD, max=MOST_LOG_STD)
    std = graph.add("Exp", bounded)
    spread = graph.add("Mul", graph.add("RandomNormalLike", mean, dtype=FLOAT), std)
    graph.add("Tanh", graph.add("Add", mean, spread), output="continuous_actions")
    graph.add("Tanh", mean, output="deterministic_continuous_actions")
    continuous_outputs(graph, size)


def discrete(graph: Graph, head: nn.Linear, spec: ActionSpec, features: str, mask: str, greedy: bool = False) -> None:
    """Writes choices from the last rows of the head; forbidden choices are replaced. `greedy`: none is drawn."""
    ends = [*accumulate(spec.branches, initial=head.out_features - spec.choices)]
    logits = (
        gemm(graph, f"action.branch_{i}", features, head.weight[start:end], head.bias[start:end])
        for i, (start, end) in enumerate(pairwise(ends))
    )
    discrete_outputs(graph, logits, spec.branches, mask, greedy=greedy)
