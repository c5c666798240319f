"""How model files of older toolkits take observations of variable length.

Until 2023 ML-Agents exported them for an engine whose arrays have their channels last. The graph transposes such an input,
(N, entities, numbers), and reads the result's numbers in order as entities again. There that gives back the entities; in ONNX's own
order of the numbers it mixes them up, unless they are mixed up the other way round first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def turned_inputs(model: Path | str | bytes, shapes: Mapping[str, tuple[int, ...]]) -> frozenset[str]:
    """Returns the observations of variable length that a model's graph transposes and reads as entities again."""
    candidates = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    if not candidates:
        return frozenset()
    import onnx  # takes a sixth of a second, which other models need not wait for

    graph = (onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(str(model))).graph
    constants = {node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t) for node in graph.node if node.op_type == "Constant"}
    constants |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    turned = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Transpose" and _order(node) == [0, 2, 1]}
    found: set[str] = set()
    for node in graph.node:
        if node.op_type != "Reshape" or turned.get(node.input[0]) not in candidates or node.input[1] not in constants:
            continue
        name = turned[node.input[0]]
        if tuple(constants[node.input[1]].tolist()[1:]) == candidates[name]:
            found.add(name)
    return frozenset(found)


def turn(rows: np.ndarray) -> np.ndarray:
    """Returns entities (N, entities, numbers) mixed up so that such a graph reads them as they were."""
    return np.ascontiguousarray(rows.reshape(len(rows), rows.shape[2], rows.shape[1]).transpose(0, 2, 1))


def _order(node: Any) -> list[int]:
    return next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), [])
