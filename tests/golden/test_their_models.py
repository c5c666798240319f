"""Models that ML-Agents exported, against what ONNX Runtime gave for them when they were collected (batch 1, memory as
the inputs).
"""

from pathlib import Path

import numpy as np
import pytest

import palaestra

MODELS = Path(__file__).parent / "data" / "onnx"
INVALID = MODELS / "unity_package_tests_3.0.0" / "deterContinuous2vis8vec2action_v2_0.onnx"

# version, observations, continuous numbers, branches, memory
FORMS = {
    "runs/TTrain_ppo_hybrid": (3, ((28,), (6,)), 2, (3,), 0),
    "unity_examples/3DBall": (3, ((8,),), 2, (), 0),
    "unity_examples/3DBallHard": (2, ((45,),), 2, (), 0),
    "unity_examples/Basic": (3, ((20,),), 0, (3,), 0),
    "unity_examples/Crawler": (3, ((126,), (32,)), 20, (), 0),
    "unity_examples/Hallway": (3, ((105,), (3,)), 0, (5,), 128),
    "unity_examples/PushBlock": (3, ((105,), (105,)), 0, (7,), 0),
    "unity_examples/PushBlockCollab": (3, ((6, 20, 20), (10,)), 0, (7,), 0),
    "unity_examples/SmallWallJump": (3, ((210,), (210,), (24,)), 0, (3, 3, 3, 2), 0),
    "unity_examples/SoccerTwos": (2, ((336,),), 0, (3, 3, 3), 0),
    "unity_examples/Sorter": (2, ((18,), (20, 23)), 0, (3, 3, 3), 0),
    "unity_examples/Walker": (3, ((243,),), 39, (), 0),
    "unity_package_tests_2.2.1/continuous2vis8vec2action_v1_0": (2, ((8,), (3, 20, 21), (3, 22, 20)), 2, (), 0),
    "unity_package_tests_2.2.1/deterContinuous2vis8vec2action_v2_0": (3, ((8,),), 2, (), 0),
    "unity_package_tests_2.2.1/deterDiscrete1obs3action_v2_0": (3, ((20,),), 0, (3,), 0),
    "unity_package_tests_2.2.1/discrete1vis0vec_2_3action_obsolete_recurr_v1_0": (2, ((3, 20, 21),), 0, (2, 3), 128),
    "unity_package_tests_2.2.1/hybrid0vis8vec_2c_2_3d_v2_0": (3, ((8,),), 2, (2, 3), 128),
}

# what the deterministic and recurrent outputs begin with when every input is 0, then when every input is 1
CONTINUOUS = {
    "runs/TTrain_ppo_hybrid": ([0.0013079, -6.2815e-05], [0.045905, -0.059321]),
    "unity_package_tests_2.2.1/deterContinuous2vis8vec2action_v2_0": ([0.12819, 0.024796], [0.054171, -0.32736]),
}
DISCRETE = {
    "runs/TTrain_ppo_hybrid": ([0], [0]),
    "unity_package_tests_2.2.1/deterDiscrete1obs3action_v2_0": ([2], [2]),
    "unity_examples/Sorter": ([2], [1, 0]),
}
MEMORY = {
    "unity_examples/Hallway": ([0.021946, -0.14642, -0.049576, 0.0027019], [0.0, 0.0, 0.0, 0.95706]),
    "unity_package_tests_2.2.1/discrete1vis0vec_2_3action_obsolete_recurr_v1_0": (
        [0.0010803, 0.002158, 0.00010772, -0.00069673],
        [0.15709, 0.15056, 0.27019, 0.12705],
    ),
    "unity_package_tests_2.2.1/hybrid0vis8vec_2c_2_3d_v2_0": (
        [-0.14888, -0.19871, -0.017622, 0.0827],
        [0.334, 0.048956, 0.15595, 0.32461],
    ),
}


def load(name: str, seed: int | None = 0):
    return palaestra.load_policy(MODELS / f"{name}.onnx", seed=seed)


def answer(name: str, value: float):
    policy = load(name)
    obs = [np.full(shape, value, np.float32) for shape in policy.obs_shapes]
    return policy.act(
        obs, deterministic=True, memory=np.full(policy.memory_size, value) if policy.memory_size else None
    )


def test_every_model_file_is_tested():
    files = {str(path.relative_to(MODELS).with_suffix("")) for path in MODELS.rglob("*.onnx")} - {
        str(INVALID.relative_to(MODELS).with_suffix(""))
    }
    assert files == set(FORMS)


@pytest.mark.parametrize("name", FORMS)
def test_a_model_says_what_its_agent_sees_and_does(name):
    policy = load(name)
    assert (policy.version, policy.obs_shapes, policy.continuous_size, policy.branches, policy.memory_size) == FORMS[
        name
    ]


@pytest.mark.parametrize("name", FORMS)
def test_many_agents_get_what_each_gets_alone(name):
    policy = load(name)
    rng = np.random.default_rng(1)
    obs = [rng.random((3, *shape), np.float32) for shape in policy.obs_shapes]
    memory = rng.random((3, policy.memory_size), np.float32) if policy.memory_size else None
    together = policy.act(obs, deterministic=True, memory=memory)
    for row in range(3):
        alone = policy.act(
            [one[row] for one in obs], deterministic=True, memory=None if memory is None else memory[row]
        )
        for column in ("continuous", "discrete", "memory"):
            if (expected := getattr(together, column)) is not None:
                np.testing.assert_allclose(getattr(alone, column), expected[row], atol=1e-5)


@pytest.mark.parametrize("name", [name for name in FORMS if FORMS[name][3]])
def test_a_masked_choice_is_never_taken(name):
    policy = load(name)
    rng = np.random.default_rng(2)
    allowed = np.array([rng.integers(size, size=64) for size in policy.branches]).T  # a single choice in each branch
    mask = np.concatenate([np.eye(size)[allowed[:, branch]] for branch, size in enumerate(policy.branches)], 1)
    obs = [rng.random((64, *shape), np.float32) for shape in policy.obs_shapes]
    for deterministic in (False, True):
        np.testing.assert_array_equal(policy.act(obs, mask, deterministic=deterministic).discrete, allowed)


@pytest.mark.parametrize("name", FORMS)
def test_the_same_seed_gives_the_same_actions(name):
    first = load(name, seed=5)
    second = load(name, seed=5)
    obs = [np.random.default_rng(3).random((32, *shape), np.float32) for shape in first.obs_shapes]
    for _ in range(2):
        a = first.act(obs)
        b = second.act(obs)
        np.testing.assert_array_equal(a.continuous, b.continuous)
        np.testing.assert_array_equal(a.discrete, b.discrete)


@pytest.mark.parametrize("value", [0, 1])
def test_deterministic_and_recurrent_outputs_are_those_on_record(value):
    for name, expected in CONTINUOUS.items():
        np.testing.assert_allclose(answer(name, value).continuous, expected[value], rtol=1e-4)
    for name, expected in DISCRETE.items():
        np.testing.assert_array_equal(answer(name, value).discrete[: len(expected[value])], expected[value])
    for name, expected in MEMORY.items():
        np.testing.assert_allclose(answer(name, value).memory[:4], expected[value], rtol=1e-4, atol=1e-6)


def test_a_model_without_deterministic_outputs_gives_its_mean():
    policy = load("unity_examples/3DBallHard")
    obs = np.random.default_rng(4).random(45)
    samples = policy.act(np.tile(obs, (40_000, 1))).continuous  # std ≈ 0.31 each, so their mean's is 0.0016
    np.testing.assert_allclose(policy.act(obs, deterministic=True).continuous, samples.mean(0), atol=0.008)


def test_a_model_with_an_output_that_nothing_makes_is_played_without_it():
    policy = palaestra.load_policy(INVALID)
    obs = np.linspace(-1, 1, 8)
    # the same network, written by an older torch
    whole = load("unity_package_tests_2.2.1/deterContinuous2vis8vec2action_v2_0")
    assert policy.memory_size == 0
    np.testing.assert_array_equal(
        policy.act(obs, deterministic=True).continuous, whole.act(obs, deterministic=True).continuous
    )
