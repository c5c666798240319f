"""Policies with memory as files: made as ML-Agents makes them, for Unity's older importer (Barracuda) warns of anything
else.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import palaestra
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.settings import MemorySettings, NetworkSettings
from palaestra.onnx_export.check import compare
from palaestra.onnx_export.onnx import export

THEIRS = Path(__file__).parents[2] / "golden" / "data" / "onnx"
SETTINGS = NetworkSettings(hidden_units=16, normalize=True, memory=MemorySettings(memory_size=8))
VECTOR = ObsSpec("vector", (4,))
IMAGE = ObsSpec("image", (3, 20, 24))


def written(path: Path, *obs: ObsSpec, action: ActionSpec = ActionSpec(2, (3, 2))):  # noqa: B008
    torch.manual_seed(0)
    spec = BehaviorSpec(obs, action)
    network = ActorCritic(spec, SETTINGS)
    export(network, spec, path)
    return network, spec


def around_the_memory(path: Path) -> list[tuple]:
    """Operators from `recurrent_in` and the LSTM's input to its last reader, with what each does along which axes, and
    what it reads.
    """
    nodes = list(onnx.load(str(path)).graph.node)
    made = {name: node for node in nodes for name in node.output}
    lstm = next(node for node in nodes if node.op_type == "LSTM")

    def form(node: onnx.NodeProto) -> tuple:
        kept = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name in ("perm", "axes")}
        return node.op_type, str(kept)

    def before(name: str) -> list[tuple]:
        node = made.get(name)
        return (
            []
            if node is None or node.op_type not in ("Transpose", "Reshape", "Slice")
            else [*before(node.input[0]), form(node)]
        )

    def after(name: str) -> list[tuple]:
        node = next(
            (n for n in nodes if name in n.input and n.op_type in ("Squeeze", "Transpose", "Reshape", "Concat")), None
        )
        return [] if node is None else [form(node), *after(node.output[0])]

    return [*(before(lstm.input[i]) for i in (0, 5, 6)), *(after(name) for name in lstm.output)]


@pytest.mark.parametrize("theirs", ["unity_examples/Hallway", "unity_package_tests_2.2.1/hybrid0vis8vec_2c_2_3d_v2_0"])
def test_memory_is_written_operator_by_operator_as_in_files_of_ml_agents(tmp_path: Path, theirs: str):
    written(tmp_path / "Any.onnx", VECTOR)
    assert around_the_memory(tmp_path / "Any.onnx") == around_the_memory(THEIRS / f"{theirs}.onnx")


def test_every_output_of_every_operator_has_a_name(tmp_path: Path):
    written(tmp_path / "Any.onnx", VECTOR, IMAGE)
    assert all(all(node.output) for node in onnx.load(str(tmp_path / "Any.onnx")).graph.node)


@pytest.mark.parametrize("obs", [(VECTOR,), (VECTOR, IMAGE)])
def test_file_and_network_remember_alike(tmp_path: Path, obs: tuple[ObsSpec, ...]):
    network, spec = written(tmp_path / "Any.onnx", *obs)
    assert compare(network, spec, tmp_path / "Any.onnx", rows=200) <= 1e-4
    onnx.checker.check_model(onnx.load(str(tmp_path / "Any.onnx")), full_check=True)


def test_a_file_of_an_older_version_which_leaves_the_outputs_out_plays_the_same(tmp_path: Path):
    written(tmp_path / "New.onnx", VECTOR)
    model = onnx.load(str(tmp_path / "New.onnx"))
    next(node for node in model.graph.node if node.op_type == "LSTM").output[0] = ""
    squeeze = next(node for node in model.graph.node if list(node.input) == ["memory.outputs"])
    squeeze.input[0] = "memory.expanded"
    at = list(model.graph.node).index(squeeze)
    model.graph.node.insert(at, onnx.helper.make_node("Unsqueeze", ["memory.hidden"], ["memory.expanded"], axes=[0]))
    onnx.save(model, str(tmp_path / "Old.onnx"))
    answers = []
    for name in ("New", "Old"):
        policy = palaestra.load_policy(tmp_path / f"{name}.onnx", seed=0)
        answers.append(
            policy.act([np.ones((5, 4), np.float32)], deterministic=True, memory=np.ones((5, 8), np.float32))
        )
    np.testing.assert_array_equal(answers[0].continuous, answers[1].continuous)
    np.testing.assert_array_equal(answers[0].memory, answers[1].memory)
