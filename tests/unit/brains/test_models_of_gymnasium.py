"""Models that were trained in Gymnasium environments, played in these by hand."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from gymnasium import spaces
from tiny_envs import network_settings

import palaestra
from palaestra.brains.base import Seen
from palaestra.brains.model import Policy
from palaestra.brains.trained import ModelBrain
from palaestra.core.errors import PolicyError
from palaestra.core.specs import BehaviorSpec
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.models.actor_critic import ActorCritic
from palaestra.onnx_export.onnx import export
from palaestra.runtime.play.evaluation import evaluate

LENGTH = 4


class Acts(gymnasium.Env):
    """Has any spaces, shows random observations, and pays for what is done by a rule that knows the environment's own
    numbers.
    """

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.observation_space = deepcopy(observation_space)
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.tick = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.tick += 1
        return self.observation_space.sample(), float(np.sum(action)), self.tick >= LENGTH, False, {}


def exported(spec: BehaviorSpec, folder: Path) -> Policy:
    torch.manual_seed(0)
    network = ActorCritic(spec, network_settings())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    export(network, spec, folder / "model.onnx")
    return palaestra.load_policy(folder / "model.onnx", seed=0)


def by_hand(policy: Policy, env: gymnasium.Env, episodes: int, seed: int) -> list[float]:
    returns = []
    for i in range(episodes):
        obs, _ = env.reset(seed=seed) if i == 0 else env.reset()
        total, over = 0.0, False
        while not over:
            answer = policy.act(obs, deterministic=True)
            if answer.continuous is not None:
                action: Any = answer.continuous.reshape(env.action_space.shape)
            else:
                assert answer.discrete is not None
                action = answer.discrete.reshape(env.action_space.shape)
            obs, reward, terminated, truncated, _ = env.step(action[()] if action.ndim == 0 else action)
            total = total + float(reward)
            over = terminated or truncated
        returns.append(total)
    return returns


VECTOR = spaces.Box(-1, 1, (3,), np.float32)
NESTED = spaces.Dict(
    arm=spaces.Tuple((spaces.Discrete(3, start=1), VECTOR)), eye=spaces.Box(0, 255, (20, 20, 3), np.uint8)
)


@pytest.mark.parametrize(
    ("seen", "done"),
    [
        (VECTOR, spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))),
        (VECTOR, spaces.Box(-3, 5, (2, 2), np.float32)),
        (VECTOR, spaces.Discrete(3, start=4)),
        (VECTOR, spaces.MultiDiscrete([2, 3], start=[1, -5])),
        (VECTOR, spaces.MultiBinary(3)),
        (spaces.Discrete(5, start=2), spaces.Discrete(2)),
        (spaces.MultiDiscrete([2, 3], start=[1, 7]), spaces.Discrete(2)),
        (spaces.MultiBinary(4), spaces.Discrete(2)),
        (spaces.Box(-1, 1, (2, 2), np.float32), spaces.Discrete(2)),
        (spaces.Box(-1, 1, (), np.float32), spaces.Discrete(2)),
        (spaces.Box(0, 255, (20, 24), np.uint8), spaces.Discrete(2)),
        (spaces.Box(0, 255, (3, 20, 24), np.uint8), spaces.Discrete(2)),
        (spaces.Box(0, 255, (3, 20, 24), np.int32), spaces.Discrete(2)),
        (spaces.Box(0, 3, (20, 24), np.uint8), spaces.Discrete(2)),
        (
            spaces.Dict({"a": spaces.Tuple((spaces.Dict({"x.y": VECTOR}), VECTOR)), "b.c": spaces.Dict({"d": VECTOR})}),
            spaces.Discrete(2),
        ),
        (spaces.Sequence(spaces.Dict(at=VECTOR, kind=spaces.Discrete(3, start=1)), stack=True), spaces.Discrete(2)),
        (NESTED, spaces.Box(0, 1, (1,), np.float32)),
        (spaces.Tuple((VECTOR, spaces.Tuple((VECTOR, spaces.Discrete(2))))), spaces.Discrete(2)),
    ],
    ids=str,
)
def test_an_exported_model_earns_by_hand_what_evaluate_says(seen: spaces.Space, done: spaces.Space, tmp_path: Path):
    env = GymnasiumEnv.wrap(Acts(seen, done))
    policy = exported(env.behaviors["Acts"], tmp_path)
    said = evaluate(env, {"Acts": policy}, 3, deterministic=True, seed=7)["Acts"].returns
    seed = int(np.random.SeedSequence(7).generate_state(1)[0])
    np.testing.assert_allclose(by_hand(policy, Acts(seen, done), 3, seed), said, rtol=1e-6)


def test_a_model_that_was_trained_with_another_scale_sees_in_a_game_what_it_learned_from(tmp_path: Path):
    board = spaces.Box(0, 3, (20, 24), np.uint8)
    spec = GymnasiumEnv.wrap(Acts(board, spaces.Discrete(2))).behaviors["Acts"]
    raw = spec.obs[0].raw
    assert raw is not None
    older = replace(spec, obs=(replace(spec.obs[0], raw=replace(raw, scale=1 / 255)),))
    policy = exported(older, tmp_path)
    brain = ModelBrain(policy, "Acts", spec, deterministic=True)
    given: list[Any] = []
    act = policy.act
    policy.act = lambda obs, *rest, **options: given.append(obs) or act(obs, *rest, **options)  # type: ignore[method-assign]
    one = np.zeros(1, np.int64)
    brain.decide(Seen(one, (np.ones((1, 1, 20, 24), np.float32),), None, one))
    np.testing.assert_allclose(given[0][0], 3 / 255, rtol=1e-6)


def test_unity_gets_numbers_within_minus_1_and_1_and_choices_from_0(tmp_path: Path):
    box = spaces.Box(np.array([100, -7], np.float32), np.array([200, 9], np.float32))
    policy = exported(GymnasiumEnv.wrap(Acts(VECTOR, box)).behaviors["Acts"], tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for name in ("continuous_actions", "deterministic_continuous_actions"):
        assert np.abs(session.run([name], {"obs_0": np.ones((50, 3), np.float32)})[0]).max() <= 1
    raw = policy.act(np.ones((50, 3)), rescale=False).continuous
    scaled = policy.act(np.ones((50, 3))).continuous
    assert raw is not None
    assert scaled is not None
    assert np.abs(raw).max() <= 1
    assert ((scaled >= box.low) & (scaled <= box.high)).all()
    assert policy.action_bounds is not None
    np.testing.assert_array_equal(policy.action_bounds, [box.low, box.high])


def test_a_box_of_minus_1_to_1_needs_no_bounds(tmp_path: Path):
    policy = exported(GymnasiumEnv.wrap(Acts(VECTOR, spaces.Box(-1, 1, (2,)))).behaviors["Acts"], tmp_path)
    assert policy.action_bounds is None


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return exported(
        GymnasiumEnv.wrap(Acts(NESTED, spaces.Discrete(2))).behaviors["Acts"], tmp_path_factory.mktemp("nested")
    )


def test_observations_may_be_given_by_name(nested: Policy):
    sample = NESTED.sample()
    assert nested.observations == ("arm.0", "arm.1", "eye")
    flat = {"eye": sample["eye"], "arm.1": sample["arm"][1], "arm.0": sample["arm"][0], "clock": 3}
    tensors = [np.eye(3)[sample["arm"][0] - 1], sample["arm"][1], sample["eye"].transpose(2, 0, 1) / 255]
    by_tensor = dict(zip(nested.obs_names, tensors, strict=True))
    chosen = [nested.act(given, deterministic=True).discrete for given in (sample, flat, tensors, by_tensor)]
    assert all(np.array_equal(one, chosen[0]) for one in chosen)


def test_many_agents_may_be_given_as_the_environment_gives_one(nested: Policy):
    batch = {"arm.0": np.array([1, 3]), "arm.1": np.zeros((2, 3)), "eye": np.zeros((2, 20, 20, 3), np.uint8)}
    discrete = nested.act(batch).discrete
    assert discrete is not None
    assert discrete.shape == (2, 1)


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        ({"arm.0": 1, "arm.1": np.zeros(3)}, r"observation 'eye' is missing.*given: arm\.0, arm\.1"),
        ({"arm.0": 1, "arm.1": np.zeros(3), "eyes": 0}, "observation 'eye' is missing; did you mean 'eyes'"),
        (
            {"arm.0": 9, "arm.1": np.zeros(3), "eye": np.zeros((20, 20, 3))},
            "observation 'arm.0' holds 9; expected 1 to 3",
        ),
        ({"arm.0": 1, "arm.1": np.zeros(4), "eye": np.zeros((20, 20, 3))}, r"observation 'arm.1' has shape \(4,\)"),
        (
            {"arm.0": np.array([1, 2, 3]), "arm.1": np.zeros((3, 3)), "eye": np.zeros((3, 20, 20, 3))},
            r"give floats .* shape \(3, 1\)",
        ),
        ([np.zeros(3)], "sees 3 observations"),
    ],
)
def test_observations_that_do_not_fit_are_named_as_the_environment_names_them(nested: Policy, obs: Any, message: str):
    with pytest.raises(PolicyError, match=message):
        nested.act(obs)


@pytest.mark.parametrize(
    "notes",
    ["{", "[]", '{"observations": [{}]}', '{"actions": {"low": 3}}', '{"actions": {"low": [0, 0], "high": [1]}}'],
)
def test_notes_that_are_damaged_do_not_hinder_playing(notes: str, tmp_path: Path):
    env = GymnasiumEnv.wrap(Acts(VECTOR, spaces.Box(0, 5, (2,), np.float32)))
    exported(env.behaviors["Acts"], tmp_path)
    model = onnx.load(str(tmp_path / "model.onnx"))
    onnx.helper.set_model_props(model, {"palaestra": notes})
    onnx.save(model, str(tmp_path / "other.onnx"))
    policy = palaestra.load_policy(tmp_path / "other.onnx")
    answer = policy.act(np.zeros(3)).continuous
    assert answer is not None
    assert (policy.observations, answer.shape) == (("obs_0",), (2,))
