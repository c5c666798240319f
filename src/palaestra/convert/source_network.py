"""A policy of another library as plain arrays: its observations, its layers, and how its actions are computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from palaestra.core.errors import ExportError
from palaestra.core.plugins import nearest
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer: weight (out, in), bias (out,)."""

    weight: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution without padding: weight (filters, channels, height, width), bias (filters,)."""

    weight: np.ndarray
    bias: np.ndarray
    stride: int


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of each number: one of the values of `ACTIVATIONS`, or `hardtanh2`, which clips to ±2."""

    name: str


@dataclass(frozen=True, slots=True)
class Flatten:
    """Everything in one row, channels first."""


Layer: TypeAlias = Dense | Convolution | Activation | Flatten

ACTIVATIONS = {
    "elu": "elu", "identity": "identity", "leakyrelu": "leaky_relu", "lrelu": "leaky_relu", "relu": "relu",
    "selu": "selu", "sigmoid": "sigmoid", "silu": "silu", "softplus": "softplus", "swish": "silu", "tanh": "tanh",
}  # fmt: skip
"""Activations by their names in torch and in other libraries, in small letters without underscores."""


def activation(name: str) -> Activation:
    """Returns the activation for a name such as `ELU`, `leaky_relu`, or a printed torch class. Raises ExportError."""
    short = name.strip("<>' ").rpartition(".")[2]
    found = ACTIVATIONS.get(short.lower().replace("_", ""))
    if found is None:
        known = ", ".join(ACTIVATIONS)
        raise ExportError(
            f"the activation '{short}' cannot be converted{nearest(short.lower(), ACTIVATIONS)} (those that can: "
            f"{known})"
        )
    return Activation(found)


@dataclass(frozen=True, slots=True)
class Scaling:
    """(x - mean) / divisor, then clipped to ±limit."""

    mean: np.ndarray  # (size,)
    divisor: np.ndarray  # (size,)
    limit: float | None


@dataclass(frozen=True, slots=True)
class SourceObs:
    """One observation and its layers, before all observations are joined."""

    spec: ObsSpec
    factor: float = 1.0
    """Factor by which the network multiplies the numbers of `spec`: images reach it within 0..1."""
    normalizer: Scaling | None = None
    layers: tuple[Layer, ...] = ()
    """The encoder; it ends in a row of numbers."""


@dataclass(frozen=True, slots=True)
class ConstantStd:
    """The same deviation in every state, (continuous,)."""

    std: np.ndarray


@dataclass(frozen=True, slots=True)
class LearnedStd:
    """A layer that gives the logarithm of the deviation, bounded by clipping or, if `squashed`, by tanh."""

    layer: Dense
    least: float
    most: float
    squashed: bool = False


@dataclass(frozen=True, slots=True)
class StateStd:
    """Generalized state-dependent exploration, https://arxiv.org/abs/2005.05719: features² by `variance`."""

    variance: np.ndarray


Spread: TypeAlias = ConstantStd | LearnedStd | StateStd | None


@dataclass(frozen=True, slots=True)
class Continuous:
    """Continuous actions: mean, noise, then tanh if `squashed`."""

    mean: tuple[Layer, ...]
    spread: Spread
    squashed: bool = False
    bounds: tuple[np.ndarray, np.ndarray] | None = None
    """Range of the actions, to which actions that are not squashed are clipped. None: actions are not rescaled."""


@dataclass(frozen=True, slots=True)
class Discrete:
    """Choices by logits of all branches side by side; `greedy`: they are values, and the best one is always taken."""

    logits: tuple[Layer, ...]
    greedy: bool = False


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """A policy as read from a file of another library."""

    title: str
    """Library and algorithm, such as 'PPO of Stable-Baselines3'."""
    seen: tuple[SourceObs, ...]
    body: tuple[Layer, ...]
    head: Continuous | Discrete
    action: ActionSpec
    remarks: tuple[str, ...] = field(default=())
    """Assumptions about what the file does not say, for the user."""

    @property
    def spec(self) -> BehaviorSpec:
        """Observations and actions in the form of Unity and `load_policy`."""
        return BehaviorSpec(tuple(each.spec for each in self.seen), self.action)


def check_shapes(policy: SourcePolicy) -> None:
    """Raises ExportError, naming the layer, if a layer does not fit the layer before it."""
    width = sum(_width(f"observation '{each.spec.name}'", each.layers, each.spec.shape) for each in policy.seen)
    features = _width("the hidden layers", policy.body, (width,))
    for each in policy.seen:
        if each.normalizer is not None and each.normalizer.mean.shape != each.spec.shape:
            raise ExportError(
                f"the normalizer of '{each.spec.name}' has {each.normalizer.mean.size} numbers; expected "
                f"{each.spec.shape}"
            )
    head = policy.head
    spec = policy.action
    outputs = _width("the action layer", head.mean if isinstance(head, Continuous) else head.logits, (features,))
    expected = spec.continuous or spec.choices
    if outputs != expected:
        what = (
            f"{spec.continuous} continuous actions"
            if spec.continuous
            else f"branches of {', '.join(map(str, spec.branches))} choices"
        )
        raise ExportError(
            f"the network has {outputs} outputs, and {what} need {expected}: name the actions with --actions"
        )
    if isinstance(head, Continuous):
        _check_spread(head.spread, features, outputs)


def _check_spread(spread: Spread, features: int, outputs: int) -> None:
    match spread:
        case None:
            return
        case ConstantStd():
            found, expected = np.shape(spread.std), (outputs,)
        case LearnedStd():
            found, expected = spread.layer.weight.shape, (outputs, features)
        case StateStd():
            found, expected = spread.variance.shape, (features, outputs)
    if found != expected:
        raise ExportError(f"the deviations of the actions have shape {found}; expected {expected}")


def _width(where: str, layers: tuple[Layer, ...], shape: tuple[int, ...]) -> int:
    for layer in layers:
        if isinstance(layer, Convolution):
            filters, channels, *kernel = layer.weight.shape
            if len(shape) != 3 or shape[0] != channels:
                raise ExportError(
                    f"{where}: a convolution of {channels} channels gets {_text(shape)}; name the shape with "
                    "--obs-shape"
                )
            sides = [(side - size) // layer.stride + 1 for side, size in zip(shape[1:], kernel, strict=True)]
            if min(sides) < 1:
                raise ExportError(
                    f"{where}: {_text(shape)} is too small for a convolution of {kernel[0]} x {kernel[1]}"
                )
            shape = (filters, *sides)
        elif isinstance(layer, Flatten):
            shape = (int(np.prod(shape)),)
        elif isinstance(layer, Dense):
            if shape != (layer.weight.shape[1],):
                raise ExportError(
                    f"{where}: a layer of {layer.weight.shape[1]} inputs gets {_text(shape)} numbers; check --obs-shape"
                )
            shape = (layer.weight.shape[0],)
    if len(shape) != 1:
        raise ExportError(f"{where} does not end in a row of numbers, but in {_text(shape)}")
    return shape[0]


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
