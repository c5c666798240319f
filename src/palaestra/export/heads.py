"""Action heads: sampled and deterministic actions from a policy's packed output, as Unity expects them.

The head's rows are split here, so that each branch is a layer of its own, as in ML-Agents' files.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from palaestra.core.specs import ActionSpec
from palaestra.export.graph import BATCH, Graph
from palaestra.export.layers import gemm
from palaestra.models.distributions import FORBIDDEN, RANGE
from palaestra.models.tanh_gaussian import LEAST_LOG_STD, MOST_LOG_STD

FLOAT, INT64 = 1, 7  # of ONNX's TensorProto.DataType
PROBABILITIES = "probabilities_"
"""Prefix, before a branch's number, of the name of an inner tensor that `check` reads."""


def gaussian(graph: Graph, head: nn.Linear, log_std: Tensor, spec: ActionSpec, features: str) -> None:
    """Writes continuous actions from the first rows of the head: means. Noise is drawn within the graph, without a seed."""
    size = spec.continuous
    mean = gemm(graph, "action.mean", features, head.weight[:size], head.bias[:size])
    noise = graph.add("RandomNormalLike", mean, dtype=FLOAT)
    spread = graph.add("Mul", noise, graph.constant("action.std", log_std.exp().unsqueeze(0)))
    limit = graph.constant("action.range", RANGE)
    names = ("continuous_actions", "deterministic_continuous_actions")
    for name, raw in zip(names, (graph.add("Add", mean, spread), mean), strict=True):
        graph.add("Div", graph.add("Clip", raw, min=-RANGE, max=RANGE), limit, output=name)
    graph.output(names[0], (BATCH, size))
    constant_output(graph, "continuous_action_output_shape", np.array([size], np.float32))
    graph.output(names[1], (BATCH, size))


def squashed(graph: Graph, head: nn.Linear, spec: ActionSpec, features: str) -> None:
    """Writes continuous actions from means, then logarithms of standard deviations. Both outputs lie within -1..1, unlike in ML-Agents."""
    size = spec.continuous
    mean = gemm(graph, "action.mean", features, head.weight[:size], head.bias[:size])
    log_std = gemm(graph, "action.log_std", features, head.weight[size : 2 * size], head.bias[size : 2 * size])
    std = graph.add("Exp", graph.add("Clip", log_std, min=LEAST_LOG_STD, max=MOST_LOG_STD))
    spread = graph.add("Mul", graph.add("RandomNormalLike", mean, dtype=FLOAT), std)
    graph.add("Tanh", graph.add("Add", mean, spread), output="continuous_actions")
    graph.add("Tanh", mean, output="deterministic_continuous_actions")
    graph.output("continuous_actions", (BATCH, size))
    constant_output(graph, "continuous_action_output_shape", np.array([size], np.float32))
    graph.output("deterministic_continuous_actions", (BATCH, size))


def discrete(graph: Graph, head: nn.Linear, spec: ActionSpec, features: str, mask: str, greedy: bool = False) -> None:
    """Writes choices from the last rows of the head: logits of each branch, forbidden ones replaced. `greedy`: none is drawn."""
    one, large = graph.constant("action.one", 1.0), graph.constant("action.forbidden", -FORBIDDEN)
    drawn, likeliest, at, first = [], [], 0, head.out_features - spec.choices
    for i, size in enumerate(spec.branches):
        rows = slice(first + at, first + at + size)
        logits = gemm(graph, f"action.branch_{i}", features, head.weight[rows], head.bias[rows])
        allowed = graph.add("Slice", mask, axes=[1], starts=[at], ends=[at + size])
        penalty = graph.add("Mul", graph.add("Sub", one, allowed), large)
        masked = graph.add("Sub", graph.add("Mul", logits, allowed), penalty)
        chances = graph.add("Softmax", masked, axis=1, output=f"{PROBABILITIES}{i}")
        likeliest.append(graph.add("ArgMax", chances, axis=1, keepdims=1))
        drawn.append(likeliest[i] if greedy else graph.add("Multinomial", graph.add("Log", chances), dtype=INT64, sample_size=1))
        at += size
    branches = len(spec.branches)
    graph.add("Concat", *drawn, axis=1, output="discrete_actions")
    graph.add("Concat", *likeliest, axis=1, output="deterministic_discrete_actions")
    graph.output("discrete_actions", (BATCH, branches), np.int64)
    constant_output(graph, "discrete_action_output_shape", np.array([spec.branches], np.float32))
    graph.output("deterministic_discrete_actions", (BATCH, branches), np.int64)


def constant_output(graph: Graph, name: str, value: np.ndarray) -> None:
    """Writes an output that is always the same; Unity reads a model's form from these."""
    graph.add("Identity", graph.constant(f"{name}.value", value), output=name)
    graph.output(name, value.shape)
