"""Users' own modules as ONNX operators: through torch's exporter, then merged into the graph under their name."""

from __future__ import annotations

import copy
import inspect
import io
import re
import warnings
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from palaestra.core.errors import ExportError, exception_summary
from palaestra.core.onnx_models.onnx_graph import BATCH, OPSET, Graph, Node
from palaestra.models.custom import OwnModule

if TYPE_CHECKING:
    import onnx

# fmt: off
OPERATORS = frozenset({
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Cast",
    "Ceil", "Clip", "Concat", "Constant", "ConstantOfShape", "Conv", "ConvTranspose", "Cos", "Cosh", "DepthToSpace",
    "Div", "Elu", "Equal", "Exp", "Expand", "Flatten", "Floor", "Gather", "Gemm", "GlobalAveragePool", "GlobalMaxPool",
    "Greater", "Identity", "InstanceNormalization", "LSTM", "LeakyRelu", "Less", "Log", "LogSoftmax", "MatMul", "Max",
    "MaxPool", "Mean", "Min", "Mul", "Neg", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow", "Reciprocal", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape", "Selu", "Shape", "Sigmoid", "Sin", "Sinh",
    "Slice", "Softmax", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tan", "Tanh", "Tile", "TopK",
    "Transpose", "Unsqueeze", "Where",
})
# fmt: on
"""Operators of opset 9 that Barracuda 3, Sentis 2 and ML-Agents' own files have, without the random ones."""

NO_CHANCE = "nothing random: actions are drawn after it"
INSTEAD = {
    "Erf": "nn.SiLU, or nn.GELU(approximate='tanh')",
    "adaptive_avg_pool2d": "nn.AvgPool2d with a kernel, or the mean over height and width",
    "einsum": "torch.matmul",
    "scaled_dot_product_attention": "torch.matmul and softmax",
    "If": "arithmetic or torch.where in place of a branch",
    "Loop": "a loop over a fixed number in place of one over a tensor",
    "RandomNormal": NO_CHANCE,
    "RandomNormalLike": NO_CHANCE,
    "RandomUniform": NO_CHANCE,
    "RandomUniformLike": NO_CHANCE,
    "ScatterND": "torch.cat or torch.where in place of assigning to parts of a tensor",
    "ScatterElements": "torch.where in place of scatter",
    "Upsample": "nn.ConvTranspose2d",
}
ELSE = "convolutions, linear layers, pools, activations and arithmetic"

CHECK_ROWS, TOLERANCE = (1, 2, 16), 1e-4


def own_module(graph: Graph, own: OwnModule, name: str, x: str) -> str:
    """Writes a user's module, x (N, *shape) to (N, hidden). Raises ExportError if torch cannot export it or Unity
    cannot read it."""
    traced = _traced(own)
    for node in traced.node:
        if node.op_type not in OPERATORS or node.domain:
            raise ExportError(_refusal(own, node.op_type, _place(own, node.name)))
    return _merge(graph, traced, name, x)


def check_exportable(network: nn.Module) -> None:
    """Exports each kind of user's module on trial, and compares the result; takes about a second for each. Raises
    ExportError."""
    tried = set()
    for own in network.modules():
        if isinstance(own, OwnModule) and (own.title, own.shape) not in tried:
            tried.add((own.title, own.shape))
            _compare(own)


@torch.no_grad()
def _compare(own: OwnModule) -> None:
    import onnxruntime

    graph = Graph()
    graph.add("Identity", own_module(graph, own, "own", graph.input("x", (BATCH, *own.shape))), output="y")
    graph.output("y", (BATCH, own.hidden))
    module = copy.deepcopy(own).cpu()
    rng = torch.Generator().manual_seed(0)
    try:
        session = onnxruntime.InferenceSession(graph.model().SerializeToString(), providers=["CPUExecutionProvider"])
        for rows in CHECK_ROWS:
            x = torch.rand((rows, *own.shape), generator=rng)
            answer = torch.from_numpy(np.asarray(session.run(["y"], {"x": x.numpy()})[0]))
            _agree(own, rows, module(x), answer)
    except ExportError:
        raise
    except Exception as error:  # onnxruntime has errors of its own, which share no base
        raise ExportError(
            f"{own.title} was written as ONNX, and onnxruntime cannot run it: {_first_line(error)}"
        ) from error


def _agree(own: OwnModule, rows: int, expected: Tensor, answer: Tensor) -> None:
    same = answer.shape == expected.shape
    gap = (answer - expected).abs().max().item() if same else float("inf")
    if not gap <= TOLERANCE:
        what = (
            f"differs by {gap:.2g}"
            if same
            else f"has the shape {tuple(answer.shape)} instead of {tuple(expected.shape)}"
        )
        raise ExportError(
            f"{own.title}: the ONNX file's output for {rows} rows {what}; forward must do the same whatever the number "
            "of rows and the values in them: no Python branches on tensors, no randomness, no numbers kept from an "
            "earlier call"
        )


def _traced(own: OwnModule) -> onnx.GraphProto:
    """Returns the graph from torch's exporter that traces: the newer exporter writes no opset as old as ours."""
    import onnx

    module = copy.deepcopy(own.module).cpu()
    file = cast(Any, io.BytesIO())
    options: dict[str, Any] = {
        "input_names": ["x"],
        "output_names": ["y"],
        "dynamic_axes": {"x": {0: BATCH}, "y": {0: BATCH}},
    }
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        options["dynamo"] = False
    # it prints the whole graph where it fails, and its own switch for that is without effect (torch 2.13)
    with warnings.catch_warnings(), patch.object(torch._C, "_jit_onnx_log", lambda *_: None, create=True):
        warnings.simplefilter("ignore")  # of its age, and of constants, which the comparison finds out
        try:
            torch.onnx.export(module, (torch.zeros(2, *own.shape),), file, opset_version=OPSET, **options)
        except Exception as error:  # torch's errors share no base either
            named = re.search(r"operator '?(?:aten::)?(\w+)", str(error))
            if named is None:
                raise ExportError(f"{own.title} cannot be written as ONNX: {_first_line(error)}") from error
            raise ExportError(_refusal(own, named[1], type(own.module).__name__)) from error
    return onnx.load_from_string(file.getvalue()).graph


def _merge(graph: Graph, traced: onnx.GraphProto, name: str, x: str) -> str:
    from onnx import helper, numpy_helper

    def ours(tensor: str) -> str:
        return x if tensor == "x" else f"{name}.{tensor}" if tensor else ""

    for weights in traced.initializer:
        graph.constant(ours(weights.name), numpy_helper.to_array(weights))
    for node in traced.node:
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type == "Constant":
            value = numpy_helper.to_array(attributes["value"])  # an infinity here was meant, in weights it is not
            graph.constants[ours(node.output[0])] = value.astype(np.float32) if value.dtype == np.float64 else value
        else:
            graph.nodes.append(
                Node(node.op_type, tuple(map(ours, node.input)), tuple(map(ours, node.output)), attributes)
            )
    return ours("y")


def _refusal(own: OwnModule, operator: str, place: str) -> str:
    advice = INSTEAD.get(operator, ELSE)
    return f"{own.title}: {place} uses {operator}, which cannot be written for Unity (ONNX opset {OPSET}); use {advice}"


def _place(own: OwnModule, node: str) -> str:
    """Returns `Class.blocks.0` for a node named `/blocks/blocks.0/Operator`."""
    parts = node.split("/")[1:-1]
    inner = [part for part, below in zip(parts, [*parts, ""][1:], strict=True) if not below.startswith(f"{part}.")]
    return ".".join([type(own.module).__name__, *inner])


def _first_line(error: Exception) -> str:
    return next(iter(exception_summary(error).splitlines()), "")
