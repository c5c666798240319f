"""Runs the layers of a Barracuda file with numpy, on tensors (N, H, W, C) as in the file: slow, but without ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np

from palaestra.brains.barracuda import nn_kinds as kinds
from palaestra.brains.barracuda.nn_file import Layer, NetworkFile
from palaestra.core.errors import PolicyError

Tensors = dict[str, np.ndarray]


def evaluate(network: NetworkFile, feeds: Mapping[str, np.ndarray]) -> Tensors:
    """Returns every tensor, given inputs and memories (N, H, W, C); random numbers are 0. Raises PolicyError."""
    tensors: Tensors = {**network.constants, **feeds}
    with np.errstate(all="ignore"):
        for layer in network.layers:
            if layer.kind != kinds.LOAD and layer.name not in feeds:
                tensors[layer.name] = run(layer, [tensors[name] for name in layer.inputs])
    return tensors


def run(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
    """Returns the result of one layer. Raises PolicyError."""
    operation = OPERATIONS.get(layer.kind)
    if operation is None:
        raise PolicyError(f"layer '{layer.name}' is of a kind that cannot be read: {kinds.title(layer.kind)}")
    try:
        result = operation(layer, inputs)
        return activated(layer, result) if layer.activation else result
    except (ValueError, IndexError, TypeError, MemoryError) as error:
        shapes = ", ".join(str(list(each.shape)) for each in inputs)
        raise PolicyError(f"layer '{layer.name}' does not fit its inputs of shape {shapes}: {error}") from error


def activated(layer: Layer, x: np.ndarray) -> np.ndarray:
    """Returns the layer's activation of x."""
    function = ACTIVATIONS.get(layer.activation)
    if function is None:
        raise PolicyError(f"layer '{layer.name}' has the activation number {layer.activation}, which cannot be read")
    return function(x, layer.alpha, layer.beta).astype(np.float32)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _softmax(x: np.ndarray) -> np.ndarray:
    rows = x.reshape(len(x), -1)
    powers = np.exp(rows - rows.max(1, keepdims=True))
    return (powers / powers.sum(1, keepdims=True)).reshape(x.shape)


ACTIVATIONS: dict[int, Callable[[np.ndarray, float, float], np.ndarray]] = {
    kinds.NONE: lambda x, a, b: x,
    kinds.RELU: lambda x, a, b: np.maximum(x, 0),
    kinds.SOFTMAX: lambda x, a, b: _softmax(x),
    kinds.TANH: lambda x, a, b: np.tanh(x),
    kinds.SIGMOID: lambda x, a, b: _sigmoid(x),
    kinds.ELU: lambda x, a, b: np.where(x > 0, x, a * np.expm1(x)),
    kinds.RELU6: lambda x, a, b: np.clip(x, 0, 6),
    kinds.LEAKY_RELU: lambda x, a, b: np.where(x > 0, x, a * x),
    kinds.SELU: lambda x, a, b: kinds.SELU_GAMMA * np.where(x > 0, x, kinds.SELU_ALPHA * np.expm1(x)),
    kinds.SWISH: lambda x, a, b: x * _sigmoid(x),
    kinds.LOG_SOFTMAX: lambda x, a, b: np.log(_softmax(x)),
    kinds.ABS: lambda x, a, b: np.abs(x),
    kinds.NEG: lambda x, a, b: -x,
    kinds.CEIL: lambda x, a, b: np.ceil(x),
    kinds.CLIP: lambda x, a, b: np.clip(x, a, b),
    kinds.FLOOR: lambda x, a, b: np.floor(x),
    kinds.RECIPROCAL: lambda x, a, b: 1 / x,
    kinds.SQRT: lambda x, a, b: np.sqrt(x),
    kinds.POWER: lambda x, a, b: x**a,
    kinds.EXP: lambda x, a, b: np.exp(x),
    kinds.LOG: lambda x, a, b: np.log(x),
}
"""Functions of x, alpha and beta, by number."""


def _dense(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
    kernel, bias = (each.values for each in layer.weights)
    product = inputs[0].reshape(len(inputs[0]), -1) @ kernel.reshape(-1, kernel.shape[3]) + bias.reshape(-1)
    return product.reshape(-1, 1, 1, kernel.shape[3])


def _matmul(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
    first, second = (each.reshape(len(each), -1) for each in inputs)
    product = first @ second
    return product.reshape(len(first), 1, 1, -1)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Returns the padding before and after one side that gives a result of size / stride, rounded up."""
    whole = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return whole // 2, whole - whole // 2


def windows(layer: Layer, x: np.ndarray, kernel: tuple[int, int], fill: float) -> np.ndarray:
    """Returns the windows (N, H', W', C, kernel height, kernel width) to which a convolution or pool is applied.

    Raises PolicyError for strides below 1, and for a padding beyond the window's size: a damaged file may ask for a
    padding that fills the memory.
    """
    across, down = layer.strides[:2]
    if min(across, down) < 1:
        raise PolicyError(f"layer '{layer.name}' has the strides {list(layer.strides)}; expected at least 1")
    if layer.pads and layer.pads[0] < 0:
        rows = same_padding(x.shape[1], kernel[0], down)
        columns = same_padding(x.shape[2], kernel[1], across)
    else:
        left, top, right, bottom = layer.pads
        if max(left, right) > kernel[1] or max(top, bottom) > kernel[0]:
            raise PolicyError(
                f"layer '{layer.name}' has the padding {list(layer.pads)}, larger than its window of {kernel[0]} x "
                f"{kernel[1]}"
            )
        rows = (top, bottom)
        columns = (left, right)
    padded = np.pad(x, ((0, 0), rows, columns, (0, 0)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(padded, kernel, (1, 2))[:, ::down, ::across]


def _convolution(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
    kernel, bias = (each.values for each in layer.weights)
    seen = windows(layer, inputs[0], (kernel.shape[0], kernel.shape[1]), 0.0)
    return np.einsum("nhwcij,ijcf->nhwf", seen, kernel) + bias.reshape(-1)


def _pool(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
    across, down = layer.pool[:2]
    return windows(layer, inputs[0], (down, across), -np.inf).max((4, 5))


def _scale_bias(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
    scale, bias = (each.values.reshape(-1) for each in layer.weights)
    return inputs[0] * scale + bias


def _chain(function: np.ufunc) -> Callable[[Layer, list[np.ndarray]], np.ndarray]:
    return lambda layer, inputs: np.asarray(reduce(function, inputs), np.float32)


def channel_axis(layer: Layer) -> None:
    """Raises PolicyError unless the layer works along the channels, the only axis that ML-Agents' files use."""
    if layer.axis not in (-1, 3):
        raise PolicyError(f"layer '{layer.name}' works along axis {layer.axis}; only channels (-1 or 3) are supported")


def _reduce(function: Callable[..., np.ndarray]) -> Callable[[Layer, list[np.ndarray]], np.ndarray]:
    def run_reduce(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
        channel_axis(layer)
        return function(inputs[0], axis=3, keepdims=True)

    return run_reduce


def _concat(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
    channel_axis(layer)
    rows = max(len(each) for each in inputs)
    return np.concatenate([np.broadcast_to(each, (rows, *each.shape[1:])) for each in inputs], 3)


def reshaped(layer: Layer) -> tuple[int, ...]:
    """Returns the output shape (H, W, C) of a reshaping layer. Raises PolicyError if agents would be mixed."""
    if len(layer.pool) != 4 or layer.pool[0] not in (-1, 0, 1) or any(size < 1 for size in layer.pool[1:]):
        raise PolicyError(
            f"layer '{layer.name}' reshapes to {list(layer.pool)}; expected four sizes, with the agents first"
        )
    return layer.pool[1:]


def ranges(layer: Layer) -> list[tuple[int, int]]:
    """Returns start and end of a slice along H, W and C; an end of 0 means the last. Raises PolicyError."""
    if len(layer.pads) != 4 or len(layer.pool) != 4 or any(step != 1 for step in layer.strides):
        raise PolicyError(f"layer '{layer.name}' takes a slice with steps {list(layer.strides)}; only 1 is supported")
    if layer.pads[0] or layer.pool[0]:
        raise PolicyError(f"layer '{layer.name}' takes a slice of the agents, which is not supported")
    return list(zip(layer.pads[1:], layer.pool[1:], strict=True))


def _slice(layer: Layer, inputs: list[np.ndarray]) -> np.ndarray:
    h, w, c = (slice(start, end or None) for start, end in ranges(layer))
    return inputs[0][:, h, w, c]


OPERATIONS: dict[int, Callable[[Layer, list[np.ndarray]], np.ndarray]] = {
    **dict.fromkeys((kinds.NOP, kinds.DROPOUT, kinds.ACTIVATION), lambda layer, inputs: inputs[0]),
    kinds.DENSE: _dense,
    kinds.MATMUL: _matmul,
    kinds.CONV: _convolution,
    kinds.MAX_POOL: _pool,
    kinds.SCALE_BIAS: _scale_bias,
    kinds.RANDOM_NORMAL: lambda layer, inputs: np.full_like(inputs[0], layer.beta),
    kinds.ADD: _chain(np.add),
    kinds.SUB: _chain(np.subtract),
    kinds.MUL: _chain(np.multiply),
    kinds.DIV: _chain(np.divide),
    kinds.POW: _chain(np.power),
    kinds.MIN: _chain(np.minimum),
    kinds.MAX: _chain(np.maximum),
    kinds.REDUCE_MAX: _reduce(np.max),
    kinds.REDUCE_MEAN: _reduce(np.mean),
    kinds.REDUCE_MIN: _reduce(np.min),
    kinds.REDUCE_PROD: _reduce(np.prod),
    kinds.REDUCE_SUM: _reduce(np.sum),
    kinds.FLATTEN: lambda layer, inputs: inputs[0].reshape(len(inputs[0]), 1, 1, -1),
    kinds.RESHAPE: lambda layer, inputs: inputs[0].reshape(len(inputs[0]), *reshaped(layer)),
    kinds.CONCAT: _concat,
    kinds.STRIDED_SLICE: _slice,
}
"""Functions of a layer and its inputs, by kind."""
