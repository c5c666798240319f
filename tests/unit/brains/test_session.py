"""Models of strangers, played by onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from palaestra.brains.session import LEAST_MEMORY, Session
from palaestra.core.errors import PolicyError
from palaestra.core.system_memory import free_memory


def test_a_small_model_does_not_take_the_memory():
    """Its graph of 200 bytes asks for half of what is free."""
    size = max(free_memory() // 2, 2 * LEAST_MEMORY) // 4
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [size])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["many"]),
        helper.make_node("ReduceSum", ["many"], ["sum"], keepdims=0),
    ]
    nodes.append(helper.make_node("Add", ["obs", "sum"], ["action"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("obs", "action")]
    graph = helper.make_graph(nodes, "bomb", ends[:1], ends[1:], initializer=[shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(PolicyError, match="smaller than requested"):
        Session(model.SerializeToString(), "bomb.onnx", 0).run(["action"], {"obs": np.zeros(1, np.float32)})
