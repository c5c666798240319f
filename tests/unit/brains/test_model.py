import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import palaestra
from palaestra.core.errors import PolicyError, RunError

MODELS = Path(__file__).parents[2] / "golden" / "data" / "onnx"
HYBRID = MODELS / "runs" / "TTrain_ppo_hybrid.onnx"  # observations 28 and 6, continuous 2, one branch of 3
RECURRENT = MODELS / "unity_examples" / "Hallway.onnx"


@pytest.fixture(scope="module")
def policy():
    return palaestra.load_policy(HYBRID, seed=0)


def seen(rows=None):
    lead = () if rows is None else (rows,)
    return [np.zeros((*lead, 28)), np.zeros((*lead, 6))]


def changed(tmp_path, change):
    """A copy of the hybrid model after `change`."""
    model = onnx.load(str(HYBRID))
    change(model.graph)
    path = tmp_path / "changed.onnx"
    onnx.save(model, str(path))
    return path


def test_playing_imports_neither_torch_nor_warp():
    code = (
        "import sys, numpy as np, palaestra\nassert not {'torch', 'warp', 'onnxruntime'} & "
        f"set(sys.modules)\npalaestra.load_policy({str(HYBRID)!r}).act([np.zeros((2, 28)), np.zeros((2, 6))], "
        "deterministic=True)\nassert 'onnxruntime' in sys.modules\nprint(sorted({'torch', 'warp', 'onnx', "
        "'gymnasium', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_observations_come_by_their_numbers_whatever_their_order_in_the_file(tmp_path, policy):
    def turn(graph):
        inputs = list(graph.input)[::-1]
        del graph.input[:]
        graph.input.extend(inputs)

    turned = palaestra.load_policy(changed(tmp_path, turn), seed=0)
    assert turned.obs_shapes == policy.obs_shapes == ((28,), (6,))
    obs = [np.linspace(-1, 1, 28), np.linspace(0, 1, 6)]
    continuous = [each.act(obs, deterministic=True).continuous for each in (turned, policy)]
    np.testing.assert_allclose(*continuous)


@pytest.mark.parametrize("path", [HYBRID, RECURRENT])
def test_no_agents_get_no_actions(path):
    policy = palaestra.load_policy(path)
    action = policy.act([np.zeros((0, *shape)) for shape in policy.obs_shapes])
    assert action.discrete.shape == (0, 1)
    assert action.discrete.dtype == np.int64


def test_without_a_seed_two_policies_differ():
    first = palaestra.load_policy(HYBRID)
    second = palaestra.load_policy(HYBRID)
    assert not np.array_equal(first.act(seen(8)).continuous, second.act(seen(8)).continuous)


def test_choices_come_as_often_as_their_log_probabilities_say():
    policy = palaestra.load_policy(MODELS / "unity_examples" / "Sorter.onnx", seed=1)
    rows = 4_000
    action = policy.act([np.ones((rows, *shape)) for shape in policy.obs_shapes])
    on_record = np.exp([-2.5679, -0.10065, -3.9604, -0.40362])  # all of the first branch, and the second's first
    np.testing.assert_allclose(np.bincount(action.discrete[:, 0], minlength=3) / rows, on_record[:3], atol=0.025)
    np.testing.assert_allclose((action.discrete[:, 1] == 0).mean(), on_record[3], atol=0.025)


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (np.zeros((2, 28)), r"sees 2 observations .* got 1"),
        ([np.zeros((2, 27)), np.zeros((2, 6))], r"'obs_0' has shape \(2, 27\); expected \(28,\) or \(n, 28\)"),
        ([np.zeros((2, 28)), np.zeros((3, 6))], r"'obs_1' has shape \(3, 6\); expected \(2, 6\)"),
        ([np.full((2, 28), np.nan), np.zeros((2, 6))], r"'obs_0' holds nan at \[0, 0\]; expected finite"),
        ([np.zeros((2, 28)), [["far"] * 6] * 2], "'obs_1' is no array of numbers"),
        (3.0, "sees 2 observations"),
    ],
)
def test_observations_that_do_not_fit_are_named(policy, obs, message):
    with pytest.raises(PolicyError, match=message):
        policy.act(obs)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((2, 4)), r"mask has shape \(2, 4\); expected \(2, 3\)"),
        ([[1, 1, 1], [0, 0, 0]], "forbids every choice of branch 0 for agent 1"),
    ],
)
def test_masks_that_do_not_fit_are_named(policy, mask, message):
    with pytest.raises(PolicyError, match=message):
        policy.act(seen(2), mask)


def test_a_mask_or_memory_that_the_policy_has_no_use_for_is_an_error(policy):
    continuous = palaestra.load_policy(MODELS / "unity_examples" / "3DBallHard.onnx")
    with pytest.raises(PolicyError, match="no discrete actions"):
        continuous.act(np.zeros((1, 45)), np.ones((1, 2)))
    with pytest.raises(PolicyError, match=r"no memory; got one of shape \(2, 12\)"):
        policy.act(seen(2), memory=np.zeros((2, 12)))


def test_memory_of_another_size_is_an_error():
    with pytest.raises(PolicyError, match=r"memory has shape \(1, 64\); expected \(1, 128\)"):
        palaestra.load_policy(RECURRENT).act([np.zeros((1, 105)), np.zeros((1, 3))], memory=np.zeros((1, 64)))


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path):
    with pytest.raises(PolicyError, match=r"gone\.onnx does not exist"):
        palaestra.load_policy(tmp_path / "gone.onnx")
    with pytest.raises(RunError, match=r"is empty \(no run has begun\)"):
        palaestra.load_policy(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no model", HYBRID.read_bytes()[:5000]])
def test_a_file_that_is_not_onnx_is_refused(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(PolicyError, match=r"model\.onnx (is not an ONNX file|cannot be played)"):
        palaestra.load_policy(path)


def test_a_model_of_another_kind_is_refused(tmp_path):
    def rename(graph):
        graph.input[0].name = graph.node[0].input[0] = "pixels"

    def drop(graph):
        del graph.output[0]

    def free(graph):
        graph.input[0].type.tensor_type.shape.dim[1].dim_param = "some"

    with pytest.raises(PolicyError, match=r"has an input 'pixels'; expected obs_0.*model:FILE.onnx,NAMES.yaml"):
        palaestra.load_policy(changed(tmp_path, rename))
    with pytest.raises(PolicyError, match="no output 'version_number'"):
        palaestra.load_policy(changed(tmp_path, drop))
    with pytest.raises(PolicyError, match=r"'obs_0' has shape .* expected fixed sizes"):
        palaestra.load_policy(changed(tmp_path, free))


def test_an_input_without_a_shape_or_larger_than_memory_is_refused(tmp_path):
    def shapeless(graph):
        graph.input[0].type.tensor_type.ClearField("shape")

    def endless(graph):
        graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1 << 40

    with pytest.raises(PolicyError, match=r"'obs_0' has shape \[\]; expected fixed sizes"):
        palaestra.load_policy(changed(tmp_path, shapeless))
    with pytest.raises(PolicyError, match=r"is damaged: input 'obs_0' has shape .* at most 16,777,216 numbers"):
        palaestra.load_policy(changed(tmp_path, endless))


def with_constant(path, output, values):
    """The bytes of a model whose constant of this name has other values."""
    model = onnx.load(str(path))
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == output)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(values, np.float32), output))
    return model.SerializeToString()


@pytest.mark.parametrize(
    ("output", "values", "message"),
    [
        ("version_number", [np.nan], "output 'version_number' is .nan.; expected one number"),
        ("version_number", [3, 3], r"output 'version_number' is \[3.0, 3.0\]; expected one number"),
        ("memory_size", [np.inf], "output 'memory_size' is .inf.; expected one number"),
        ("memory_size", [-1], "memory_size is -1, and its input recurrent_in takes 128 numbers"),
        ("memory_size", [1e12], "and its input recurrent_in takes 128 numbers"),
        ("discrete_action_output_shape", [[np.nan]], "does not name the size of each branch"),
        ("discrete_action_output_shape", [[0]], "does not name the size of each branch"),
        ("discrete_action_output_shape", [[1e9]], "does not name the size of each branch"),
    ],
)
def test_a_model_with_impossible_constants_is_refused(tmp_path, output, values, message):
    path = tmp_path / "model.onnx"
    path.write_bytes(with_constant(RECURRENT, output, values))
    with pytest.raises(PolicyError, match=message):
        palaestra.load_policy(path)


def test_a_damaged_name_is_no_end_of_the_process(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    path.write_bytes(HYBRID.read_bytes().replace(b"obs_0", b"obs_\x80"))
    with pytest.raises(PolicyError, match=r"model\.onnx is damaged: names in it are no text"):
        palaestra.load_policy(path)
    assert not capsys.readouterr().out  # onnxruntime prints what it tries next


def test_numbers_that_are_no_log_probabilities_are_refused(tmp_path):
    model = onnx.load(str(MODELS / "unity_examples" / "Sorter.onnx"))
    last = next(node for node in model.graph.node if "discrete_actions" in node.output)
    last.output[list(last.output).index("discrete_actions")] = "logits"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([5.0], np.float32), "five"))
    model.graph.node.append(onnx.helper.make_node("Add", ["logits", "five"], ["discrete_actions"]))
    onnx.save(model, str(tmp_path / "model.onnx"))
    with pytest.raises(PolicyError, match="which of its 9 discrete outputs belong to which branch is unknown"):
        palaestra.load_policy(tmp_path / "model.onnx")


def test_a_model_of_an_unknown_version_is_refused(tmp_path):
    def renumber(graph):
        version = next(tensor for tensor in graph.initializer if tensor.name == "version_number.1")
        version.CopyFrom(onnx.helper.make_tensor("version_number.1", onnx.TensorProto.FLOAT, [1], [9.0]))

    with pytest.raises(PolicyError, match="format version 9; expected 2 or 3"):
        palaestra.load_policy(changed(tmp_path, renumber))
