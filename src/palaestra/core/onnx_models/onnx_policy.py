"""Outputs of a policy's ONNX graph, with the names, shapes and constants by which Unity knows a model of version 3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from palaestra.core.onnx_models.onnx_graph import BATCH, Graph

VERSION = 3.0
INT64 = 7  # of ONNX's TensorProto.DataType
FORBIDDEN = -1e8
"""Logit of a masked choice: its probability is exactly 0, and no infinity meets a 0."""
PROBABILITIES = "probabilities_"
"""Prefix, before a branch's number, of the name of an inner tensor with its probabilities, which checks read."""


def form_outputs(graph: Graph, memory_size: int) -> None:
    """Writes the outputs that every model begins with: the format's version and the size of its memory."""
    constant_output(graph, "version_number", np.array([VERSION], np.float32))
    constant_output(graph, "memory_size", np.full(1, memory_size, np.float32))


def continuous_outputs(graph: Graph, size: int) -> None:
    """Declares the tensors `continuous_actions` and `deterministic_continuous_actions`, (N, size), as outputs."""
    graph.output("continuous_actions", (BATCH, size))
    constant_output(graph, "continuous_action_output_shape", np.array([size], np.float32))
    graph.output("deterministic_continuous_actions", (BATCH, size))


def discrete_outputs(
    graph: Graph, logits: Iterable[str], branches: Sequence[int], mask: str, *, greedy: bool = False
) -> None:
    """Writes choices from the logits (N, branch) of each branch and the mask (N, choices). `greedy`: none is drawn."""
    one = graph.constant("action.one", 1.0)
    large = graph.constant("action.forbidden", -FORBIDDEN)
    drawn = []
    likeliest = []
    at = 0
    for i, (size, values) in enumerate(zip(branches, logits, strict=True)):
        allowed = graph.add("Slice", mask, axes=[1], starts=[at], ends=[at + size])
        penalty = graph.add("Mul", graph.add("Sub", one, allowed), large)
        masked = graph.add("Sub", graph.add("Mul", values, allowed), penalty)
        chances = graph.add("Softmax", masked, axis=1, output=f"{PROBABILITIES}{i}")
        likeliest.append(graph.add("ArgMax", chances, axis=1, keepdims=1))
        drawn.append(
            likeliest[i] if greedy else graph.add("Multinomial", graph.add("Log", chances), dtype=INT64, sample_size=1)
        )
        at += size
    graph.add("Concat", *drawn, axis=1, output="discrete_actions")
    graph.add("Concat", *likeliest, axis=1, output="deterministic_discrete_actions")
    graph.output("discrete_actions", (BATCH, len(branches)), np.int64)
    constant_output(graph, "discrete_action_output_shape", np.array([branches], np.float32))
    graph.output("deterministic_discrete_actions", (BATCH, len(branches)), np.int64)


def constant_output(graph: Graph, name: str, value: np.ndarray) -> None:
    """Writes an output that is always the same; from such outputs Unity reads a model's form."""
    graph.add("Identity", graph.constant(f"{name}.value", value), output=name)
    graph.output(name, value.shape)
