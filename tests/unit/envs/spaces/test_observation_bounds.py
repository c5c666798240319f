"""Observations outside of their space are told once; those that rounding alone moves are not."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from pettingzoo import ParallelEnv

from palaestra.core.timestep import Action
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.envs.pettingzoo.env import PettingZooEnv
from palaestra.envs.spaces import observation_bounds
from palaestra.envs.unity.options import UnityOptions
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings


class Shows(gymnasium.Env):
    """Observes 0 at first, then the values given."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Box, later: Any) -> None:
        self.observation_space = space
        self.later = np.full(space.shape, later, space.dtype)

    def reset(self, *, seed=None, options=None):
        return np.zeros_like(self.later), {}

    def step(self, action):
        return self.later, 0.0, False, False, {}


class Pair(ParallelEnv):
    """Two agents that observe 7."""

    def __init__(self):
        self.metadata = {"name": "pair"}
        self.agents = self.possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return spaces.Box(-1.0, 1.0, (2,))

    def action_space(self, agent):
        return spaces.Discrete(2)

    def step(self, actions):
        raise NotImplementedError

    def reset(self, seed=None, options=None):
        return {agent: np.full(2, 7, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}


NOTHING = Action(torch.zeros(1, 0), torch.zeros(1, 1, dtype=torch.int64))


def step(env: GymnasiumEnv, times: int = 1) -> None:
    env.reset(0)
    for _ in range(times):
        env.step({env.behavior: NOTHING})


@pytest.mark.parametrize(
    ("space", "later", "message"),
    [
        (spaces.Box(-1.0, 1.0, (3,)), 7.5, r"'observation'\[0\] is 7.5, but its space says -1 to 1"),
        (
            spaces.Box(np.array([-np.inf, 0], np.float32), np.array([9, np.inf], np.float32)),
            -2.0,
            r"\[1\] is -2, .*0 to",
        ),
        (spaces.Box(0.0, 1.0, ()), 2.0, "'observation' is 2, but its space says 0 to 1"),
        (spaces.Box(0.0, 1.0, (8, 8, 3)), 255.0, r"\[0, 0, 0\] is 255, but its space says 0 to 1"),
        (spaces.Box(-1.0, 1.0, (3,)), 1.00005, r"is 1.00005, but its space says -1 to 1"),
        (spaces.Box(0, 100_000, (3,), np.int64), 100_002, r"is 100002, but its space says 0 to 100000"),
        (spaces.Box(0, 2, (8, 8), np.uint8), 200, r"\[0, 0\] is 200, but its space says 0 to 2"),
    ],
)
def test_the_first_observation_outside_of_its_space_is_told_once(space: spaces.Box, later: float, message: str):
    env = GymnasiumEnv.wrap(Shows(space, later))
    with pytest.warns(UserWarning, match=message) as told:
        step(env, 3)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("space", "later"),
    [
        (spaces.Box(-1.0, 1.0, (3,)), 1 + 5e-6),  # as float32 rounds
        (spaces.Box(-1.0, 1.0, (3,), np.float16), 1.001),  # the next number of float16
        (spaces.Box(-np.inf, np.inf, (3,)), 1e6),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), 255),
    ],
)
def test_observations_within_their_space_or_a_rounding_outside_are_not_told(space: spaces.Box, later: float):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(GymnasiumEnv.wrap(Shows(space, later)), 3)


def test_only_the_first_observations_are_compared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observation_bounds, "BATCHES", 2)
    shows = Shows(spaces.Box(-1.0, 1.0, (3,)), 0.0)
    env = GymnasiumEnv.wrap(shows)
    step(env)
    shows.later = np.full(3, 5, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step({env.behavior: NOTHING})


@pytest.mark.slow
def test_copies_that_differ_in_the_number_alone_tell_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = """
import os, numpy as np
from gymnasium import Env, spaces

class Loud(Env):
    observation_space, action_space = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.full(2, 5 + os.getpid() % 1000, np.float32), {}
"""
    (tmp_path / "loud.py").write_text(module + "    def step(self, action): pass\n")
    monkeypatch.chdir(tmp_path)
    env = make_env("python:loud:Loud", areas=4, games=GameSettings(UnityOptions(copies=2)))
    with pytest.warns(UserWarning, match="its space says -1 to 1") as told:
        env.reset(0)
    env.close()
    assert len(told) == 1


def test_agents_of_pettingzoo_are_told_of_too():
    with pytest.warns(UserWarning, match=r"'observation'\[0\] is 7, but its space says -1 to 1"):
        PettingZooEnv([Pair()], "pair").reset(0)
