"""Models of older toolkits, whose graphs transpose the entities that they see."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import palaestra
from palaestra.brains.observations import turn, turned_inputs

SORTER = Path(__file__).parents[2] / "golden" / "data" / "onnx" / "unity_examples" / "Sorter.onnx"
SEEN = {"obs_0": (4, 3), "vector_observation": (2,)}


def graph(*, perm: tuple[int, ...] = (0, 2, 1), shape: tuple[int, ...] = (-1, 4, 3)) -> bytes:
    """A model that transposes obs_0, and reshapes the result."""
    nodes = [
        helper.make_node("Transpose", ["obs_0"], ["turned"], perm=perm),
        helper.make_node("Reshape", ["turned", "shape"], ["rows"]),
    ]
    inputs = [helper.make_tensor_value_info("obs_0", TensorProto.FLOAT, ["batch", 4, 3])]
    outputs = [helper.make_tensor_value_info("rows", TensorProto.FLOAT, None)]
    constant = helper.make_tensor("shape", TensorProto.INT64, [len(shape)], shape)
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, [constant])).SerializeToString()


def test_a_graph_that_transposes_entities_and_reads_them_as_entities_is_told():
    assert turned_inputs(graph(), SEEN) == {"obs_0"}
    assert turned_inputs(graph(perm=(0, 1, 2)), SEEN) == frozenset()
    assert turned_inputs(graph(shape=(-1, 3, 4)), SEEN) == frozenset()  # an ordinary transposition
    assert turned_inputs(b"", {"obs_0": (4,)}) == frozenset()  # without entities the file is not even read


def test_turned_entities_are_read_as_they_were():
    rows = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    read = turn(rows).transpose(0, 2, 1).reshape(-1, 4, 3)  # what the graph above does
    assert np.array_equal(read, rows)


def test_sorters_model_does_not_mind_the_order_of_its_tiles():
    policy = palaestra.load_policy(SORTER)
    assert turned_inputs(onnx.load(str(SORTER)).SerializeToString(), {"obs_0": (20, 23)}) == {"obs_0"}
    rng = np.random.default_rng(0)
    tiles = np.zeros((200, 20, 23), np.float32)
    tiles[:, :5] = rng.random((200, 5, 23))
    vector = rng.random((200, 18), np.float32)
    one, two = (policy.act([vector, seen], deterministic=True).discrete for seen in (tiles, tiles[:, ::-1]))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("yaw", "tile", "branch", "choice"), [(90, 90, 0, 1), (180, 180, 0, 1), (180, 270, 1, 1), (180, 90, 1, 2)]
)
def test_sorters_model_goes_to_the_tile(yaw: int, tile: int, branch: int, choice: int):
    """Ahead if the tile lies ahead, to the right or left if it lies there; seen from the middle, angles clockwise from
    the north.
    """
    policy = palaestra.load_policy(SORTER)
    seen = np.zeros((20, 23))
    vector = np.zeros(18)
    way = np.radians(yaw)
    at = np.radians(tile)
    vector[6] = 1
    vector[10:] = [0, 0, np.sin(way), np.cos(way)] * 2
    seen[0, 7] = 1
    seen[0, 20:22] = [1.025 * np.sin(at), 1.025 * np.cos(at)]
    assert policy.act([vector, seen], deterministic=True).discrete[branch] == choice
