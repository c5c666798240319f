"""Policies of other libraries as ONNX models with the tensors that Unity looks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from palaestra.convert import source_network as network
from palaestra.core.onnx_models.onnx_graph import BATCH, Graph
from palaestra.core.onnx_models.onnx_metadata import write_notes
from palaestra.core.onnx_models.onnx_policy import continuous_outputs, discrete_outputs, form_outputs

FLOAT = 1  # of ONNX's TensorProto.DataType


def source_graph(policy: network.SourcePolicy) -> Graph:
    """Returns the model of version 3."""
    graph = Graph(metadata=write_notes(policy.spec))
    form_outputs(graph, 0)
    parts = [encoded(graph, each, i) for i, each in enumerate(policy.seen)]
    features = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)
    features = run(graph, policy.body, "body", features)
    if isinstance(policy.head, network.Continuous):
        continuous(graph, policy.head, features)
        continuous_outputs(graph, policy.action.continuous)
    else:
        discrete(graph, policy.head, policy.action.branches, features)
    return graph


def encoded(graph: Graph, seen: network.SourceObs, index: int) -> str:
    """Declares an observation and writes the layers that turn it into a row of numbers."""
    x = graph.input(f"obs_{index}", (BATCH, *seen.spec.shape))
    if seen.factor != 1:
        x = graph.add("Mul", x, graph.constant(f"obs_{index}.factor", seen.factor))
    if seen.normalizer is not None:
        centered = graph.add("Sub", x, graph.constant(f"obs_{index}.mean", seen.normalizer.mean))
        x = graph.add("Div", centered, graph.constant(f"obs_{index}.divisor", seen.normalizer.divisor))
        if seen.normalizer.limit is not None:
            x = graph.add("Clip", x, min=-seen.normalizer.limit, max=seen.normalizer.limit)
    return run(graph, seen.layers, f"encoder_{index}", x)


def run(graph: Graph, layers: Sequence[network.Layer], name: str, x: str) -> str:
    """Writes layers one after another."""
    for i, layer in enumerate(layers):
        at = f"{name}.{i}"
        if isinstance(layer, network.Dense):
            x = graph.add("Gemm", x, *_weights(graph, at, layer), alpha=1.0, beta=1.0, transB=1)
        elif isinstance(layer, network.Convolution):
            sides = list(layer.weight.shape[2:])
            stride = [layer.stride] * 2
            x = graph.add(
                "Conv",
                x,
                *_weights(graph, at, layer),
                dilations=[1, 1],
                group=1,
                kernel_shape=sides,
                pads=[0] * 4,
                strides=stride,
            )
        elif isinstance(layer, network.Flatten):
            x = graph.add("Flatten", x, axis=1)
        else:
            x = WRITERS[layer.name](graph, at, x)
    return x


def continuous(graph: Graph, head: network.Continuous, features: str) -> None:
    """Writes sampled and deterministic actions, both within -1..1 if the environment's bounds are known."""
    mean = run(graph, head.mean, "action.mean", features)
    drawn = mean
    if head.spread is not None:
        std = deviation(graph, head.spread, features)
        drawn = graph.add("Add", mean, graph.add("Mul", graph.add("RandomNormalLike", mean, dtype=FLOAT), std))
    for name, value in (("continuous_actions", drawn), ("deterministic_continuous_actions", mean)):
        graph.add("Identity", within(graph, head, name, value), output=name)


def within(graph: Graph, head: network.Continuous, name: str, value: str) -> str:
    """Writes actions as Unity receives them: the range low..high becomes -1..1. Squashed actions already are."""
    if head.squashed:
        return graph.add("Tanh", value)
    if head.bounds is None:
        return value
    low, high = (np.asarray(each, np.float64) for each in head.bounds)
    middle = (low + high) / 2
    half = (high - low) / 2
    scaled = graph.add(
        "Div", graph.add("Sub", value, graph.constant(f"{name}.middle", middle)), graph.constant(f"{name}.half", half)
    )
    return graph.add("Clip", scaled, min=-1.0, max=1.0)


def deviation(graph: Graph, spread: network.Spread, features: str) -> str:
    """Writes the standard deviations of the noise, (N, continuous) or (1, continuous)."""
    if isinstance(spread, network.ConstantStd):
        return graph.constant("action.std", spread.std[None])
    if isinstance(spread, network.LearnedStd):
        raw = run(graph, (spread.layer,), "action.log_std", features)
        if not spread.squashed:
            return graph.add("Exp", graph.add("Clip", raw, min=spread.least, max=spread.most))
        half = (spread.most - spread.least) / 2
        scaled = graph.add("Mul", graph.add("Tanh", raw), graph.constant("action.log_std.half", half))
        return graph.add("Exp", graph.add("Add", scaled, graph.constant("action.log_std.middle", spread.least + half)))
    assert spread is not None
    variance = graph.add(
        "MatMul", graph.add("Mul", features, features), graph.constant("action.variance", spread.variance)
    )
    return graph.add("Sqrt", graph.add("Add", variance, graph.constant("action.least_variance", 1e-6)))


def discrete(graph: Graph, head: network.Discrete, branches: Sequence[int], features: str) -> None:
    """Writes choices, some of which the mask may forbid."""
    logits = run(graph, head.logits, "action.logits", features)
    mask = graph.input("action_masks", (BATCH, sum(branches)))
    ends = np.cumsum(branches).tolist()
    parts = (
        graph.add("Slice", logits, axes=[1], starts=[end - size], ends=[end])
        for size, end in zip(branches, ends, strict=True)
    )
    discrete_outputs(graph, parts, branches, mask, greedy=head.greedy)


def _weights(graph: Graph, name: str, layer: network.Dense | network.Convolution) -> tuple[str, str]:
    return graph.constant(f"{name}.weight", layer.weight), graph.constant(f"{name}.bias", layer.bias)


def _operator(op: str, **attributes: Any) -> Callable[[Graph, str, str], str]:
    return lambda graph, name, x: graph.add(op, x, **attributes)


def _softplus(graph: Graph, name: str, x: str) -> str:
    """Writes ln(1 + e^x) as max(x, 0) + ln(1 + e^-|x|), which never overflows."""
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", x)))
    return graph.add(
        "Add", graph.add("Relu", x), graph.add("Log", graph.add("Add", small, graph.constant(f"{name}.one", 1.0)))
    )


WRITERS: dict[str, Callable[[Graph, str, str], str]] = {
    "elu": _operator("Elu", alpha=1.0),
    "identity": lambda graph, name, x: x,
    "leaky_relu": _operator("LeakyRelu", alpha=0.01),
    "relu": _operator("Relu"),
    "selu": _operator("Selu"),
    "sigmoid": _operator("Sigmoid"),
    "silu": lambda graph, name, x: graph.add("Mul", x, graph.add("Sigmoid", x)),
    "softplus": _softplus,
    "tanh": _operator("Tanh"),
    "hardtanh2": _operator("Clip", min=-2.0, max=2.0),
}
"""Activations as operators of opset 9."""
