from __future__ import annotations

import numpy as np
import pytest
import torch

import palaestra
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.hallway.env import Hallway, HallwayUnity
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec
from palaestra.runtime.play.evaluation import play, results
from palaestra.runtime.play.players import Players

FORWARD, BACK, RIGHT, LEFT = range(4)
GOAL_X, GOAL_O, SYMBOL_X, SYMBOL_O = range(4)
UP = np.pi / 2


def played(env: Hallway | HallwayUnity, *choices: int) -> TimeStep:
    return env.step({"Hallway": Action(torch.zeros(len(choices), 0), torch.tensor(choices)[:, None])})["Hallway"]


def stood(
    place: tuple[float, float], angle: float = UP, symbol: int = 0, left_goal: int = 0, env: Hallway | HallwayUnity | None = None
) -> Hallway | HallwayUnity:
    """One area; the symbol in the middle of the hall."""
    env = env or Hallway(1)
    env.reset(0)
    state = env.state_dict()
    state["place"][0], state["symbol_place"][0] = torch.tensor(place), torch.zeros(2)
    state["angle"][0], state["symbol"][0], state["left_goal"][0] = angle, symbol, left_goal
    env.load_state_dict(state)
    return env


def rays(step: TimeStep, width: int = 6) -> torch.Tensor:
    """What each ray tells, the last view's, (5, width)."""
    return step.obs[0][0, -5 * width :].view(5, width)


@pytest.mark.parametrize(("symbol", "left_goal", "reward"), [(0, 0, 1.0), (1, 1, 1.0), (0, 1, -0.1), (1, 0, -0.1)])
def test_the_goal_of_the_symbols_mark_is_the_right_one(symbol: int, left_goal: int, reward: float):
    env = stood((-7.0, 20.0), symbol=symbol, left_goal=left_goal)
    while not (step := played(env, FORWARD)).terminated.item():
        assert step.reward.item() == pytest.approx(-0.0003)
    assert step.reward.item() == pytest.approx(reward)
    assert not step.truncated.any()
    assert step.final_obs.slots.tolist() == [0]


def test_an_episode_is_cut_after_600_decisions_which_is_no_end():
    env = stood((0.0, -20.0))
    for _ in range(599):
        step = played(env, RIGHT)
        assert not step.truncated.any()
    step = played(env, RIGHT)
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.reward.item() == pytest.approx(-0.0003)


@pytest.mark.parametrize(("choice", "turn"), [(RIGHT, -15.0), (LEFT, 15.0), (FORWARD, 0.0), (BACK, 0.0)])
def test_a_decision_turns_by_15_degrees_or_moves(choice: int, turn: float):
    env = stood((3.0, -12.0))
    played(env, choice)
    state = env.state_dict()
    assert np.degrees(state["angle"].item() - UP) == pytest.approx(turn, abs=1e-3)
    moved = state["place"][0].tolist()[1] + 12.0
    assert np.sign(moved) == {FORWARD: 1, BACK: -1}.get(choice, 0)


@pytest.mark.parametrize(("symbol", "tag"), [(0, SYMBOL_X), (1, SYMBOL_O)])
def test_rays_tell_the_symbol_and_how_far_untagged_walls_are(symbol: int, tag: int):
    seen = rays(played(stood((0.0, -10.0), UP + np.radians(15), symbol=symbol), RIGHT))
    assert seen[0].tolist() == pytest.approx([*np.eye(4)[tag], 0, 8 / 15])
    for ray in (3, 4):  # 70 degrees to the sides
        assert seen[ray].tolist() == pytest.approx([0, 0, 0, 0, 0, 10 / np.sin(np.radians(70)) / 15])


@pytest.mark.parametrize("left_goal", [0, 1])
def test_rays_tell_the_goals_apart_and_right_comes_before_left(left_goal: int):
    seen = rays(played(stood((0.0, 12.3), UP + np.radians(15), left_goal=left_goal), RIGHT))
    right, left = seen[1], seen[2]  # 35 degrees to the sides
    assert right[:4].tolist() == np.eye(4)[1 - left_goal].tolist()
    assert left[:4].tolist() == np.eye(4)[left_goal].tolist()
    assert right[5].item() == pytest.approx(left[5].item()) == pytest.approx(9.0 / np.cos(np.radians(35)) / 15)


def test_a_ray_that_meets_nothing_within_15_says_so():
    seen = rays(played(stood((8.0, -20.0), UP + np.radians(15)), RIGHT))
    assert seen[0].tolist() == [0, 0, 0, 0, 1, 1]


def test_from_the_goals_no_ray_ahead_meets_the_symbol():
    env = Hallway(64)
    env.reset(5)
    state = env.state_dict()
    state["place"][:, 1], state["angle"][:] = 15.0, UP
    env.load_state_dict(state)
    seen = played(env, *[FORWARD] * 64).obs[0].view(64, 5, 6)
    assert not seen[..., SYMBOL_X : SYMBOL_O + 1].any()
    assert seen[..., GOAL_X : GOAL_O + 1].any()


def test_the_symbol_and_the_walls_are_in_the_way():
    env = stood((0.0, -5.0))
    for _ in range(20):
        played(env, FORWARD)
    assert env.state_dict()["place"][0].tolist() == pytest.approx([0.0, -2.5], abs=1e-4)
    env = stood((0.0, -22.0))
    for _ in range(20):
        played(env, BACK)
    assert env.state_dict()["place"][0, 1].item() == pytest.approx(-24.5)


def test_an_episode_draws_symbols_and_goals_evenly_and_independently():
    env = Hallway(4096)
    env.reset(2)
    state = env.state_dict()
    pair = (2 * state["symbol"] + state["left_goal"]).long()
    assert (torch.bincount(pair, minlength=4) / 4096).tolist() == pytest.approx([0.25] * 4, abs=0.03)


def test_unitys_layout_shows_three_views_and_times_oldest_first():
    env = stood((0.0, -10.0), UP + np.radians(15), env=HallwayUnity(1))
    first = played(env, 1 + RIGHT)
    second = played(env, 0)
    assert first.obs[0].shape == (1, 105)
    assert torch.equal(second.obs[0][:, 35:70], first.obs[0][:, 70:])
    assert second.obs[1][0].tolist() == pytest.approx([0, 1 / 600, 2 / 600])
    assert rays(second, 7)[0].tolist() == pytest.approx([*np.eye(5)[SYMBOL_X], 0, 8 / 15])
    assert rays(second, 7)[3, :5].tolist() == np.eye(5)[4].tolist()  # a wall has a tag there


@pytest.mark.parametrize("name", ["Hallway", "HallwayUnity"])
def test_the_rule_always_finds_the_right_goal(name: str):
    env = palaestra.make(name, areas=30)
    players = Players(env, BrainAssignment([BrainSpec("heuristic")], env).brain, lambda agents: 60)
    play(env, players, 1)
    assert results(players)["Hallway"].returns.min() > 0.95
