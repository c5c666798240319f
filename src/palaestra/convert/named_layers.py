"""Finds layers in a state_dict by their names, as torch's nn.Sequential numbers them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from palaestra.convert.source_network import Activation, Convolution, Dense, Flatten, Layer
from palaestra.core.errors import ExportError

NATURE = (4, 2, 1)
"""Strides of the three convolutions of Mnih et al. 2015; files of weights do not store strides."""
NATURE_KERNELS = (8, 4, 3)

Arrays = Mapping[str, np.ndarray]


def numbered(arrays: Arrays, prefix: str) -> list[int]:
    """Returns the numbers N of `PREFIX.N.weight`, in ascending order."""
    pattern = re.compile(rf"{re.escape(prefix)}\.([0-9]{{1,4}})\.weight")
    return sorted(int(found[1]) for key in arrays if (found := pattern.fullmatch(key)))


def dense(arrays: Arrays, name: str) -> Dense:
    """Returns the linear layer of this name; a missing bias is 0. Raises ExportError."""
    weight = arrays.get(f"{name}.weight")
    if weight is None or weight.ndim != 2:
        raise ExportError(f"'{name}' is no linear layer: {_found(arrays, name)}")
    bias = arrays.get(f"{name}.bias", np.zeros(len(weight), np.float32))
    if bias.shape != (len(weight),):
        raise ExportError(f"'{name}.bias' has shape {bias.shape}; expected {(len(weight),)}")
    return Dense(weight, bias)


def mlp(arrays: Arrays, prefix: str, between: Activation, *, last: Activation | None) -> tuple[Layer, ...]:
    """Returns the linear layers of a Sequential with an activation between two, and `last` after the last one. Raises
    ExportError.

    Raises an error for linear layers whose numbers follow without a gap, and for other modules with weights.
    """
    numbers = numbered(arrays, prefix)
    layers: list[Layer] = []
    for i, number in enumerate(numbers):
        layers.append(dense(arrays, f"{prefix}.{number}"))
        after = last if i == len(numbers) - 1 else between
        if i + 1 < len(numbers) and numbers[i + 1] - number not in (1, 2):
            raise ExportError(
                f"'{prefix}' has unknown modules between {number} and {numbers[i + 1]}; expected an activation "
                "between layers"
            )
        if i + 1 < len(numbers) and numbers[i + 1] - number == 1:
            raise ExportError(f"'{prefix}' has no activation between its layers {number} and {numbers[i + 1]}")
        if after is not None:
            layers.append(after)
    return tuple(layers)


def nature_cnn(arrays: Arrays, convolutions: Sequence[str], linear: str) -> tuple[Layer, ...]:
    """Returns NatureCNN's three convolutions and linear layer, a ReLU after each. Raises ExportError for others."""
    weights = [arrays.get(f"{name}.weight") for name in convolutions]
    kernels = tuple(None if weight is None or weight.ndim != 4 else weight.shape[2:] for weight in weights)
    if kernels != tuple((size, size) for size in NATURE_KERNELS):
        shown = ", ".join("none" if kernel is None else "x".join(map(str, kernel)) for kernel in kernels)
        raise ExportError(
            f"the convolutions at '{convolutions[0]}' have kernels {shown}; supported is NatureCNN, with 8x8, 4x4 and "
            "3x3: the weights do not show the strides of other networks"
        )
    layers: list[Layer] = []
    for name, stride in zip(convolutions, NATURE, strict=True):
        weight = arrays[f"{name}.weight"]
        layers += [
            Convolution(weight, arrays.get(f"{name}.bias", np.zeros(len(weight), np.float32)), stride),
            Activation("relu"),
        ]
    return (*layers, Flatten(), dense(arrays, linear), Activation("relu"))


def outputs(layers: Sequence[Layer]) -> int:
    """Returns the number of outputs of the last linear layer."""
    return next(len(layer.weight) for layer in reversed(layers) if isinstance(layer, Dense))


def inputs(layers: Sequence[Layer]) -> int:
    """Returns the number of inputs of the first linear layer."""
    return next(layer.weight.shape[1] for layer in layers if isinstance(layer, Dense))


def _found(arrays: Arrays, name: str) -> str:
    shapes = [f"{key} {tuple(value.shape)}" for key, value in arrays.items() if key.startswith(f"{name}.")]
    return ", ".join(shapes) or "there are no weights of that name"
