import numpy as np
import pytest
import torch

from palaestra import load_policy
from palaestra.core.errors import PolicyError, RunError
from palaestra.core.files import file_kind
from palaestra.core.onnx_models.onnx_graph import Graph
from palaestra.runtime.storage.origins import find_origin
from palaestra.runtime.storage.run_folder import RunFolder

GRAPH = b"\n\x1f\n\x12vector_observation\x12\x0bPlaceholder*\0" + b"\0" * 50


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("Ball.bytes", GRAPH, "a TensorFlow graph"),
        ("frozen_graph_def.pb", GRAPH, "a TensorFlow graph"),
        ("model-50000.cptk.index", b"\0\x1b", "a TensorFlow checkpoint"),
        ("Ball.sentis", b"\x18\0\0\0", "a model of Unity's Sentis"),
        ("Ball.asset", b"%YAML 1.1\n%TAG !u! tag:unity3d.com,2011:", "an asset of Unity"),
        ("Ball.onnx", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ("Ball.onnx", b"\n<!DOCTYPE html>\n<html>", "a page of HTML"),
        ("Ball.onnx", b"\x10\0\0\0\0\0\0\0\1\0\0\0", "a Barracuda model"),
        ("Ball.onnx", b"", "empty"),
        ("Ball.nn", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ("model.zip", b"PK\x03\x04" + b"\0" * 26 + b"data{}", "a model of Stable-Baselines3"),
    ],
)
def test_a_file_that_is_no_model_is_named_as_what_it_is(tmp_path, name, content, kind):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PolicyError, match=f"it is {kind}"):
        load_policy(tmp_path / name)


def test_a_checkpoint_of_torch_is_named(tmp_path):
    torch.save({"Policy": {}}, tmp_path / "checkpoint.pt")
    assert "a file of PyTorch; init_path starts from one of ML-Agents" in file_kind(tmp_path / "checkpoint.pt")


@pytest.mark.parametrize("name", ["model-50000.ckpt.index", "Ball/model-50000.cptk.index", "Ball/frozen_graph_def.pb"])
def test_a_run_of_tensorflow_is_named_wherever_a_run_is_expected(tmp_path, name):
    file = tmp_path / "old" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    with pytest.raises(RunError, match="a file of TensorFlow, as ML-Agents wrote before release 17"):
        find_origin("Ball", str(tmp_path / "old"), None)
    with pytest.raises(RunError, match="a file of TensorFlow"):
        RunFolder(tmp_path, "old").must_exist("resume")


def test_init_path_of_a_model_says_that_it_cannot_be_trained_on(tmp_path):
    (tmp_path / "Ball.onnx").write_bytes(b"\x08\x04")
    with pytest.raises(RunError, match="it is an ONNX model, which can be played but not trained on"):
        find_origin("Ball", str(tmp_path / "Ball.onnx"), None)


@pytest.mark.parametrize(("version", "release"), [(1, "a release of ML-Agents before 1.0"), (4, "a later release")])
def test_a_model_of_another_format_says_which_release_wrote_it(tmp_path, version, release):
    with pytest.raises(PolicyError, match=f"has format version {version}; expected 2 or 3. It is from {release}"):
        load_policy(model(tmp_path, version))


def test_a_model_whose_memory_size_no_node_computes_has_no_memory(tmp_path):
    policy = load_policy(model(tmp_path, 3))
    assert policy.act(np.ones((1, 2), np.float32)).continuous.tolist() == [[2.0, 2.0]]


def model(folder, version):
    """Writes a policy that doubles its observation, with an output `memory_size` that nothing computes."""
    graph = Graph()
    graph.input("obs_0", ("batch", 2))
    for name, value in (("version_number", version), ("continuous_action_output_shape", 2)):
        graph.add("Identity", graph.constant(f"{name}_value", np.array([value], np.float32)), output=name)
        graph.output(name, (1,))
    graph.add("Add", "obs_0", "obs_0", output="continuous_actions")
    graph.output("continuous_actions", ("batch", 2))
    graph.output("memory_size", (1,))
    path = folder / "Double.onnx"
    path.write_bytes(graph.model().SerializeToString())
    return path
