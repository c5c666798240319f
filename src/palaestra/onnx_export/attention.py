"""Attention over entities as ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from palaestra.core.onnx_models.onnx_graph import Graph
from palaestra.models.entity_attention import EMBEDDING, FORBIDDEN, HEADS, NOTHING, EntityAttention
from palaestra.onnx_export.layers import join, layer_norm, linear, swish

FLOAT = 1  # of ONNX's TensorProto.DataType
# of (N, most, heads, size): keys lie across
_ORDER = {"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}


def attention(
    graph: Graph, module: EntityAttention, name: str, encoding: str | None, entities: Sequence[tuple[str, int]]
) -> str:
    """Writes attention over entities and the other observations' encoding (N, itself), if any, to (N, 128)."""
    most = sum(count for _, count in entities)
    absent = join(graph, [_is_nothing(graph, f"{name}.{i}", kind) for i, (kind, _) in enumerate(entities)])
    embedded = layer_norm(graph, f"{name}.embedded", _embedded(graph, module, name, encoding, entities), axis=2)
    present = graph.add("Sub", graph.constant(f"{name}.one", 1.0), absent)  # (N, most)

    parts = zip(
        ("query", "key", "value"),
        module.queries_keys_values.weight.chunk(3),
        module.queries_keys_values.bias.chunk(3),
        strict=True,
    )
    query, key, value = (
        _heads(graph, _product(graph, (weight, bias), f"{name}.{part}", embedded), f"{name}.{part}", most, _ORDER[part])
        for part, weight, bias in parts
    )
    score = graph.add("Div", graph.add("MatMul", query, key), graph.constant(f"{name}.scale", math.sqrt(EMBEDDING)))
    kept = graph.add("Mul", score, graph.add("Unsqueeze", present, axes=[1, 2]))
    penalty = graph.add(
        "Mul", graph.add("Unsqueeze", absent, axes=[1, 2]), graph.constant(f"{name}.forbidden", FORBIDDEN)
    )
    weight = graph.add("Softmax", graph.add("Add", kept, penalty), axis=3)

    attended = graph.add("Transpose", graph.add("MatMul", weight, value), perm=[0, 2, 1, 3])
    flat = graph.add("Reshape", attended, graph.constant(f"{name}.flat", np.array([-1, most, EMBEDDING])))
    rows = layer_norm(
        graph,
        f"{name}.attended",
        graph.add("Add", _product(graph, (module.out.weight, module.out.bias), f"{name}.out", flat), embedded),
        axis=2,
    )
    total = graph.add(
        "ReduceSum", graph.add("Mul", rows, graph.add("Unsqueeze", present, axes=[2])), axes=[1], keepdims=0
    )
    count = graph.add("ReduceSum", present, axes=[1], keepdims=1)
    return graph.add("Div", total, graph.add("Add", count, graph.constant(f"{name}.least", 1e-7)))


def _embedded(
    graph: Graph, module: EntityAttention, name: str, encoding: str | None, entities: Sequence[tuple[str, int]]
) -> str:
    itself = ""
    if module.itself is not None:
        assert encoding is not None
        itself = swish(graph, linear(graph, module.itself, f"{name}.itself", encoding))
    parts = []
    for i, ((kind, _), layer) in enumerate(zip(entities, module.embeddings, strict=True)):
        assert isinstance(layer, nn.Linear)
        at = f"{name}.embedding_{i}"
        known = EMBEDDING if itself else 0
        weight = graph.constant(f"{at}.weight", layer.weight[:, known:].t())
        sums = graph.add("Add", graph.add("MatMul", kind, weight), graph.constant(f"{at}.bias", layer.bias))
        if itself:  # the part of the layer that reads it, once instead of for each entity
            about_itself = graph.add("MatMul", itself, graph.constant(f"{at}.itself", layer.weight[:, :known].t()))
            sums = graph.add("Add", sums, graph.add("Unsqueeze", about_itself, axes=[1]))
        parts.append(swish(graph, sums))
    return join(graph, parts)


def _is_nothing(graph: Graph, name: str, kind: str) -> str:
    """Writes (N, most): 1 for padding, else 0."""
    squares = graph.add("ReduceSum", graph.add("Mul", kind, kind), axes=[2], keepdims=0)
    return graph.add("Cast", graph.add("Less", squares, graph.constant(f"{name}.nothing", NOTHING)), to=FLOAT)


def _product(graph: Graph, layer: tuple[Tensor, Tensor], name: str, x: str) -> str:
    """Writes a linear layer, weight and bias, over each entity of x (N, most, 128)."""
    weight, bias = layer
    return graph.add(
        "Add",
        graph.add("MatMul", x, graph.constant(f"{name}.weight", weight.t())),
        graph.constant(f"{name}.bias", bias),
    )


def _heads(graph: Graph, x: str, name: str, most: int, order: list[int]) -> str:
    """Writes the split of (N, most, 128) into (N, most, heads, size of one), then its transpose."""
    shape = graph.constant(f"{name}.heads", np.array([-1, most, HEADS, EMBEDDING // HEADS]))
    return graph.add("Transpose", graph.add("Reshape", x, shape), perm=order)
