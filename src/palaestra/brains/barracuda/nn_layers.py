"""Layers of a Barracuda file as ONNX operators: one function for each kind, found by `write`.

Barracuda's tensors are (N, H, W, C). In ONNX a tensor with a single pixel is (N, C); any other tensor is an image (N,
C, H, W), as Unity passes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from palaestra.brains.barracuda import nn_kinds as kinds
from palaestra.brains.barracuda.nn_evaluation import evaluate, ranges, run
from palaestra.brains.barracuda.nn_file import Layer, NetworkFile
from palaestra.core.onnx_models.onnx_graph import Graph

FLOAT = 1  # of ONNX's TensorProto.DataType
LAST = 2**31 - 1


@dataclass
class Writer:
    """Writes layers into a graph, and maps each tensor of the file to its ONNX tensor."""

    graph: Graph
    network: NetworkFile
    pixels: Mapping[str, tuple[int, int, int]]
    """(H, W, C) of each tensor."""
    names: dict[str, str] = field(default_factory=dict)
    """ONNX tensor for each tensor that depends on an input."""
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    """Tensors that depend on no input, (N, H, W, C)."""
    noise: bool = True
    """Whether random numbers are drawn; if False, their mean is used."""
    suffix: str = ""

    def is_image(self, tensor: str) -> bool:
        """Whether a tensor has several pixels."""
        return self.pixels[tensor][:2] != (1, 1)

    def operand(self, tensor: str, *, image: bool = False) -> str:
        """Returns the ONNX tensor, constants included, as an image (N, C, H, W) or in its own form."""
        if tensor not in self.constants:
            name = self.names[tensor]
            return self.as_image(name, self.pixels[tensor]) if image and not self.is_image(tensor) else name
        value = self.constants[tensor]
        value = value.transpose(0, 3, 1, 2) if image else value.reshape(len(value), -1)
        return self.graph.constant(f"{tensor}{'.image' if image else ''}{self.suffix}", np.ascontiguousarray(value))

    def as_image(self, name: str, pixels: tuple[int, int, int]) -> str:
        """Writes (N, H W C) as (N, C, H, W)."""
        h, w, c = pixels
        rows = self.graph.add("Reshape", name, self.numbers(-1, h, w, c))
        return self.graph.add("Transpose", rows, perm=[0, 3, 1, 2])

    def flat(self, tensor: str) -> str:
        """Writes a tensor as (N, H W C), pixels in Barracuda's order."""
        name = self.operand(tensor, image=self.is_image(tensor))
        if not self.is_image(tensor):
            return name
        h, w, c = self.pixels[tensor]
        return self.graph.add(
            "Reshape", self.graph.add("Transpose", name, perm=[0, 2, 3, 1]), self.numbers(-1, h * w * c)
        )

    def numbers(self, *values: int) -> str:
        """Adds a constant of integers, such as the target shape of a Reshape, and returns its name."""
        return self.graph.constant(f"shape_{'_'.join(map(str, values))}", np.array(values))


def write_layers(
    graph: Graph,
    network: NetworkFile,
    inputs: Mapping[str, str],
    quiet: Mapping[str, str],
    zeros: Mapping[str, np.ndarray],
) -> tuple[Writer, Writer]:
    """Writes all layers; returns writers that know the results, with random numbers and without them.

    `inputs`: ONNX tensor of each input; `quiet`: for random tensors, the tensor without randomness; `zeros` (1, H, W,
    C): zeros in the shape of each input. Layers that do not depend on random numbers are written once. Raises
    PolicyError.
    """
    pixels = {name: value.shape[1:] for name, value in evaluate(network, zeros).items()}
    drawn = Writer(graph, network, pixels, dict(inputs), dict(network.constants))
    still = Writer(graph, network, pixels, {**inputs, **quiet}, drawn.constants, noise=False, suffix=".still")
    random = set(quiet)
    for layer in network.layers:
        if layer.kind == kinds.LOAD or layer.name in drawn.names:
            continue
        if layer.kind == kinds.RANDOM_NORMAL or random.intersection(layer.inputs):
            random.add(layer.name)
            still.names[layer.name] = write(still, layer)
        elif all(name in drawn.constants for name in layer.inputs):
            drawn.constants[layer.name] = run(layer, [drawn.constants[name] for name in layer.inputs])
            continue
        drawn.names[layer.name] = write(drawn, layer)
        still.names.setdefault(layer.name, drawn.names[layer.name])
    return drawn, still


def write(writer: Writer, layer: Layer) -> str:
    """Writes one layer with its activation. Returns the result's name."""
    result = WRITERS[layer.kind](writer, layer)
    return activation(writer, layer, result) if layer.activation else result


def activation(writer: Writer, layer: Layer, x: str) -> str:
    """Writes the layer's activation of x."""
    graph = writer.graph
    kind = layer.activation
    if kind in (kinds.SOFTMAX, kinds.LOG_SOFTMAX):
        return graph.add("Softmax" if kind == kinds.SOFTMAX else "LogSoftmax", x, axis=1)
    if kind == kinds.SWISH:
        return graph.add("Mul", x, graph.add("Sigmoid", x))
    if kind == kinds.RELU6:
        return graph.add("Clip", x, min=0.0, max=6.0)
    if kind == kinds.CLIP:
        return graph.add("Clip", x, min=layer.alpha, max=layer.beta)
    if kind == kinds.POWER:
        return graph.add("Pow", x, graph.constant(f"{layer.name}.power", layer.alpha))
    if kind in (kinds.ELU, kinds.LEAKY_RELU):
        return graph.add("Elu" if kind == kinds.ELU else "LeakyRelu", x, alpha=layer.alpha)
    return graph.add(PLAIN_ACTIVATIONS[kind], x)


PLAIN_ACTIVATIONS = {
    kinds.RELU: "Relu", kinds.TANH: "Tanh", kinds.SIGMOID: "Sigmoid", kinds.SELU: "Selu", kinds.ABS: "Abs",
    kinds.NEG: "Neg", kinds.CEIL: "Ceil", kinds.FLOOR: "Floor", kinds.RECIPROCAL: "Reciprocal", kinds.SQRT: "Sqrt",
    kinds.EXP: "Exp", kinds.LOG: "Log",
}  # fmt: skip
"""Operators of activations without numbers of their own."""


def dense(writer: Writer, layer: Layer) -> str:
    """Writes the product of (N, in) and a kernel (in, out), plus a bias."""
    graph, (kernel, bias) = writer.graph, (each.values for each in layer.weights)
    weights = graph.constant(f"{layer.name}.kernel", kernel.reshape(-1, kernel.shape[3]))
    biases = graph.constant(f"{layer.name}.bias", bias.reshape(-1))
    return graph.add("Gemm", writer.flat(layer.inputs[0]), weights, biases, alpha=1.0, beta=1.0)


def matmul(writer: Writer, layer: Layer) -> str:
    """Writes the product of two tensors, of which the second is a constant (in, out)."""
    return writer.graph.add("MatMul", writer.flat(layer.inputs[0]), writer.operand(layer.inputs[1]))


def convolution(writer: Writer, layer: Layer) -> str:
    """Writes a convolution with a kernel (height, width, in, out)."""
    graph, (kernel, bias) = writer.graph, (each.values for each in layer.weights)
    weights = graph.constant(f"{layer.name}.kernel", np.ascontiguousarray(kernel.transpose(3, 2, 0, 1)))
    biases = graph.constant(f"{layer.name}.bias", bias.reshape(-1))
    return windowed(writer, layer, "Conv", [weights, biases], kernel.shape[:2], dilations=[1, 1], group=1)


def max_pool(writer: Writer, layer: Layer) -> str:
    """Writes the largest number of each window."""
    return windowed(writer, layer, "MaxPool", [], (layer.pool[1], layer.pool[0]))


def windowed(
    writer: Writer, layer: Layer, op: str, weights: list[str], kernel: tuple[int, ...], **attributes: Any
) -> str:
    """Writes an operator that slides over an image."""
    across, down = layer.strides[:2]
    if layer.pads and layer.pads[0] < 0:
        attributes["auto_pad"] = "SAME_UPPER"
    else:
        left, top, right, bottom = layer.pads
        attributes["pads"] = [top, left, bottom, right]
    image = writer.operand(layer.inputs[0], image=True)
    result = writer.graph.add(op, image, *weights, kernel_shape=list(kernel), strides=[down, across], **attributes)
    return (
        result
        if writer.is_image(layer.name)
        else writer.graph.add("Reshape", result, writer.numbers(-1, writer.pixels[layer.name][2]))
    )


def scale_bias(writer: Writer, layer: Layer) -> str:
    """Writes x times a scale plus a bias, each a number for every channel."""
    graph = writer.graph
    image = writer.is_image(layer.name)
    shape = (1, -1, 1, 1) if image else (1, -1)
    scale, bias = (
        graph.constant(f"{layer.name}.{i}", each.values.reshape(shape)) for i, each in enumerate(layer.weights)
    )
    return graph.add("Add", graph.add("Mul", writer.operand(layer.inputs[0], image=image), scale), bias)


def arithmetic(writer: Writer, layer: Layer) -> str:
    """Writes an elementwise operation, such as a sum or product, of two or more tensors."""
    image = writer.is_image(layer.name)
    result, *others = (writer.operand(name, image=image) for name in layer.inputs)
    for each in others:
        result = writer.graph.add(ARITHMETIC[layer.kind], result, each)
    return result


ARITHMETIC = {
    kinds.ADD: "Add", kinds.SUB: "Sub", kinds.MUL: "Mul", kinds.DIV: "Div", kinds.POW: "Pow", kinds.MIN: "Min",
    kinds.MAX: "Max",
}  # fmt: skip
REDUCTIONS = {
    kinds.REDUCE_MAX: "ReduceMax", kinds.REDUCE_MEAN: "ReduceMean", kinds.REDUCE_MIN: "ReduceMin",
    kinds.REDUCE_PROD: "ReduceProd", kinds.REDUCE_SUM: "ReduceSum",
}  # fmt: skip


def reduction(writer: Writer, layer: Layer) -> str:
    """Writes a reduction over the channels, such as a sum, which leaves one channel."""
    x = writer.operand(layer.inputs[0], image=writer.is_image(layer.inputs[0]))
    return writer.graph.add(REDUCTIONS[layer.kind], x, axes=[1], keepdims=1)


def concat(writer: Writer, layer: Layer) -> str:
    """Writes tensors side by side, along the channels."""
    image = writer.is_image(layer.name)
    return writer.graph.add("Concat", *(writer.operand(name, image=image) for name in layer.inputs), axis=1)


def reshape(writer: Writer, layer: Layer) -> str:
    """Writes a reshape of a tensor to another (H, W, C); pixels stay in Barracuda's order."""
    flat = writer.flat(layer.inputs[0])
    return writer.as_image(flat, writer.pixels[layer.name]) if writer.is_image(layer.name) else flat


def strided_slice(writer: Writer, layer: Layer) -> str:
    """Writes the part of a tensor between a start and an end of H, W and C."""
    (top, bottom), (left, right), (first, last) = ranges(layer)
    x = writer.operand(layer.inputs[0], image=writer.is_image(layer.inputs[0]))
    image = writer.is_image(layer.inputs[0])
    axes, starts, ends = ([1, 2, 3], [first, top, left], [last, bottom, right]) if image else ([1], [first], [last])
    part = writer.graph.add("Slice", x, axes=axes, starts=starts, ends=[end or LAST for end in ends])
    if image and not writer.is_image(layer.name):
        return writer.graph.add("Reshape", part, writer.numbers(-1, writer.pixels[layer.name][2]))
    return part


def random_normal(writer: Writer, layer: Layer) -> str:
    """Writes normal random numbers in the shape of the input; `beta` is their mean, `alpha` their deviation."""
    like = writer.names[layer.inputs[0]]
    if writer.noise:
        return writer.graph.add("RandomNormalLike", like, dtype=FLOAT, mean=layer.beta, scale=layer.alpha)
    nothing = writer.graph.add("Sub", like, like)
    return writer.graph.add("Add", nothing, writer.graph.constant(f"{layer.name}.mean", layer.beta))


def same(writer: Writer, layer: Layer) -> str:
    """Writes nothing: the result is the input."""
    return writer.operand(layer.inputs[0], image=writer.is_image(layer.inputs[0]))


WRITERS: dict[int, Callable[[Writer, Layer], str]] = {
    **dict.fromkeys((kinds.NOP, kinds.DROPOUT, kinds.ACTIVATION), same),
    **dict.fromkeys(ARITHMETIC, arithmetic),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys((kinds.FLATTEN, kinds.RESHAPE), reshape),
    kinds.DENSE: dense,
    kinds.MATMUL: matmul,
    kinds.CONV: convolution,
    kinds.MAX_POOL: max_pool,
    kinds.SCALE_BIAS: scale_bias,
    kinds.RANDOM_NORMAL: random_normal,
    kinds.CONCAT: concat,
    kinds.STRIDED_SLICE: strided_slice,
}
