"""Policies of other libraries, against the actions that those libraries gave (see the README of `data/others`)."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import palaestra
from palaestra.brains.barracuda.nn_evaluation import evaluate
from palaestra.brains.barracuda.nn_policy import read_policy
from palaestra.convert import ConvertOptions, convert
from palaestra.core.errors import ExportError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.models.settings import MemorySettings, NetworkSettings
from palaestra.runtime.storage.original_weights import converted

OTHERS = Path(__file__).parent / "data" / "others"
NN = Path(__file__).parent / "data" / "nn" / "unity_examples"
ACTIVATIONS = {"norm_log": "relu"}


@pytest.mark.parametrize("name", sorted(path.stem for path in OTHERS.glob("sb3/*.zip")))
def test_a_model_of_stable_baselines3_acts_as_it_did_there(name: str, tmp_path: Path):
    source = OTHERS / "sb3" / f"{name}.zip"
    statistics = source.with_suffix(".pkl")
    options = ConvertOptions(normalizer=statistics if statistics.is_file() else None)
    done = convert(source, tmp_path / "a.onnx", options, check=source.with_suffix(".npz"))
    assert done.recorded is not None
    assert done.recorded[0] == 20
    onnx.checker.check_model(onnx.load(str(tmp_path / "a.onnx")))


def test_actions_of_another_model_are_not_taken_for_its_own(tmp_path: Path):
    with pytest.raises(ExportError, match="other choices than the source"):
        convert(
            OTHERS / "sb3" / "ppo_disc.zip",
            tmp_path / "a.onnx",
            check=_shuffled(OTHERS / "sb3" / "ppo_disc.npz", tmp_path),
        )
    assert not (tmp_path / "a.onnx").exists()


def _shuffled(samples: Path, place: Path) -> Path:
    arrays = dict(np.load(samples))
    np.savez(place / "other.npz", **{**arrays, "actions": (arrays["actions"] + 1) % 4})
    return place / "other.npz"


@pytest.mark.parametrize("name", ["plain", "norm_log", "v2", "v3"])
def test_a_checkpoint_of_rsl_rl_acts_as_it_did_there(name: str, tmp_path: Path):
    source = OTHERS / "rsl_rl" / f"{name}.pt"
    done = convert(
        source, tmp_path / "a.onnx", ConvertOptions(activation=ACTIVATIONS.get(name)), check=source.with_suffix(".npz")
    )
    assert done.recorded is not None
    assert done.recorded[1] < 1e-6


def test_a_box_action_comes_back_in_its_own_range_and_unity_gets_it_within_one(tmp_path: Path):
    convert(OTHERS / "sb3" / "ppo_cont.zip", tmp_path / "a.onnx")
    policy = palaestra.load_policy(tmp_path / "a.onnx", seed=0)
    obs = np.random.default_rng(0).normal(size=(500, 6)) * 5
    low = np.array([-2, -1, -0.5])
    high = np.array([2, 1, 1.5])
    native = policy.act(obs).continuous
    raw = policy.act(obs, rescale=False).continuous
    assert (native >= low).all()
    assert (native <= high).all()
    assert np.abs(raw).max() <= 1
    assert np.std(native - policy.act(obs).continuous) > 0.1  # it draws


@pytest.mark.parametrize("name", ["3DBall", "Basic", "PushBlock"])
def test_a_barracuda_model_gives_the_same_when_played_when_converted_and_layer_by_layer(name: str, tmp_path: Path):
    policy = palaestra.load_policy(NN / f"{name}.nn", seed=0)
    done = convert(NN / f"{name}.nn", tmp_path / "a.onnx")
    there = palaestra.load_policy(tmp_path / "a.onnx", seed=0)
    rows, (shape,), rng = 50, policy.obs_shapes, np.random.default_rng(0)
    obs = rng.normal(size=(rows, *shape)).astype(np.float32)
    network = read_policy(NN / f"{name}.nn").network
    feeds = {
        "vector_observation": obs.reshape(rows, 1, 1, -1),
        "action_masks": np.ones((rows, 1, 1, sum(policy.branches)), np.float32),
    }
    expected = evaluate(network, feeds)["action"].reshape(rows, -1)
    for each in (policy, there):
        action = each.act(obs, deterministic=True)
        if each.branches:
            assert (action.discrete[:, 0] == expected.argmax(1)).all()
        else:
            np.testing.assert_allclose(action.continuous, expected, atol=1e-5)
    assert done.difference < 1e-5
    assert there.obs_names == ("obs_0",)


NETWORKS: dict[str, dict[str, Any]] = {
    "ppo_resnet": {"vis_encode_type": "resnet"},
    "ppo_norm": {"normalize": True},
    "ppo_mix": {"normalize": True},
    "ppo_lstm": {"memory": MemorySettings(memory_size=12)},
    "sac_lstm": {"memory": MemorySettings(memory_size=12)},
    "sac_vec": {"normalize": True},
    "ppo_goal1": {"num_layers": 1},
    "ppo_goalnone": {"num_layers": 3, "goal_conditioning_type": "none"},
}
GOALS = {"ppo_goal": 1, "ppo_goal1": 0, "ppo_goalnone": 1}
CRITICS = {
    "ppo_norm",
    "ppo_mix",
    "ppo_goal",
    "ppo_goal1",
    "ppo_goalnone",
    "ppo_shared",
    "ppo_lstm",
    "sac_vec",
    "sac_hyb",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in OTHERS.glob("mlagents/*.pt")))
@torch.no_grad()
def test_a_network_of_ml_agents_gives_the_same_in_ours(name: str):
    given = dict(np.load(OTHERS / "mlagents" / f"{name}.npz"))
    saved = torch.load(OTHERS / "mlagents" / f"{name}.pt", weights_only=True)
    network = _network(name, given)
    state, whole = converted(saved, network, ["extrinsic"])
    network.load_state_dict(state)
    assert whole == (name in CRITICS)
    obs = tuple(torch.from_numpy(given[key]) for key in sorted(given) if key.startswith("obs_"))
    memory = torch.zeros(10, network.memory_size)
    if "memory" in given:
        memory[:, :12] = torch.from_numpy(given["memory"])
    inputs = network.prepare(obs)
    output, after = network.decide(inputs, memory)
    for key, value in _results(network, output, after, inputs).items():
        if key in given and (whole or key != "value_extrinsic"):
            np.testing.assert_allclose(value.numpy(), given[key].reshape(value.shape), atol=2e-6, err_msg=key)
    if whole and "q1" in given:
        action = torch.from_numpy(given["q_action"]) if "q_action" in given else torch.zeros(10, 0)
        values = network.critics(network.critics.encoding(inputs), action)[:, :, 0].reshape(2, 10, -1)
        np.testing.assert_allclose(
            values.numpy(), np.stack([given["q1"], given["q2"]]).reshape(values.shape), atol=2e-6
        )


def _network(name: str, given: dict[str, np.ndarray]) -> ActorCritic | SoftActorCritic:
    shapes = [given[key].shape[1:] for key in sorted(given) if key.startswith("obs_")]
    branches = tuple(given[key].shape[1] for key in sorted(given) if key.startswith("probs_"))
    action = ActionSpec(given["mean"].shape[1] if "mean" in given else 0, branches)
    spec = BehaviorSpec(
        tuple(ObsSpec(f"obs {i}", shape, goal=GOALS.get(name) == i) for i, shape in enumerate(shapes)), action
    )
    settings = NetworkSettings(hidden_units=16, **NETWORKS.get(name, {}))
    return (
        SoftActorCritic(spec, settings)
        if name.startswith("sac")
        else ActorCritic(spec, settings, shared_critic=name == "ppo_shared")
    )


def _results(network, output: torch.Tensor, after: torch.Tensor, inputs) -> dict[str, torch.Tensor]:
    """Returns what the original gave too."""
    numbers = network.spec.action.continuous
    results = {f"probs_{i}": logs.exp() for i, logs in enumerate(network.branch_log_probs(output, None))}
    if isinstance(network, SoftActorCritic):
        mean, log_std = network.gaussian(output)
    else:
        mean = output[:, :numbers]
        log_std = network.log_std.expand(len(output), -1)
        if network.memory is None:
            results["value_extrinsic"] = network.value(inputs)
    results |= {"mean": mean, "std": log_std.exp()} if numbers else {}
    return results | ({"after": after[:, :12]} if network.memory_size else {})
