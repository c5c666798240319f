"""Modules of networks as the ONNX operators of ML-Agents' own exports, with which Unity's importers are tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from palaestra.core.errors import ExportError
from palaestra.core.onnx_models.onnx_graph import Graph
from palaestra.models.actor_critic import ACTOR
from palaestra.models.conditioned_bodies import ConditionedMLP, HyperLinear
from palaestra.models.custom import OwnModule
from palaestra.models.encoders import (
    ConvolutionalEncoder,
    FullyConnectedEncoder,
    Match3Encoder,
    NatureEncoder,
    ResidualBlock,
    ResidualStack,
    ResNetEncoder,
    SimpleEncoder,
)
from palaestra.models.residual.residual_body import ResidualBody
from palaestra.models.trunk import LIMIT, Normalizer, StackedMLP
from palaestra.onnx_export.custom import own_module

LEAK = 0.01  # slope of torch's LeakyReLU
EPSILON = 1e-5  # of torch's layer norm, and of features' size in residual bodies


def write(graph: Graph, module: nn.Module, name: str, *inputs: str) -> str:
    """Appends the computation of `module` on `inputs`, with constants named after `name`. Raises ExportError."""
    writer = WRITERS.get(type(module))
    if writer is None:
        known = ", ".join(sorted(kind.__name__ for kind in WRITERS))
        raise ExportError(
            f"'{name}' is a {type(module).__name__}, which cannot be written as ONNX yet (can be: {known})"
        )
    return writer(graph, module, name, *inputs)


def gemm(graph: Graph, name: str, x: str, weight: Tensor, bias: Tensor) -> str:
    """Writes x (N, in) times `weight` (out, in), plus `bias` (out,)."""
    weights = graph.constant(f"{name}.weight", weight)
    biases = graph.constant(f"{name}.bias", bias)
    return graph.add("Gemm", x, weights, biases, alpha=1.0, beta=1.0, transB=1)


def swish(graph: Graph, x: str) -> str:
    """Writes the activation Swish, x * sigmoid(x), elementwise."""
    return graph.add("Mul", x, graph.add("Sigmoid", x))


def columns(graph: Graph, x: str, indices: Sequence[int]) -> str:
    """Writes some columns of x (N, _), in ascending order: a slice for each unbroken stretch."""
    breaks = [i for i in range(1, len(indices)) if indices[i] != indices[i - 1] + 1]
    stretches = [(indices[i], indices[j - 1] + 1) for i, j in zip([0, *breaks], [*breaks, len(indices)], strict=True)]
    return join(graph, [graph.add("Slice", x, axes=[1], starts=[start], ends=[end]) for start, end in stretches])


def join(graph: Graph, parts: Sequence[str]) -> str:
    """Writes (N, a), (N, b), ... side by side."""
    return parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)


def linear(graph: Graph, module: nn.Linear, name: str, x: str) -> str:
    """Writes x (N, in) to (N, out)."""
    return gemm(graph, name, x, module.weight, module.bias)


def normalizer(graph: Graph, module: Normalizer, name: str, x: str) -> str:
    """Writes x (N, n) minus mean, divided by standard deviation, clipped; the statistics become constants."""
    centered = graph.add("Sub", x, graph.constant(f"{name}.mean", module.shift))
    scaled = graph.add("Div", centered, graph.constant(f"{name}.std", module.scale.reciprocal()))
    return graph.add("Clip", scaled, min=-LIMIT, max=LIMIT)


def convolutional_visual(graph: Graph, module: ConvolutionalEncoder, name: str, image: str) -> str:
    """Writes an image (N, C, H, W) to (N, hidden)."""
    for i, layer in enumerate(module.convolutions):
        assert isinstance(layer, nn.Conv2d)
        image = graph.add("LeakyRelu", convolution(graph, layer, f"{name}.convolution_{i}", image), alpha=LEAK)
    return graph.add("LeakyRelu", flat_linear(graph, module.dense, f"{name}.dense", image), alpha=LEAK)


def resnet_visual(graph: Graph, module: ResNetEncoder, name: str, image: str) -> str:
    """Writes an image (N, C, H, W) to (N, hidden)."""
    for i, stack in enumerate(module.stacks):
        assert isinstance(stack, ResidualStack)
        image = convolution(graph, stack.convolution, f"{name}.{i}", image)
        image = graph.add("MaxPool", image, kernel_shape=[3, 3], pads=[0, 0, 0, 0], strides=[2, 2])
        for j, block in enumerate(stack.blocks):
            image = write(graph, block, f"{name}.{i}.{j}", image)
    return graph.add("Relu", flat_linear(graph, module.dense, f"{name}.dense", swish(graph, image)))


def residual_block(graph: Graph, module: ResidualBlock, name: str, x: str) -> str:
    """Writes (N, F, H, W) to the same shape."""
    hidden = convolution(graph, module.first, f"{name}.first", swish(graph, x))
    return graph.add("Add", x, convolution(graph, module.second, f"{name}.second", swish(graph, hidden)))


def convolution(graph: Graph, module: nn.Conv2d, name: str, x: str) -> str:
    """Writes x (N, C, H, W) to (N, F, _, _)."""
    assert module.bias is not None
    weights = graph.constant(f"{name}.weight", module.weight)
    biases = graph.constant(f"{name}.bias", module.bias)
    kernel, strides, (rows, columns) = list(module.kernel_size), list(module.stride), module.padding
    pads = [rows, columns, rows, columns]
    return graph.add(
        "Conv", x, weights, biases, dilations=[1, 1], group=1, kernel_shape=kernel, pads=pads, strides=strides
    )


def flat_linear(graph: Graph, module: nn.Linear, name: str, x: str) -> str:
    """Adds a dense layer over the flattened x: (N, C, H, W) to (N, out). Returns the result's name."""
    shape = graph.constant(f"{name}.inputs", np.array([-1, module.in_features]))
    return linear(graph, module, name, graph.add("Reshape", x, shape))


def stacked_mlp(graph: Graph, module: StackedMLP, name: str, x: str) -> str:
    """Writes the actor's body; the critic's body is left out of the file."""
    for i, (weight, bias) in enumerate(zip(module.weights, module.biases, strict=True)):
        x = swish(graph, gemm(graph, f"{name}.{i}", x, weight[ACTOR].t(), bias[ACTOR].flatten()))
    return x


def residual_body(graph: Graph, module: ResidualBody, name: str, x: str) -> str:
    """Writes the actor's blocks, with their norms folded into the weights, and the norm of the features."""
    mean, ((weight, bias), *layers) = module.folded(ACTOR)
    x = gemm(graph, f"{name}.0", graph.add("Sub", x, graph.constant(f"{name}.mean", mean)), weight, bias)
    for i in range(0, len(layers), 2):
        inner = x
        for j, (weight, bias) in enumerate(layers[i : i + 2], start=i + 1):
            inner = graph.add("Relu", gemm(graph, f"{name}.{j}", inner, weight, bias))
        x = graph.add("Add", x, inner)
    square = graph.add("ReduceMean", graph.add("Mul", x, x), axes=[1], keepdims=1)
    size = graph.add("Sqrt", graph.add("Add", square, graph.constant(f"{name}.epsilon", EPSILON)))
    return graph.add("Mul", graph.add("Div", x, size), graph.constant(f"{name}.scale", module.scale[ACTOR].t()))


def conditioned_mlp(graph: Graph, module: ConditionedMLP, name: str, x: str, goal: str) -> str:
    """Writes x (N, in) and goal (N, g) to (N, hidden)."""
    for i, layer in enumerate(module.linears):
        x = swish(graph, write(graph, layer, f"{name}.{i}", x))
    return swish(graph, hyper_linear(graph, module.hyper, f"{name}.hyper", x, goal))


def hyper_linear(graph: Graph, module: HyperLinear, name: str, x: str, goal: str) -> str:
    """Writes x (N, in) times a matrix for each row, computed from the goal: (N, 1, in) times (N, in, out)."""
    code = swish(graph, linear(graph, module.first, f"{name}.first", goal))
    code = swish(graph, linear(graph, module.second, f"{name}.second", code))
    flat = linear(graph, module.weights, f"{name}.weights", layer_norm(graph, name, code))
    shape = graph.constant(f"{name}.shape", np.array([-1, module.inputs, module.outputs]))
    product = graph.add("MatMul", graph.add("Unsqueeze", x, axes=[1]), graph.add("Reshape", flat, shape))
    return graph.add("Add", graph.add("Squeeze", product, axes=[1]), graph.constant(f"{name}.bias", module.bias))


def layer_norm(graph: Graph, name: str, x: str, axis: int = 1) -> str:
    """Writes x normalized to mean 0 and variance 1 along its last axis, which is `axis`; has no weights."""
    centered = graph.add("Sub", x, graph.add("ReduceMean", x, axes=[axis], keepdims=1))
    variance = graph.add("ReduceMean", graph.add("Mul", centered, centered), axes=[axis], keepdims=1)
    std = graph.add("Sqrt", graph.add("Add", variance, graph.constant(f"{name}.epsilon", EPSILON)))
    return graph.add("Div", centered, std)


WRITERS: dict[type[nn.Module], Callable[..., Any]] = {
    nn.Linear: linear,
    Normalizer: normalizer,
    **dict.fromkeys((SimpleEncoder, NatureEncoder, Match3Encoder, FullyConnectedEncoder), convolutional_visual),
    ResNetEncoder: resnet_visual,
    ResidualBlock: residual_block,
    OwnModule: own_module,
    StackedMLP: stacked_mlp,
    ResidualBody: residual_body,
    ConditionedMLP: conditioned_mlp,
    HyperLinear: hyper_linear,
}
