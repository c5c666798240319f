"""Our environments through Gymnasium's and PettingZoo's interfaces, checked by their own tests."""

import copy
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ClosedEnvironmentError, InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import palaestra
from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.interop.registration import register_envs
from palaestra.pettingzoo import aec_env, parallel_env

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its tests import deprecated games
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

register_envs()
pytestmark = pytest.mark.filterwarnings("ignore")  # recommendations of both libraries' tests

ONE_AGENT = ["3DBall", "GridWorld", "Sorter", "WallJump"]
MANY_AGENTS = ["SoccerTwos", "FoodCollector", "StrikersVsGoalie", "DungeonEscape"]


@pytest.mark.parametrize("name", ONE_AGENT)
def test_an_environment_with_one_agent_passes_the_check_of_gymnasium(name: str):
    env = gymnasium.make(f"palaestra/{name}-v0", render_mode="rgb_array")
    check_env(env.unwrapped)


@pytest.mark.parametrize("name", ["3DBall", "GridWorld", *MANY_AGENTS, "examples/sdk_tag.py"])
def test_an_environment_passes_the_tests_of_pettingzoo(name: str):
    name = "python:examples.sdk_tag:tag" if name.endswith(".py") else name
    parallel_api_test(parallel_env(name), num_cycles=60)
    api_test(aec_env(name), num_cycles=60)
    parallel_seed_test(lambda: parallel_env(name), num_cycles=20)
    seed_test(lambda: aec_env(name), num_cycles=20)


def test_a_vector_environment_gives_what_the_environment_itself_gives():
    env, envs = palaestra.make("3DBall", areas=16), gymnasium.make_vec("palaestra/3DBall-v0", num_envs=16)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    step = env.reset(7)["3DBall"]
    obs, _ = envs.reset(seed=7)
    np.testing.assert_array_equal(obs, step.obs[0].numpy())
    ends = 0
    for _ in range(60):
        actions = envs.action_space.sample()
        step = env.step({"3DBall": Action(torch.from_numpy(actions), torch.zeros(16, 0, dtype=torch.int64))})["3DBall"]
        obs, reward, terminated, _, infos = envs.step(actions)
        np.testing.assert_array_equal(obs, step.obs[0].numpy())
        np.testing.assert_array_equal(reward, step.reward.numpy())
        np.testing.assert_array_equal(terminated, step.terminated.numpy())
        for row, slot in enumerate(step.final_obs.slots.tolist()):
            np.testing.assert_array_equal(infos["final_obs"][slot], step.final_obs.obs[0][row].numpy())
            ends += 1
    assert ends


def test_a_vector_environment_passes_tensors_on_where_asked():
    envs = gymnasium.make_vec("palaestra/3DBall-v0", num_envs=4, tensors=True)
    obs, _ = envs.reset(seed=0)
    assert isinstance(obs, torch.Tensor)
    assert all(isinstance(part, torch.Tensor) for part in envs.step(torch.zeros(4, 2))[:4])


def test_a_copy_and_a_pickle_of_an_environment_go_on_where_it_was():
    env = gymnasium.make("palaestra/3DBall-v0")
    env.reset(seed=3)
    env.step(np.ones(2, np.float32))
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    here = env.step(np.ones(2, np.float32))
    for one in copies:
        np.testing.assert_array_equal(one.step(np.ones(2, np.float32))[0], here[0])


def test_wrong_use_is_told():
    env = gymnasium.make("palaestra/3DBall-v0")
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.float32))
    env.reset(seed=0)
    for wrong in (np.zeros(3), np.array([np.nan, 0.0]), None):
        with pytest.raises(InvalidAction, match="3DBall_0"):
            env.step(wrong)
    with pytest.raises(EnvError, match="did you mean 'parameters'"):
        env.reset(options={"parameter": {}})
    env.close()
    with pytest.raises(ClosedEnvironmentError):
        env.reset()
    with pytest.raises(EnvError, match=r"palaestra\.pettingzoo\.parallel_env"):
        gymnasium.make("palaestra/SoccerTwos-v0")
    with pytest.raises(EnvError, match="num_envs is 0"):
        gymnasium.make_vec("palaestra/3DBall-v0", num_envs=0)
    with pytest.raises(EnvError, match="no multiple of 4"):
        gymnasium.make_vec("palaestra/SoccerTwos-v0", num_envs=6)
    envs = gymnasium.make_vec("palaestra/PushBlock-v0", num_envs=2)
    envs.reset(seed=0)
    with pytest.raises(EnvError, match="expected"):
        envs.step(np.zeros((3,), np.int64))
