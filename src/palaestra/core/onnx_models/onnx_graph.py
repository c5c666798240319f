"""An ONNX graph under construction. Only `model` needs the onnx package, which is slow to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.errors import ExportError
from palaestra.core.files import write_whole

if TYPE_CHECKING:
    import onnx
    from torch import Tensor

OPSET, IR = 9, 4
"""Newest versions that all of Unity's importers read; ML-Agents writes the same."""
BATCH = "batch"

Shape = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One operator. An empty name stands for an input or output that is left out."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass
class Graph:
    """Nodes in the order they run, the constants they read, inputs and outputs. Tensors are known by name."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, Shape] = field(default_factory=dict)
    outputs: dict[str, tuple[Shape, type]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    def input(self, name: str, shape: Shape) -> str:
        """Declares a float32 tensor that the caller passes in."""
        self.inputs[name] = shape
        return name

    def output(self, name: str, shape: Shape, dtype: type = np.float32) -> None:
        """Declares that the tensor of this name is a result."""
        self.outputs[name] = (shape, dtype)

    def constant(self, name: str, value: Tensor | np.ndarray | float) -> str:
        """Adds weights or numbers to the file. Raises ExportError for NaN and infinity."""
        array = np.asarray(value) if isinstance(value, np.ndarray | float | int) else value.detach().cpu().numpy()
        array = np.ascontiguousarray(array, np.float32) if array.dtype.kind == "f" else array.astype(np.int64)
        if not np.isfinite(array).all():
            raise ExportError(
                f"weights '{name}' hold {array[~np.isfinite(array)][0]}: training has diverged; use an older checkpoint"
            )
        self.constants[name] = array.reshape(np.shape(value))
        return name

    def add(self, op: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Appends an operator and returns the name of its result: `output`, or a new one."""
        output = output or f"{op}_{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (output,), attributes))
        return output

    def model(self) -> onnx.ModelProto:
        """Returns the message that an .onnx file holds."""
        from onnx import helper, numpy_helper

        def info(name: str, shape: Shape, dtype: type) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

        graph = helper.make_graph(
            [helper.make_node(node.op, node.inputs, node.outputs, **node.attributes) for node in self.nodes],
            name="policy",
            inputs=[info(name, shape, np.float32) for name, shape in self.inputs.items()],
            outputs=[info(name, shape, dtype) for name, (shape, dtype) in self.outputs.items()],
            initializer=[numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="palaestra"
        )
        helper.set_model_props(model, self.metadata)
        return model

    def write(self, path: Path) -> None:
        """Writes the model to `path` atomically. Raises ExportError."""
        content = self.model().SerializeToString()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        except OSError as error:
            raise ExportError(f"{path} cannot be written: {error.strerror or error}") from error
