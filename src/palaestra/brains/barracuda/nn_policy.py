"""A Barracuda file as an ONNX model of version 3.

A Barracuda file has the inputs `vector_observation` (all vectors joined), `visual_observation_0`, ..., and the output
`action`: continuous numbers, or log-probabilities of all branches side by side, from which the game draws.
`action_masks` holds 1 for an allowed choice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from palaestra.brains.barracuda import nn_kinds as kinds
from palaestra.brains.barracuda.nn_evaluation import evaluate
from palaestra.brains.barracuda.nn_file import NetworkFile, Shape, read_network
from palaestra.brains.barracuda.nn_layers import Writer, write_layers
from palaestra.core.errors import PolicyError
from palaestra.core.onnx_models.onnx_graph import BATCH, Graph
from palaestra.core.onnx_models.onnx_policy import FORBIDDEN, continuous_outputs, discrete_outputs, form_outputs

VECTORS, MASK, MEMORY_IN, MEMORY_OUT = "vector_observation", "action_masks", "recurrent_in", "recurrent_out"
VISUAL = re.compile(r"visual_observation_\d+")
EPSILON, LENGTH = "epsilon", "sequence_length"
FLOAT = 1  # of ONNX's TensorProto.DataType


@dataclass(frozen=True, slots=True)
class BarracudaPolicy:
    """Policy of a file: its layers, and the spaces of the agent that the policy plays."""

    network: NetworkFile
    obs: tuple[Shape, ...]  # of each observation, in the order in which Unity has the sensors; images as (C, H, W)
    continuous: int
    branches: tuple[int, ...]
    memory_size: int


def read_policy(
    path: Path, obs: Sequence[Shape] | None = None, branches: Sequence[int] | None = None
) -> BarracudaPolicy:
    """Reads a file. Raises PolicyError if the file is damaged, no policy, or has layers that cannot be read.

    `obs`: shape of each observation, needed if several vectors are joined or images are in another order;
    `branches`: numbers of choices, needed if the file does not show them.
    """
    network = read_network(path)
    for needed in ("action", "is_continuous_control", "action_output_shape"):
        if not _has(network, needed):
            there = ", ".join(network.outputs) or "none"
            raise PolicyError(f"{path} is no agent's policy: it has no tensor '{needed}' (its outputs: {there})")
    known = (VECTORS, MASK, MEMORY_IN, EPSILON, LENGTH)
    unknown = [name for name in network.inputs if name not in known and not VISUAL.fullmatch(name)]
    if unknown:
        raise PolicyError(
            f"{path} has an input '{unknown[0]}', which cannot be given; inputs that can: {VECTORS}, "
            f"visual_observation_0, {MASK}"
        )
    result = evaluate(network, zeros(network))["action"].shape
    is_continuous = bool(_constant(network, "is_continuous_control"))
    size = prod(result[1:])
    memory = sum(memory.size for memory in network.memories) or (
        prod(network.inputs[MEMORY_IN][1:]) if MEMORY_IN in network.inputs else 0
    )
    if memory and not network.memories and not _has(network, MEMORY_OUT):
        raise PolicyError(f"{path} has the input '{MEMORY_IN}' and no tensor '{MEMORY_OUT}'")
    if is_continuous and branches is not None:
        raise PolicyError(
            f"{path} has {size} continuous actions and no choices; got branches {', '.join(map(str, branches))}"
        )
    found = () if is_continuous else _branches(network, size, branches)
    return BarracudaPolicy(network, _observations(network, obs), size if is_continuous else 0, found, memory)


def load_nn(path: Path) -> bytes:
    """Returns a file as an ONNX model with the file's tensor names: `vector_observation` takes all vectors, joined."""
    return policy_graph(read_policy(path), own_names=True).model().SerializeToString()


def policy_graph(policy: BarracudaPolicy, *, own_names: bool = False) -> Graph:
    """Returns the model; its observations are named obs_0, obs_1, ... or, with `own_names`, as in the file."""
    graph = Graph()
    network = policy.network
    form_outputs(graph, policy.memory_size)
    inputs = _observation_inputs(graph, policy, own_names)
    mask = graph.input(MASK, (BATCH, sum(policy.branches))) if policy.branches else ""
    if MASK in network.inputs:
        inputs[MASK] = _usable_mask(graph, policy.branches, mask)
    inputs |= _memory_inputs(graph, policy)
    quiet = {EPSILON: _nothing(graph, policy, next(iter(graph.inputs)))} if EPSILON in network.inputs else {}
    inputs |= {name: graph.add("RandomNormalLike", nothing, dtype=FLOAT) for name, nothing in quiet.items()}
    drawn, still = write_layers(graph, network, inputs, quiet, zeros(network))
    if policy.branches:
        discrete_outputs(graph, _logits(graph, drawn.operand("action"), policy.branches), policy.branches, mask)
    else:
        graph.add("Identity", drawn.operand("action"), output="continuous_actions")
        graph.add("Identity", still.operand("action"), output="deterministic_continuous_actions")
        continuous_outputs(graph, policy.continuous)
    if policy.memory_size:
        _memory_output(graph, policy, still)
    return graph


def zeros(network: NetworkFile, rows: int = 1) -> dict[str, np.ndarray]:
    """Returns inputs and memories of zeros, (rows, H, W, C), except for masks, which allow everything."""
    sizes = {name: _pixels(network, name) for name in network.inputs} | {
        each.entry: (1, 1, each.size) for each in network.memories
    }
    feeds = {name: np.zeros((rows, *pixels), np.float32) for name, pixels in sizes.items()}
    return feeds | {name: np.ones_like(feeds[name]) for name in (MASK, LENGTH) if name in feeds}


def _has(network: NetworkFile, name: str) -> bool:
    return name in network.constants or any(layer.name == name and layer.kind != kinds.LOAD for layer in network.layers)


def _constant(network: NetworkFile, name: str) -> float:
    value = network.constants.get(name)
    if value is None or value.size != 1:
        raise PolicyError(f"{network.path}: '{name}' is no constant; it should be one number")
    return value.item()


def _pixels(network: NetworkFile, name: str) -> tuple[int, int, int]:
    shape = network.inputs[name]
    if len(shape) != 4:
        raise PolicyError(
            f"{network.path}: input '{name}' has shape {list(shape)}; expected four sizes: agents, height, width, "
            "channels"
        )
    return shape[1], shape[2], shape[3]


def _branches(network: NetworkFile, size: int, given: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the number of choices of each branch: the given numbers, else the slices of the mask."""
    cuts = [layer for layer in network.layers if layer.kind == kinds.STRIDED_SLICE and MASK in layer.inputs]
    ends = sorted({(layer.pads[3], layer.pool[3] or size) for layer in cuts if len(layer.pads) == len(layer.pool) == 4})
    adjoin = bool(ends) and [start for start, _ in ends] == [0, *(end for _, end in ends[:-1])] and ends[-1][1] == size
    found = tuple(end - start for start, end in ends) if adjoin else ()
    wanted = found if given is None else tuple(given)
    if not wanted or sum(wanted) != size or (found and wanted != found):
        shown = (
            f"its branches are {', '.join(map(str, found))}"
            if found
            else "it does not show to which branch they belong"
        )
        raise PolicyError(
            f"{network.path} has {size} discrete outputs, and {shown}"
            + (
                "; name the branches, such as --actions discrete:3,2"
                if given is None
                else f"; got branches {', '.join(map(str, wanted))}"
            )
        )
    return wanted


def _observations(network: NetworkFile, given: Sequence[Shape] | None) -> tuple[Shape, ...]:
    """Returns the observations in Unity's order: the given ones if they fit, else the file's inputs."""
    own = [name for name in network.inputs if name == VECTORS or VISUAL.fullmatch(name)]
    if not own:
        raise PolicyError(f"{network.path} has no observations: it has no input {VECTORS} or visual_observation_0")
    shapes = {name: _pixels(network, name) for name in own}
    images = [(c, h, w) for name, (h, w, c) in shapes.items() if name != VECTORS]
    size = prod(shapes[VECTORS]) if VECTORS in shapes else 0
    if given is None:
        return tuple((size,) if name == VECTORS else (shapes[name][2], *shapes[name][:2]) for name in own)
    flat = sum(shape[0] for shape in given if len(shape) == 1)
    if flat != size or [tuple(shape) for shape in given if len(shape) != 1] != images:
        sees = ([f"{size} numbers"] if size else []) + ["x".join(map(str, shape)) for shape in images]
        got = ", ".join("x".join(map(str, shape)) for shape in given)
        raise PolicyError(f"{network.path} sees {' and '.join(sees)}; the observations {got} do not add up to that")
    return tuple(tuple(shape) for shape in given)


def _observation_inputs(graph: Graph, policy: BarracudaPolicy, own_names: bool) -> dict[str, str]:
    """Declares the observations and returns the ONNX tensor of each input of the file."""
    own = [name for name in policy.network.inputs if name == VECTORS or VISUAL.fullmatch(name)]
    called = own if own_names else [f"obs_{i}" for i in range(len(policy.obs))]
    names = [graph.input(name, (BATCH, *shape)) for name, shape in zip(called, policy.obs, strict=True)]
    vectors = [name for name, shape in zip(names, policy.obs, strict=True) if len(shape) == 1]
    images = [name for name, shape in zip(names, policy.obs, strict=True) if len(shape) == 3]
    inputs = {name: images.pop(0) for name in policy.network.inputs if VISUAL.fullmatch(name)}
    if vectors:
        inputs[VECTORS] = vectors[0] if len(vectors) == 1 else graph.add("Concat", *vectors, axis=1)
    return inputs


def _usable_mask(graph: Graph, branches: Sequence[int], mask: str) -> str:
    """Writes the mask; a branch in which nothing is allowed gets every choice, since the file would divide by zero."""
    parts = list[str]()
    at = 0
    one = graph.constant("mask.one", 1.0)
    for size in branches:
        part = graph.add("Slice", mask, axes=[1], starts=[at], ends=[at + size])
        none = graph.add("Sub", one, graph.add("ReduceMax", part, axes=[1], keepdims=1))
        parts.append(graph.add("Add", part, none))
        at += size
    return parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)


def _logits(graph: Graph, values: str, branches: Sequence[int]) -> list[str]:
    values = graph.add("Clip", values, min=FORBIDDEN, max=-FORBIDDEN)
    ends = np.cumsum(branches).tolist()
    return [
        graph.add("Slice", values, axes=[1], starts=[end - size], ends=[end])
        for size, end in zip(branches, ends, strict=True)
    ]


def _memory_inputs(graph: Graph, policy: BarracudaPolicy) -> dict[str, str]:
    """Declares Unity's one memory (N, 1, L), and returns the part of it that each of the file's inputs gets."""
    network = policy.network
    size = policy.memory_size
    inputs = {}
    if LENGTH in network.inputs:
        inputs[LENGTH] = graph.constant("sequence_length.one", np.ones((1, 1), np.float32))
    if not size:
        return inputs
    rows = graph.add(
        "Reshape", graph.input(MEMORY_IN, (BATCH, 1, size)), graph.constant("memory.rows", np.array([-1, size]))
    )
    at = 0
    for memory in network.memories:
        inputs[memory.entry] = graph.add("Slice", rows, axes=[1], starts=[at], ends=[at + memory.size])
        at += memory.size
    return inputs if network.memories else inputs | {MEMORY_IN: rows}


def _nothing(graph: Graph, policy: BarracudaPolicy, obs: str) -> str:
    seen = prod(policy.obs[0])
    size = prod(_pixels(policy.network, EPSILON))
    rows = graph.add("Reshape", obs, graph.constant("epsilon.rows", np.array([-1, seen])))
    return graph.add("MatMul", rows, graph.constant("epsilon.nothing", np.zeros((seen, size), np.float32)))


def _memory_output(graph: Graph, policy: BarracudaPolicy, writer: Writer) -> None:
    exits = [writer.operand(memory.exit) for memory in policy.network.memories] or [writer.operand(MEMORY_OUT)]
    rows = exits[0] if len(exits) == 1 else graph.add("Concat", *exits, axis=1)
    shape = graph.constant("memory.shape", np.array([-1, 1, policy.memory_size]))
    graph.add("Reshape", rows, shape, output=MEMORY_OUT)
    graph.output(MEMORY_OUT, (BATCH, 1, policy.memory_size))
