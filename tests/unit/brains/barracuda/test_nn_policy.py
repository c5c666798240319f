from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from nn_files import (
    ACTIVATION,
    ADD,
    CONCAT,
    CONV,
    DIV,
    LOG,
    MAX_POOL,
    MUL,
    RANDOM,
    RELU,
    SIGMOID,
    SLICE,
    SOFTMAX,
    SUM,
    SWISH,
    TANH,
    NNWriter,
    small_policy,
)

import palaestra
from palaestra.brains.barracuda.nn_evaluation import evaluate
from palaestra.brains.barracuda.nn_policy import policy_graph, read_policy
from palaestra.core.errors import PolicyError

RNG = np.random.default_rng(1)


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) * 0.3


def drive(writer: NNWriter, path: Path) -> palaestra.Policy:
    return palaestra.load_policy(writer.write(path / "a.nn"), seed=0)


def visual() -> NNWriter:
    """Returns a policy over an image of 9 x 7 pixels and three numbers, with convolutions, a pool and a fused
    activation.
    """
    writer = NNWriter({"vector_observation": (-1, 1, 1, 3), "visual_observation_0": (-1, 9, 7, 2)})
    writer.constants(action_output_shape=2)
    conv = {"kernel": weights(3, 3, 2, 4), "bias": weights(4)}
    writer.layer("conv", CONV, ["visual_observation_0"], conv, activation=RELU, pads=(-1,), strides=(2, 1))
    writer.layer("pool", MAX_POOL, ["conv"], strides=(1, 2), pool=(2, 3))
    more = {"kernel2": weights(2, 3, 4, 5), "bias2": weights(5)}
    writer.layer("conv2", CONV, ["pool"], more, pads=(1, 0, 0, 1), strides=(1, 1))
    writer.layer("swish", ACTIVATION, ["conv2"], activation=SWISH)
    flat = 4 * 2 * 5
    writer.dense("dense", "swish", weights(flat, 4), activation=SIGMOID)
    writer.layer("all", CONCAT, ["dense", "vector_observation"])
    writer.dense("action", "all", weights(7, 2), activation=TANH)
    return writer


def test_images_and_vectors_give_the_same_in_onnx_as_layer_by_layer(tmp_path: Path):
    writer = visual()
    policy = drive(writer, tmp_path)
    assert policy.obs_shapes == ((3,), (2, 9, 7))
    vector = RNG.normal(size=(5, 3)).astype("f")
    image = RNG.random((5, 2, 9, 7)).astype("f")
    feeds = {"vector_observation": vector.reshape(5, 1, 1, 3), "visual_observation_0": image.transpose(0, 2, 3, 1)}
    expected = evaluate(read_policy(tmp_path / "a.nn").network, feeds)["action"].reshape(5, 2)
    np.testing.assert_allclose(policy.act([vector, image], deterministic=True).continuous, expected, atol=1e-6)


def test_one_dense_layer_is_worked_out_by_hand(tmp_path: Path):
    assert drive(small_policy(), tmp_path).act(np.array([3.0, 4.0])).continuous == pytest.approx([11.0])


def test_playing_needs_neither_torch_nor_warp(tmp_path: Path):
    path = small_policy().write(tmp_path / "a.nn")
    code = (
        f"import sys, palaestra; palaestra.load_policy({str(path)!r}).act([[3.0, 4.0]]); print({{'torch', 'warp'}} "
        "& set(sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "set()"
    )


def noisy() -> NNWriter:
    writer = NNWriter({"vector_observation": (-1, 1, 1, 2)})
    writer.constants()
    writer.dense("mean", "vector_observation", np.array([[1.0], [1.0]]))
    writer.layer("noise", RANDOM, ["mean"])
    writer.layer("action", ADD, ["mean", "noise"])
    return writer


def test_noise_is_drawn_but_not_for_deterministic_actions(tmp_path: Path):
    policy = drive(noisy(), tmp_path)
    obs = np.ones((2000, 2))
    assert policy.act(obs, deterministic=True).continuous == pytest.approx(2.0)
    drawn = policy.act(obs).continuous
    assert abs(drawn.mean() - 2) < 0.1
    assert abs(drawn.std() - 1) < 0.1


def test_an_input_epsilon_is_normal_noise(tmp_path: Path):
    writer = NNWriter({"vector_observation": (-1, 1, 1, 2), "epsilon": (-1, 1, 1, 1)})
    writer.constants()
    writer.dense("mean", "vector_observation", np.array([[1.0], [1.0]]))
    writer.layer("action", ADD, ["mean", "epsilon"])
    policy = drive(writer, tmp_path)
    assert policy.act(np.ones((3, 2)), deterministic=True).continuous == pytest.approx(2.0)
    assert abs(policy.act(np.ones((2000, 2))).continuous.std() - 1) < 0.1


def branching() -> NNWriter:
    """Returns a policy with branches of 2 and 3 choices whose logits are its observation, masked as ML-Agents did."""
    writer = NNWriter({"vector_observation": (-1, 1, 1, 5), "action_masks": (-1, 1, 1, 5)})
    writer.constants(is_continuous_control=0, action_output_shape=5)
    for i, (start, end) in enumerate(((0, 2), (2, 5))):
        bounds = {"pads": (0, 0, 0, start), "strides": (1, 1, 1, 1)}
        writer.layer(f"logits{i}", SLICE, ["vector_observation"], pool=(0, 0, 0, 0 if end == 5 else end), **bounds)
        writer.layer(f"mask{i}", SLICE, ["action_masks"], pool=(0, 0, 0, end), **bounds)
        writer.layer(f"softmax{i}", ACTIVATION, [f"logits{i}"], activation=SOFTMAX)
        writer.layer(f"masked{i}", MUL, [f"softmax{i}", f"mask{i}"])
        writer.layer(f"sum{i}", SUM, [f"masked{i}"])
        writer.layer(f"share{i}", DIV, [f"masked{i}", f"sum{i}"])
        writer.layer(f"log{i}", ACTIVATION, [f"share{i}"], activation=LOG)
    writer.layer("action", CONCAT, ["log0", "log1"])
    return writer


def test_branches_are_found_in_the_slices_of_the_mask(tmp_path: Path):
    policy = drive(branching(), tmp_path)
    assert policy.branches == (2, 3)
    assert policy.act(np.array([0.0, 1.0, 5.0, 2.0, 3.0]), deterministic=True).discrete.tolist() == [1, 0]


def test_forbidden_choices_are_never_taken(tmp_path: Path):
    policy = drive(branching(), tmp_path)
    obs = np.tile([0.0, 9.0, 9.0, 0.0, 0.0], (300, 1))
    mask = np.tile([1, 0, 0, 1, 1], (300, 1))
    drawn = policy.act(obs, mask).discrete
    assert set(drawn[:, 0]) == {0}
    assert set(drawn[:, 1]) == {1, 2}


def test_a_recurrent_policy_hands_its_memory_on(tmp_path: Path):
    writer = NNWriter(
        {"vector_observation": (-1, 1, 1, 2), "recurrent_in": (-1, 1, 1, 2), "sequence_length": (-1, 1, 1, 1)}
    )
    writer.constants(memory_size=2)
    writer.layer("recurrent_out", ADD, ["recurrent_in", "vector_observation"])
    writer.dense("action", "recurrent_out", np.array([[1.0], [0.0]]))
    policy = drive(writer, tmp_path)
    first = policy.act(np.array([[1.0, 2.0]]))
    second = policy.act(np.array([[1.0, 2.0]]), memory=first.memory)
    assert first.continuous == pytest.approx(1.0)
    assert second.continuous == pytest.approx(2.0)
    assert second.memory.tolist() == [[2.0, 4.0]]


def test_memories_of_the_format_itself_become_one(tmp_path: Path):
    writer = NNWriter(
        {"vector_observation": (-1, 1, 1, 1)}, memories=[((1, 1, 1, 1), "h", "new_h"), ((1, 1, 1, 1), "c", "new_c")]
    )
    writer.constants(memory_size=2)
    writer.layer("new_h", ADD, ["h", "vector_observation"])
    writer.layer("new_c", ADD, ["c", "h"])
    writer.dense("action", "new_c", np.array([[1.0]]))
    policy = drive(writer, tmp_path)
    assert policy.memory_size == 2
    assert policy.act(np.array([[3.0]]), memory=np.array([[1.0, 2.0]])).memory.tolist() == [[4.0, 3.0]]


def test_vectors_are_joined_in_the_order_of_the_sensors(tmp_path: Path):
    path = branching().write(tmp_path / "a.nn")
    graph = policy_graph(read_policy(path, [(2,), (3,)]))
    assert {name: shape[1:] for name, shape in graph.inputs.items()} == {
        "obs_0": (2,),
        "obs_1": (3,),
        "action_masks": (5,),
    }


def test_vectors_that_are_given_one_by_one_are_joined(tmp_path: Path):
    policy = drive(branching(), tmp_path)
    seen = np.arange(15.0).reshape(3, 5)
    joined = policy.act(seen, deterministic=True)
    apart = policy.act([seen[:, :2], seen[:, 2:]], deterministic=True)
    np.testing.assert_array_equal(apart.discrete, joined.discrete)
    np.testing.assert_array_equal(
        policy.act([seen[0, :2], seen[0, 2:]], deterministic=True).discrete, joined.discrete[0]
    )
    with pytest.raises(PolicyError, match="got 2"):
        policy.act([seen[:, :2], seen[:2, 2:]])


@pytest.mark.parametrize(
    ("writer", "message"),
    [
        (NNWriter({"vector_observation": (-1, 1, 1, 2)}), "no agent's policy: it has no tensor 'action'"),
        (NNWriter({"prev_action": (-1, 1, 1, 2)}), "input 'prev_action', which cannot be given"),
    ],
)
def test_what_is_no_policy_is_refused(tmp_path: Path, writer: NNWriter, message: str):
    writer.constants()
    if "prev_action" in writer.inputs:
        writer.dense("action", "prev_action", np.ones((2, 1)))
    with pytest.raises(PolicyError, match=message):
        read_policy(writer.write(tmp_path / "a.nn"))


@pytest.mark.parametrize(
    ("kind", "rest", "message"),
    [
        (207, {}, r"a kind that cannot be read: SpaceToDepth \(207\)"),
        (9999, {}, "a kind that cannot be read: number 9999"),
        (ACTIVATION, {"activation": 77}, "activation number 77"),
        (SUM, {"axis": 1}, "along axis 1"),
        (SLICE, {"pool": (0, 0, 0, 2), "strides": (1, 1, 1, 2)}, "steps"),
        (MAX_POOL, {"pool": (1, 1), "strides": (1, 0), "pads": (-1,)}, r"strides \[1, 0\]; expected at least 1"),
        (
            MAX_POOL,
            {"pool": (1, 1), "strides": (1, 1), "pads": (1000, 0, 0, 0)},
            r"padding .* larger than its window of 1 x 1",
        ),
    ],
)
def test_layers_that_cannot_be_read_are_named(tmp_path: Path, kind: int, rest: dict, message: str):
    writer = NNWriter({"vector_observation": (-1, 1, 1, 2)})
    writer.constants()
    writer.layer("odd", kind, ["vector_observation"], **rest)
    writer.dense("action", "odd", np.ones((2, 1)))
    with pytest.raises(PolicyError, match=message):
        read_policy(writer.write(tmp_path / "a.nn"))


def test_branches_of_a_policy_without_choices_are_refused(tmp_path: Path):
    writer = NNWriter({"vector_observation": (-1, 1, 1, 2)})
    writer.constants()
    writer.dense("action", "vector_observation", np.ones((2, 1)))
    with pytest.raises(PolicyError, match=r"has 1 continuous actions and no choices; got branches 3, 2"):
        read_policy(writer.write(tmp_path / "a.nn"), branches=(3, 2))


def test_a_layer_that_does_not_fit_its_input_is_named(tmp_path: Path):
    writer = NNWriter({"vector_observation": (-1, 1, 1, 2)})
    writer.constants()
    writer.dense("action", "vector_observation", np.ones((3, 1)))
    with pytest.raises(PolicyError, match=r"layer 'action' does not fit its inputs of shape \[1, 1, 1, 2\]"):
        read_policy(writer.write(tmp_path / "a.nn"))
