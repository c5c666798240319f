"""The observation `truth` of the worlds that can tell their true state, `env_options: {state: true}`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from envs.builtin.worlds import chance, change, made, still

import palaestra
from palaestra.brains.base import Seen
from palaestra.brains.trained import ModelBrain
from palaestra.core.errors import EnvError
from palaestra.core.plugins import registry
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.sensors.truth import numbers_of
from palaestra.runtime.environments.make import make_env
from palaestra.testing import check_env

UP = math.pi / 2
MODELS = Path(__file__).parents[3] / "golden/data/onnx/unity_examples"
NAMES = [name for name in registry("envs").names() if registry("envs").get(name).truth]


def told(name: str, areas: int = 1, **columns: object) -> tuple[WarpEnv, list[list[float]]]:
    """A world put in this state, and what each agent is told after a decision of doing nothing."""
    env = made(name, areas, state=True)
    env.reset(0)
    change(env, **columns)
    return env, still(env).obs[-1].tolist()


def near(numbers: list[float], at: int, *expected: float) -> None:
    """Asserts that the numbers from a place on are these."""
    assert numbers[at : at + len(expected)] == pytest.approx(expected, abs=1e-3)


def test_hallway_tells_where_the_goal_of_the_symbols_mark_is():
    # at (5, -10), looking along the hall; the symbol X at the middle, and its goal at the left: (-7, 22.29)
    still_body = {"velocity": [0.0, 0.0], "height": 0.5, "rise": 0.0, "age": 294}
    _, (seen,) = told(
        "Hallway", place=[5.0, -10.0], angle=UP, symbol=1, symbol_place=[0.0, 0.0], left_goal=1, **still_body
    )
    near(seen, 0, 5 / 25, -10 / 25, 0, 1, 0, 0)
    near(seen, 6, 1, 10 / 25, 5 / 25)
    near(seen, 9, 32.29 / 25, 12 / 25, -1)
    near(seen, 12, 1 - 301 / 3000)  # six ticks have passed, and the next counts, as in Unity
    # looking to the right, with an O, whose goal is on the other side, at (7, 22.29)
    _, (seen,) = told(
        "Hallway", place=[5.0, -10.0], angle=0.0, symbol=0, symbol_place=[0.0, 0.0], left_goal=1, **still_body
    )
    near(seen, 2, 1, 0)
    near(seen, 6, 0, -5 / 25, 10 / 25)
    near(seen, 9, 2 / 25, 32.29 / 25, 1)


def test_pyramids_tells_of_the_golden_block_before_it_appears():
    places = [[30.0 * (k % 3 - 1), 30.0 * (k // 3 - 1)] for k in range(7)]  # the brick pyramid's is (-30, 30)
    agent = {"place": [0.0, 25.0], "angle": math.pi, "velocity": [0.0, 0.0, 0.0], "height": 0.5, "age": 500}
    things = {"switch_place": [30.0, 30.0], "pile_place": [places]}
    _, (seen,) = told("Pyramids", **agent, **things)
    near(seen, 0, 0, 25 / 50, -1, 0, 0, 0)
    near(seen, 6, 0, -30 / 50, -5 / 50)  # the switch is behind it, and to its right
    near(seen, 9, 29.55 / 50, -5.8 / 50, 0)  # the block will lie at (-29.55, 30.8)
    near(seen, 12, 1 - 505 / 5000)
    standing = [[1] * 7]
    _, (seen,) = told("Pyramids", **agent, **things, pile=standing, pressed=1, pressed_age=100)
    near(seen, 6, 1)
    near(seen, 9, 29.55 / 50, -5.8 / 50, 1)  # settled, with its middle 5 m high


def test_pyramids_follows_a_golden_block_that_has_come_loose():
    env = made("Pyramids", 1, state=True)
    env.reset(0)
    cubes = env.state_dict()["cube"].zero_()
    cubes[:, 6 * 26 + 25] = torch.tensor([10.0, 20.0, 1.0])
    resting = [[1] * 6 + [3]]
    change(env, place=[0.0, 20.0], angle=0.0, velocity=[0.0, 0.0, 0.0], height=0.5, pile=resting, pressed=1, cube=cubes)
    (seen,) = still(env).obs[-1].tolist()
    near(seen, 9, 10 / 50, 0, 1 / 5)


def test_soccer_is_told_as_if_each_team_played_toward_the_right():
    position = [[-6.0, 2.0], [-3.0, -4.0], [9.0, 1.5], [6.0, 3.0]]
    _, seen = told(
        "SoccerTwos",
        position=position,
        angle=[0.0, UP, math.pi, 0.0],
        velocity=[0.0, 0.0],
        ball=[-1.5, 0.75],
        ball_velocity=[0.0, 0.0],
        ball_spin=0.0,
        age=99,
    )
    first, second, third, _ = seen
    near(first, 0, -6 / 15, 2 / 15, 1, 0, 0, 0)
    near(first, 6, -3 / 15, -4 / 15, 0, 1, 0, 0)
    near(first, 12, 9 / 15, 1.5 / 15, -1, 0, 0, 0)
    near(first, 18, 6 / 15, 3 / 15, 1, 0, 0, 0)
    near(first, 24, -1.5 / 15, 0.75 / 15, 0, 0, 0, 0.9)
    near(second, 0, *first[6:12], *first[:6])  # itself, then its mate
    near(third, 0, -9 / 15, -1.5 / 15, 1, 0, 0, 0, -6 / 15, -3 / 15, -1, 0, 0, 0)  # the field turned around
    near(third, 12, 6 / 15, -2 / 15, -1, 0, 0, 0, 3 / 15, 4 / 15, 0, -1, 0, 0)
    near(third, 24, 1.5 / 15, -0.75 / 15)


def test_dungeon_escape_tells_of_mates_dragon_key_and_tombstone():
    env = made("DungeonEscape", 1, state=True)
    env.reset(0)
    saved = env.state_dict()
    saved["body_position"][0, :3] = torch.tensor([[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]])
    saved["body_angle"][0, :3] = torch.tensor([UP, 0.0, UP])
    saved["body_height"][:] = 0.0
    saved["dragon"][:] = torch.tensor([-5.0, -8.0])
    saved["dragon_pace"][:] = 0.0
    saved["age"][:] = 29
    env.load_state_dict(saved)
    first, second, _ = still(env).obs[-1].tolist()
    near(first, 0, -5 / 25, 0, 0, 1, 0, 0, 0)
    near(first, 7, 1, 0, -5 / 25, 0, 1, 0, -10 / 25, 0)  # both mates are to its right
    to_portal = math.hypot(11.825 + 5, -11.774 + 8)
    near(first, 15, 1, -8 / 25, 0, 0, to_portal / 25)
    near(first, 20, 0, 0, 0, 0, 0, 0, 1 - 150 / 15000)
    near(second, 7, 1, 5 / 25, 0, 0, 1, -5 / 25, 0, 0)
    change(
        env,
        dragon_lives=False,
        key_lies=True,
        key=[-5.0, 6.0],
        stone_stands=True,
        stone=[-2.0, 4.0],
        acting=[True, True, False],
        holds_key=[False, True, False],
    )
    first, *_ = still(env).obs[-1].tolist()
    near(first, 7, 1, 0, -5 / 25, 1, 0, 0, 0, 0)
    near(first, 15, 0, 0, 0, 0, 0, 1, 6 / 25, 0, 1, 4 / 25, -3 / 25)


@pytest.mark.parametrize("name", ["FoodCollector", "VisualFoodCollector"])
def test_food_collector_tells_of_the_agents_and_the_nearest_food(name: str):
    env = made(name, 1, state=True)
    env.reset(0)
    saved = env.state_dict()
    saved["body_position"][0, :5] = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 20.0], [-30.0, 0.0], [0.0, -40.0]])
    saved["body_angle"][0, :5] = torch.tensor([0.0, UP, math.pi, 0.0, 0.0])
    saved["body_height"][:] = 0.0
    saved["food"][:] = torch.tensor([45.0, 45.0])
    saved["food"][0, [24, 3, 7, 8, 9]] = torch.tensor([[5.0, 0.0], [0.0, 6.0], [7.0, 0.0], [8.0, 0.0], [-9.0, 0.0]])
    saved["food"][0, 30] = torch.tensor([0.0, -12.0])
    saved["frozen"][2] = 105
    saved["parameters"][:] = torch.tensor([1.5, 1.0])
    saved["age"][:] = 249
    env.load_state_dict(saved)
    first, _, third, *_ = still(env).obs[-1].tolist()
    near(first, 0, 0, 0, 1, 0, 0, 0, 0)
    near(first, 7, 10 / 50, 0, 0, 1, 0)
    near(first, 12, 0, 20 / 50, -1, 0, 100 * 0.02 / 4)
    near(first, 27, 5 / 50, 0, 0, 6 / 50, 7 / 50, 0, 8 / 50, 0, -9 / 50, 0)
    near(first, 37, 0, -12 / 50, 45 / 50, 45 / 50)
    near(first, 47, 1.5, 1, 0.75)
    near(third, 6, 0.5, 30 / 50, 20 / 50, -1, 0, 0)  # the fourth is ahead of it and to its left


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_changes_nothing_else_and_keeps_the_contract(name: str):
    plain = made(name, 2)
    env = made(name, 2, state=True)
    (spec,) = env.behaviors.values()
    assert spec.obs[-1].name == "truth"
    assert spec.obs[-1].shape == (numbers_of(env.truth),)
    assert spec.obs[:-1] == next(iter(plain.behaviors.values())).obs
    (one,), (other,) = plain.reset(3).values(), env.reset(3).values()
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        assert all(map(torch.equal, one.obs, other.obs[:-1]))
        assert torch.equal(one.reward, other.reward)
        actions = chance(env, generator)
        (one,), (other,) = plain.step(actions).values(), env.step(actions).values()
    with pytest.raises(EnvError, match="obs_truth"):
        plain.load_state_dict(env.state_dict())
    check_env(made(name, 2, state=True), ticks=30)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "DungeonEscape"])
def test_the_last_truth_of_an_episode_is_that_of_its_end(name: str):
    env = made(name, 2, state=True)
    env.reset(0)
    most = env.most_decisions
    assert most is not None
    change(env, age=env.age_per_decision * (most - 1))
    step = still(env)
    assert step.truncated.all()
    assert step.final_obs.obs[-1][:, -1].tolist() == pytest.approx([0.0] * len(step.reward), abs=1e-6)
    assert step.obs[-1][:, -1].tolist() == pytest.approx([1.0] * len(step.reward), abs=0.01)


@pytest.mark.parametrize("name", ["Hallway", "SoccerTwos"])
def test_unitys_models_play_where_the_truth_is_told(name: str):
    chosen = []
    for options in ({}, {"state": True}):
        env = made(name, 1, **options)
        (spec,) = env.behaviors.values()
        (step,) = env.reset(0).values()
        slots = np.arange(len(step.reward))
        policy = palaestra.load_policy(MODELS / f"{name}.onnx", seed=0)
        brain = ModelBrain(policy, name, spec, deterministic=True)
        brain.begin(slots)
        chosen.append(brain.decide(Seen(slots, tuple(obs.numpy() for obs in step.obs), None, slots)).discrete.tolist())
    assert chosen[0] == chosen[1]


def test_a_world_without_a_true_state_names_those_that_have_one():
    names = "DungeonEscape, FoodCollector, Hallway, Pyramids, SoccerTwos, VisualFoodCollector"
    with pytest.raises(EnvError, match=rf"3DBall has no true state.*env_options\.state.*: {names}$"):
        make_env("3DBall", options={"state": True})
    with pytest.raises(EnvError, match="option 'state' is 'yes'; expected true or false"):
        make_env("Hallway", options={"state": "yes"})
