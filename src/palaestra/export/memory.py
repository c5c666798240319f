"""Recurrent memory as ONNX operators."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from palaestra.export.graph import BATCH, Graph, Node
from palaestra.models.actor_critic import ACTOR
from palaestra.models.memory import Memory, weights


def remember(graph: Graph, module: Memory, features: str) -> str:
    """The actor's LSTM over one decision: from `recurrent_in` and features (N, F) to `recurrent_out` and (N, size / 2).

    The operators are those of ML-Agents' files, one by one: Barracuda names a layer by its first output, and reads the LSTM's
    sequence of outputs (Y). Without it every layer behind gives a warning at import.
    """
    half, size = module.outputs, module.size
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
    """Rows of torch's gates (input, forget, cell, output) in ONNX's order (input, output, forget, cell)."""
    entry, forget, cell, out = weight.chunk(4)
    return torch.cat([entry, out, forget, cell])
