"""Our environments through Gymnasium's and PettingZoo's interfaces, checked by their own tests."""

import copy
import pickle
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ClosedEnvironmentError, InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import palaestra.gymnasium
from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.base import Env
from palaestra.interop.vector_env import merged
from palaestra.pettingzoo import aec_env, parallel_env

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its tests import deprecated games
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

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


@pytest.mark.parametrize(
    "name", ["3DBall", "Basic", "Match3", "GridWorld", "WallJump", "PushBlockCollab", "SoccerTwos", "Sorter"]
)
def test_a_vector_environment_gives_what_the_environment_itself_gives(name: str):
    env = palaestra.make(name, areas=8)
    one = gymnasium.make_vec(f"palaestra/{name}-v0", num_envs=_agents(name))
    envs, lists = (gymnasium.make_vec(f"palaestra/{name}-v0", num_envs=8 * one.num_envs) for _ in range(2))
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    steps = env.reset(7)
    envs.reset(seed=7)
    lists.reset(seed=7)
    envs.action_space.seed(0)
    masks, ends = getattr(envs, "action_masks"), 0  # noqa: B009 - not in Gymnasium's interface
    for _ in range(150):
        actions = envs.action_space.sample()
        steps = env.step(dict.fromkeys(steps, _action(actions, env)))
        step = merged(steps) if len(steps) > 1 else next(iter(steps.values()))
        obs, reward, terminated, truncated, infos = envs.step(actions)
        _same((obs, reward, terminated, truncated, infos), lists.step(actions.tolist()))
        seen = [*obs.values()] if isinstance(obs, dict) else [obs]
        for here, there in zip(seen, step.obs, strict=True):
            np.testing.assert_array_equal(here, there.numpy())
        np.testing.assert_array_equal(reward, (step.reward + step.group_reward).numpy())
        np.testing.assert_array_equal(terminated, step.terminated.numpy())
        np.testing.assert_array_equal(truncated, step.truncated.numpy())
        if step.action_mask is not None:
            np.testing.assert_array_equal(infos["action_mask"], step.action_mask.numpy())
            np.testing.assert_array_equal(masks(), step.action_mask.numpy())
        for row, slot in enumerate(step.final_obs.slots.tolist()):
            last = infos["final_obs"][slot]
            for here, there in zip(
                last.values() if isinstance(last, dict) else [last], step.final_obs.obs, strict=True
            ):
                np.testing.assert_array_equal(here, there[row].numpy())
            ends += 1
    assert ends or name not in ("3DBall", "Basic")


def _agents(name: str) -> int:
    return sum(int(step.acting.sum()) for step in palaestra.make(name, areas=1).reset(0).values())


def _action(actions: np.ndarray, env: Env) -> Action:
    size = len(actions)
    spec = next(iter(env.behaviors.values())).action
    if spec.continuous:
        return Action(torch.from_numpy(actions).clamp(-1, 1), torch.zeros(size, 0, dtype=torch.int64))
    return Action(torch.zeros(size, 0), torch.from_numpy(actions).reshape(size, -1))


def _same(one: Any, other: Any) -> None:
    """Whatever steps are made of."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one = [*one.values()]
        other = [*other.values()]
    if isinstance(one, list | tuple) or (isinstance(one, np.ndarray) and one.dtype.kind == "O"):
        for a, b in zip(one, other, strict=True):
            _same(a, b)
    else:
        np.testing.assert_array_equal(one, other)


def test_what_a_vector_environment_gave_stays_as_it_was():
    envs = gymnasium.make_vec("palaestra/3DBall-v0", num_envs=2048)
    envs.reset(seed=1)
    steps = [envs.step(np.zeros((2048, 2), np.float32))[:4] for _ in range(12)]
    again = gymnasium.make_vec("palaestra/3DBall-v0", num_envs=2048)
    again.reset(seed=1)
    for step in steps:
        _same(step, again.step(np.zeros((2048, 2), np.float32))[:4])


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


def test_games_of_others_are_drawn_where_a_render_mode_asks_for_it():
    env = gymnasium.make("palaestra/Game-v0", env="gymnasium:CartPole-v1", render_mode="rgb_array")
    env.reset(seed=0)
    assert np.shape(env.render()) == (400, 600, 3)
    env.close()


def test_players_whose_turn_comes_later_are_named_once():
    env = parallel_env("python:zoo_games:Duel")
    for _ in range(2):
        obs, _ = env.reset(seed=0)
        for _ in range(5):
            obs, *_ = env.step({agent: obs[agent]["action_mask"].argmax() for agent in env.agents})
        assert env.possible_agents == ["player_team0_0", "player_team1_0", "player_team2_0"]


def test_a_closed_environment_neither_draws_nor_takes_parameters():
    many = parallel_env("3DBall", render_mode="rgb_array")
    one = gymnasium.make("palaestra/3DBall-v0", render_mode="rgb_array").unwrapped
    for env in (many, one):
        env.reset(seed=0)
        env.close()
        env.close()
        for call in (env.render, lambda env=env: getattr(env, "set_parameters")(mass=1.0)):  # noqa: B009 - not in Gymnasium's interface
            with pytest.raises(ClosedEnvironmentError, match="3DBall is closed"):
                call()


def test_a_vector_environment_is_made_with_parameters_for_each_area():
    given, later = (
        gymnasium.make_vec("palaestra/3DBall-v0", num_envs=2, **more)
        for more in ({"parameters": {"mass": [2.0, 9.0]}}, {})
    )
    later.reset(seed=1, options={"parameters": {"mass": [2.0, 9.0]}})
    given.reset(seed=1)
    for _ in range(5):
        obs, *_ = given.step(np.ones((2, 2), np.float32))
        np.testing.assert_array_equal(obs, later.step(np.ones((2, 2), np.float32))[0])
    with pytest.raises(EnvError, match="one for each of 2 areas"):
        gymnasium.make_vec("palaestra/3DBall-v0", num_envs=2, parameters={"mass": [2.0, 9.0, 1.0]})


def test_wrong_seeds_and_options_of_a_reset_are_told():
    env = parallel_env("3DBall")
    for seed, told in (
        (-1, "seed is -1; expected a whole number of at least 0"),
        (1.5, "seed is 1.5"),
        ("a", "seed is 'a'"),
        (True, "True"),
    ):
        with pytest.raises(EnvError, match=told):
            env.reset(seed=seed)  # type: ignore[arg-type]
    with pytest.raises(EnvError, match="options of reset are 5"):
        env.reset(options=5)  # type: ignore[arg-type]
    first, _ = env.reset(seed=np.int64(3))  # type: ignore[arg-type]
    np.testing.assert_array_equal(first["3DBall_0"], env.reset(seed=3)[0]["3DBall_0"])


def test_options_of_a_game_may_have_any_name():
    env = gymnasium.make("palaestra/Game-v0", env="python:test_outward_envs:named", name="a name", drawn=3)
    assert (env.unwrapped.spec.kwargs["name"], env.reset(seed=0)[0].shape) == ("a name", (4,))


def named(name: str, drawn: int) -> gymnasium.Env:
    """Makes an environment with options of such names."""
    assert (name, drawn) == ("a name", 3)
    return gymnasium.make("CartPole-v1")


def test_wrong_use_is_told():
    env = gymnasium.make("palaestra/3DBall-v0")
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, np.float32))
    env.reset(seed=0)
    for wrong in (np.zeros(3), np.array([np.nan, 0.0]), None):
        with pytest.raises(InvalidAction, match="3DBall_0"):
            env.step(wrong)
    for options, told in (
        ({"parameter": {}}, "did you mean 'parameters'"),
        ({"parameters": 5}, "parameters is 5"),
        ([1], "expected a dict"),
    ):
        with pytest.raises(EnvError, match=told):
            env.reset(options=options)  # type: ignore[arg-type]
    for wrong, told in (
        ({"parameters": 3}, "parameters is 3; expected a dictionary"),
        ({"parameters": {1: 2.0}}, "parameters is {1: 2.0}; expected a dictionary"),
        ({"areas": 4}, "takes no option 'areas' here"),
        ({"num_areas": 4}, "takes no option 'num_areas' here"),
        ({"name": "x"}, "3DBall takes no option 'name'"),
        ({"drawn": True}, "3DBall takes no option 'drawn'"),
    ):
        with pytest.raises(EnvError, match=told):
            gymnasium.make("palaestra/3DBall-v0", **wrong)
    env.close()
    with pytest.raises(ClosedEnvironmentError):
        env.reset()
    with pytest.raises(
        EnvError, match=r"palaestra\.pettingzoo\.parallel_env.*, or gymnasium\.make_vec\('palaestra/SoccerTwos-v0'"
    ):
        gymnasium.make("palaestra/SoccerTwos-v0")
    for name in ("DungeonEscape", "StrikersVsGoalie"):  # which make_vec refuses
        with pytest.raises(EnvError, match=rf"parallel_env\('{name}'\) for each agent by name$"):
            gymnasium.make(f"palaestra/{name}-v0")
    with pytest.raises(EnvError, match=r"parallel_env\('python:examples.sdk_tag:tag'\) for each agent by name$"):
        gymnasium.make("palaestra/Game-v0", env="python:examples.sdk_tag:tag")
    with pytest.raises(EnvError, match="num_envs is 0"):
        gymnasium.make_vec("palaestra/3DBall-v0", num_envs=0)
    with pytest.raises(EnvError, match="no multiple of 4"):
        gymnasium.make_vec("palaestra/SoccerTwos-v0", num_envs=6)
    envs = gymnasium.make_vec("palaestra/PushBlock-v0", num_envs=2)
    envs.reset(seed=0)
    with pytest.raises(EnvError, match="expected"):
        envs.step(np.zeros((3,), np.int64))


def test_environments_without_a_seed_differ_from_one_another_and_those_with_one_do_not():
    def starts(**options: int) -> list[np.ndarray]:
        sync = gymnasium.make_vec("palaestra/3DBall-v0", num_envs=2, vectorization_mode="sync", **options)
        vector = gymnasium.make_vec("palaestra/3DBall-v0", num_envs=2, **options)
        many = [parallel_env("3DBall", **options).reset()[0]["3DBall_0"] for _ in range(2)]  # type: ignore[arg-type]
        return [sync.reset()[0], np.stack(many), vector.reset()[0]]

    for one, other in starts()[:2]:
        assert (one != other).any()
    for one, other in starts(seed=3)[:2]:
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(starts(seed=3)[2], starts(seed=3)[2])
    for wrong in (-1, "a"):
        with pytest.raises(EnvError, match="seed is"):
            gymnasium.make("palaestra/3DBall-v0", seed=wrong)
