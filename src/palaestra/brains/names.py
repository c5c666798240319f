"""Reads the file that says what a foreign model's tensors mean (YAML or JSON). An example of such a file stands in the
guide to playing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from palaestra.core.errors import PolicyError
from palaestra.core.files import read_whole_text
from palaestra.core.plugins import nearest

MASK = "action_mask"
OUTPUTS = ("continuous", "deterministic_continuous", "discrete", "deterministic_discrete", "logits")
EXTRA = ("value", "uniform", "memory")


@dataclass(frozen=True, slots=True)
class ObservationInput:
    """Input for observations, each named or given as obs_0, obs_1 ...; several are joined."""

    obs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mask:
    """Input for the action mask: 1 for an allowed choice, else 0."""


@dataclass(frozen=True, slots=True)
class MemoryTensors:
    """Input that gets the last value of an output for the same agent; zeros when an episode begins."""

    output: str


@dataclass(frozen=True, slots=True)
class Value:
    """Input with a constant value."""

    value: Any
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class UniformInput:
    """Input for random numbers, new at each call."""

    low: float
    high: float
    shape: tuple[int, ...] | None  # without the rows; None: what the model says


Source = ObservationInput | Mask | MemoryTensors | Value | UniformInput


@dataclass(frozen=True, slots=True)
class Names:
    """Content of the file."""

    path: Path
    inputs: Mapping[str, Source]  # by the model's tensor
    outputs: Mapping[str, str]  # the model's tensor of each of OUTPUTS that it has


def read_names(path: Path) -> Names:
    """Reads the file. Raises PolicyError, naming the file and the entry."""
    try:
        tree = yaml.safe_load(read_whole_text(path))
    except OSError as error:
        raise PolicyError(
            f"{path} cannot be read: {error.strerror or error}; expected a file of a model's tensors"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path} is no YAML: {error}") from error
    if not isinstance(tree, dict) or set(tree) != {"inputs", "outputs"}:
        raise PolicyError(
            f"{path}: expected the keys 'inputs' and 'outputs'; got {list(tree) if isinstance(tree, dict) else tree!r}"
        )
    for key, inner in tree.items():
        if not isinstance(inner, dict) or not inner:
            raise PolicyError(f"{path}: '{key}' is {inner!r}; expected a line for each tensor")
    inputs = {str(tensor): _source(path, str(tensor), given) for tensor, given in tree["inputs"].items()}
    return Names(path, inputs, _outputs(path, tree["outputs"]))


def _outputs(path: Path, given: Mapping[Any, Any]) -> dict[str, str]:
    for what, tensor in given.items():
        if what not in OUTPUTS:
            raise PolicyError(
                f"{path}: outputs: there is no '{what}'{nearest(str(what), OUTPUTS)} (there are: {', '.join(OUTPUTS)})"
            )
        if not isinstance(tensor, str):
            raise PolicyError(f"{path}: outputs: {what}: {tensor!r} is no tensor's name")
    if "logits" in given and "discrete" in given:
        raise PolicyError(
            f"{path}: outputs: 'discrete' are choices, and 'logits' the scores from which choices are drawn; name "
            "only one of them"
        )
    return dict(given)


def _source(path: Path, tensor: str, given: Any) -> Source:
    where = f"{path}: inputs: {tensor}"
    if given == MASK:
        return Mask()
    if isinstance(given, str):
        return ObservationInput((given,))
    if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
        return ObservationInput(tuple(given))
    table: dict[Any, Any] = given if isinstance(given, dict) else {}
    kind = next((key for key in EXTRA if key in table), None)
    if kind is None or set(table) - {kind, "shape"} or (kind == "memory" and "shape" in table):
        raise PolicyError(
            f"{where}: {given!r} is neither an observation (obs_0, or its name), a list of them, {MASK}, {{value: "
            "1.0}, {uniform: [0, 1], shape: [4]} nor {memory: OUTPUT}"
        )
    shape = _shape(where, table.get("shape"))
    if kind == "memory":
        return MemoryTensors(str(table["memory"]))
    return Value(table["value"], shape) if kind == "value" else _uniform(where, table["uniform"], shape)


def _uniform(where: str, given: Any, shape: tuple[int, ...] | None) -> UniformInput:
    numbers = isinstance(given, list) and len(given) == 2 and all(isinstance(each, int | float) for each in given)
    if not numbers or not float(given[0]) <= float(given[1]):
        raise PolicyError(f"{where}: uniform: {given!r}; expected the smallest and the largest value, such as [0, 1]")
    return UniformInput(float(given[0]), float(given[1]), shape)


def _shape(where: str, given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(size, int) and size > 0 for size in given):
        raise PolicyError(f"{where}: shape: {given!r}; expected sizes without the rows, such as [4]")
    return tuple(given)
