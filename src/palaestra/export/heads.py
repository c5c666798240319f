"""Action heads: sampled and deterministic actions from a policy's packed output, as Unity expects them.

The head's rows are split here, so that each branch is a layer of its own, as in ML-Agents' files.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

from torch import Tensor, nn

from palaestra.core.onnx_graph import Graph
from palaestra.core.onnx_policy import continuous_outputs, discrete_outputs
from palaestra.core.specs import ActionSpec
from palaestra.export.layers import gemm
from palaestra.models.distributions import RANGE
from palaestra.models.tanh_gaussian import LEAST_LOG_STD, MOST_LOG_STD

FLOAT = 1  # of ONNX's TensorProto.DataType


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
    continuous_outputs(graph, size)


def squashed(graph: Graph, head: nn.Linear, spec: ActionSpec, features: str) -> None:
    """Writes continuous actions from means, then logarithms of standard deviations. Both outputs lie within -1..1, unlike in ML-Agents."""
    size = spec.continuous
    mean = gemm(graph, "action.mean", features, head.weight[:size], head.bias[:size])
    log_std = gemm(graph, "action.log_std", features, head.weight[size : 2 * size], head.bias[size : 2 * size])
    std = graph.add("Exp", graph.add("Clip", log_std, min=LEAST_LOG_STD, max=MOST_LOG_STD))
    spread = graph.add("Mul", graph.add("RandomNormalLike", mean, dtype=FLOAT), std)
    graph.add("Tanh", graph.add("Add", mean, spread), output="continuous_actions")
    graph.add("Tanh", mean, output="deterministic_continuous_actions")
    continuous_outputs(graph, size)


def discrete(graph: Graph, head: nn.Linear, spec: ActionSpec, features: str, mask: str, greedy: bool = False) -> None:
    """Writes choices from the last rows of the head: logits of each branch, forbidden ones replaced. `greedy`: none is drawn."""
    ends = [*accumulate(spec.branches, initial=head.out_features - spec.choices)]
    logits = (
        gemm(graph, f"action.branch_{i}", features, head.weight[start:end], head.bias[start:end])
        for i, (start, end) in enumerate(pairwise(ends))
    )
    discrete_outputs(graph, logits, spec.branches, mask, greedy=greedy)
