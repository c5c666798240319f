"""Tasks of EnvPool. Most tests need its wheel, which is large, and are skipped without it."""

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.unity.options import UnityOptions
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings
from palaestra.runtime.settings.fitting import preset_for
from palaestra.testing import check_env

INSTALLED = importlib.util.find_spec("envpool") is not None
needs_envpool = pytest.mark.skipif(not INSTALLED, reason="the extra palaestra[envpool] is not installed")


def opened(areas: int, **options: Any):
    return make_env("envpool:CartPole-v1", areas=areas, options=options)


def play(env: Any, seed: int, ticks: int) -> list[TimeStep]:
    steps = [env.reset(seed)["CartPole-v1"]]
    for tick in range(ticks):
        choices = torch.full((env.num_areas, 1), tick // 2 % 2)
        steps.append(env.step({"CartPole-v1": Action(torch.zeros(env.num_areas, 0), choices)})["CartPole-v1"])
    return steps


@pytest.mark.skipif(INSTALLED, reason="envpool is installed")
def test_without_the_package_the_pip_line_is_told():
    with pytest.raises(
        EnvError, match=r"needs the package envpool, which is not installed: pip install 'palaestra\[envpool\]'"
    ):
        opened(2)


def test_a_task_takes_the_settings_of_the_gymnasium_environment_of_that_name():
    assert preset_for("envpool:CartPole-v1") == preset_for("gymnasium:CartPole-v1") is not None


@needs_envpool
def test_a_task_keeps_the_contract_of_environments():
    env = opened(3)
    check_env(env, ticks=60)
    env.close()


@needs_envpool
def test_areas_play_as_tasks_of_their_own_with_the_next_seeds():
    together = opened(3, max_episode_steps=9)
    alone = [opened(1, max_episode_steps=9) for _ in range(3)]
    steps = play(together, 7, 40)
    for i, env in enumerate(alone):
        for whole, single in zip(steps, play(env, 7 + i, 40), strict=True):
            assert torch.equal(whole.obs[0][i], single.obs[0][0])
            for name in ("acting", "reward", "terminated", "truncated"):
                assert getattr(whole, name)[i] == getattr(single, name)[0]
    assert sum(int(step.truncated.sum()) for step in steps) >= 3
    assert not any((step.truncated & step.terminated).any() for step in steps)
    again = play(together, 7, 40)
    assert all(torch.equal(one.obs[0], other.obs[0]) for one, other in zip(steps, again, strict=True))
    for env in (together, *alone):
        env.close()


@needs_envpool
def test_a_task_is_drawn_where_asked_for():
    env = opened(2, render=True)
    env.reset(0)
    picture = env.render(1)
    assert picture.ndim == 3
    assert picture.dtype == np.uint8
    env.close()


@needs_envpool
@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("CartPol-v1", {}, "EnvPool has no task 'CartPol-v1'; did you mean 'CartPole-v1'"),
        ("LunarLander-v9", {}, "did you mean 'LunarLander-v3'"),
        ("CartPole-v1", {"num_thread": 2}, "takes no option 'num_thread'; did you mean 'num_threads'"),
        ("CartPole-v1", {"seed": 2}, "takes no option 'seed': --seed seeds the run"),
        (
            "CartPole-v1",
            {"max_episode_steps": "many"},
            "option 'max_episode_steps' is 'many'; expected a value like its default, 500",
        ),
        ("CartPole-v1", {"num_threads": -3}, "option 'num_threads' is -3; expected at least 0"),
        ("CartPole-v1", {"max_num_players": 2}, "takes no option 'max_num_players': each area has one agent"),
        ("CartPole-v1", {"gym_reset_return_info": False}, "cannot be made: "),
        ("Pong-v5", {"frame_skip": 0}, "option 'frame_skip' is 0; expected at least 1"),
        ("TicTacToe-v1", {}, "has 2 players in each area; only tasks of one player can be trained"),
    ],
)
def test_unknown_tasks_and_options_are_refused(task: str, options: dict[str, Any], message: str):
    with pytest.raises(EnvError, match=message):
        make_env(f"envpool:{task}", areas=1, options=options).reset(0)


@needs_envpool
def test_entries_of_the_observation_can_be_left_out():
    whole, less = (
        make_env("envpool:CheetahRun-v1", areas=2, options=options) for options in ({}, {"leave_out": ["velocity"]})
    )
    assert [obs.name for obs in whole.behaviors["CheetahRun-v1"].obs] == ["position", "velocity"]
    assert [(obs.name, obs.shape) for obs in less.behaviors["CheetahRun-v1"].obs] == [("position", (8,))]
    both = [env.reset(5)["CheetahRun-v1"].obs[0] for env in (whole, less)]
    assert torch.equal(*both)
    for env in (whole, less):
        env.close()


@needs_envpool
def test_options_change_what_is_observed_and_how_many_actions_there_are():
    env = make_env(
        "envpool:Pong-v5",
        areas=2,
        options={"img_height": 64, "img_width": 48, "stack_num": 2, "full_action_space": True},
    )
    spec = env.behaviors["Pong-v5"]
    assert env.reset(0)["Pong-v5"].obs[0].shape[1:] == spec.obs[0].shape == (2, 64, 48)
    assert spec.action.branches == (18,)
    env.close()


@needs_envpool
def test_copies_of_a_task_share_the_areas():
    env = make_env("envpool:CartPole-v1", areas=4, games=GameSettings(UnityOptions(copies=2)))
    assert env.num_areas == 4
    assert env.reset(0)["CartPole-v1"].obs[0].unique(dim=0).shape[0] == 4
    env.close()
