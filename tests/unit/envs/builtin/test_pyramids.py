from __future__ import annotations

import numpy as np
import pytest
import torch

import palaestra
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.pyramids.env import Pyramids
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec
from palaestra.runtime.play.evaluation import play, results
from palaestra.runtime.play.players import Players

FORWARD, BACK, RIGHT, LEFT = range(4)
NOTHING, SWITCH, BRICKS, PYRAMID, RUBBLE = range(5)
SWITCH_OFF, SWITCH_ON, BRICK, GOLDEN, WALL = range(5)
UP = np.pi / 2


def played(env: Pyramids, *choices: int) -> TimeStep:
    return env.step({"Pyramids": Action(torch.zeros(len(choices), 0), torch.tensor(choices)[:, None])})["Pyramids"]


def stood(place: tuple[float, float], angle: float = UP, **things: int) -> Pyramids:
    """One area, empty but for the things in the middle of the rooms named, such as `room4=SWITCH`; a pyramid would appear in room 8."""
    env = Pyramids(1)
    env.reset(0)
    state = env.state_dict()
    state["thing"].zero_()
    for room in range(9):
        state["thing"][0, room] = things.get(f"room{room}", NOTHING)
        state["thing_place"][0, room] = torch.tensor([13.0 * (room % 3 - 1), 13.0 * (room // 3 - 1)])
    state["place"][0], state["angle"][0], state["prize_room"][0] = torch.tensor(place), angle, 8
    env.load_state_dict(state)
    return env


def fans(step: TimeStep) -> torch.Tensor:
    """What each ray of each fan tells, (3, 7, 7)."""
    return step.obs[0][0, :147].view(3, 7, 7)


def gone(env: Pyramids, decisions: int, choice: int = FORWARD) -> TimeStep:
    """After so many decisions of one choice, or the end of the episode."""
    step = played(env, choice)
    while decisions > 1 and not step.terminated.any():
        step, decisions = played(env, choice), decisions - 1
    return step


def test_touching_the_switch_makes_the_pyramid_appear():
    env = stood((0.0, -3.0), room4=SWITCH)
    step = played(env, LEFT)
    assert step.obs[0][0, 147].item() == 0
    assert not (env.state_dict()["thing"] == PYRAMID).any()
    env = stood((0.0, -3.0), room4=SWITCH)
    step = gone(env, 5)
    assert step.obs[0][0, 147].item() == 1
    assert env.state_dict()["thing"][0].tolist() == [0, 0, 0, 0, SWITCH, 0, 0, 0, PYRAMID]
    assert fans(step)[0, 0, :5].tolist() == np.eye(5)[SWITCH_ON].tolist()
    assert step.reward.item() == pytest.approx(-0.001)


def test_a_pyramid_falls_when_touched_and_its_golden_brick_is_the_prize():
    env = stood((0.0, -4.0), room4=PYRAMID)
    step = gone(env, 6)
    state = env.state_dict()
    assert state["thing"][0, 4].item() == RUBBLE
    assert not step.terminated.any()
    assert state["golden"][0].norm().item() == pytest.approx(3.5)
    assert state["golden"][0, 1].item() > 0  # to the far side
    state["golden"][0] = torch.tensor([0.0, 3.5])
    state["place"][0], state["velocity"][0] = torch.tensor([0.0, 6.0]), 0.0
    env.load_state_dict(state)
    step = gone(env, 10, BACK)
    assert step.reward.item() == 2.0
    assert step.terminated.item()
    assert not step.truncated.any()


def test_an_episode_is_cut_after_1000_decisions_which_is_no_end():
    env = stood((0.0, 0.0))
    state = env.state_dict()
    state["age"][:] = 998
    env.load_state_dict(state)
    assert not played(env, RIGHT).truncated.any()
    step = played(env, RIGHT)
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.reward.item() == pytest.approx(-0.001)


@pytest.mark.parametrize(
    ("thing", "tags"),
    [(SWITCH, [SWITCH_OFF, SWITCH_OFF, WALL]), (BRICKS, [BRICK] * 3), (PYRAMID, [BRICK, BRICK, GOLDEN]), (NOTHING, [WALL] * 3)],
)
def test_each_fan_sees_what_stands_at_its_height(thing: int, tags: list[int]):
    third = np.radians(70 / 9)
    for fan, lean in enumerate((0.0, third, -third)):  # its middle ray looks at the thing
        seen = fans(played(stood((0.0, -3.0), UP - lean + np.radians(20), room4=thing), RIGHT))
        assert seen[fan, 0].tolist()[:5] == np.eye(5)[tags[fan]].tolist()


def test_what_has_fallen_is_seen_by_the_lowest_fan_alone():
    env = stood((0.0, -5.0), UP + np.radians(20), room4=RUBBLE)
    state = env.state_dict()
    state["golden"][0] = torch.tensor([0.0, -3.5])
    env.load_state_dict(state)
    seen = fans(played(env, RIGHT))
    assert seen[0, 0].tolist() == pytest.approx([*np.eye(5)[GOLDEN], 0, 0.7 / 30])
    assert not seen[1:, :, BRICK : GOLDEN + 1].any()


def test_rays_pass_through_doors_and_end_at_30():
    seen = fans(played(stood((0.0, -13.0), UP + np.radians(20), room7=BRICKS), RIGHT))
    assert seen[0, 0].tolist() == pytest.approx([*np.eye(5)[BRICK], 0, (26 - 1.6) / 30])
    seen = fans(played(stood((0.0, -13.0), UP + np.radians(20)), RIGHT))
    assert seen[0, 0].tolist() == [0, 0, 0, 0, 0, 1, 1]
    seen = fans(played(stood((3.0, -13.0), UP + np.radians(20)), RIGHT))  # beside the door
    assert seen[0, 0].tolist() == pytest.approx([*np.eye(5)[WALL], 0, 6.5 / 30])


@pytest.mark.parametrize(("x", "y"), [(0.0, 19.0), (3.0, 6.0), (1.8, 6.6)])
def test_walls_hold_the_agent_and_doors_let_it_through(x: float, y: float):
    env = stood((x, 0.0))
    gone(env, 60)
    reached = env.state_dict()["place"][0].tolist()
    if x == 1.8:  # it grazes the door's post, slides past and goes on
        assert reached[1] == pytest.approx(19.0)
    else:
        assert reached == pytest.approx([x, y], abs=1e-4)


def test_an_episode_deals_a_room_to_the_agent_one_to_the_switch_and_keeps_one_for_the_pyramid():
    env = Pyramids(512)
    env.reset(4)
    state = env.state_dict()
    thing = state["thing"]
    assert ((thing == SWITCH).sum(1) == 1).all()
    assert ((thing == BRICKS).sum(1) == 6).all()
    prize = thing.gather(1, state["prize_room"].long()[:, None])
    assert (prize == NOTHING).all()
    counts = torch.bincount(state["prize_room"].long(), minlength=9) / 512
    assert counts.tolist() == pytest.approx([1 / 9] * 9, abs=0.06)


def test_the_rule_takes_the_golden_brick_in_nearly_every_episode_and_reaches_the_benchmark():
    env = palaestra.make("Pyramids", areas=100)
    players = Players(env, BrainAssignment([BrainSpec("heuristic")], env).brain, lambda agents: 100)
    play(env, players, 1)
    returns = results(players)["Pyramids"].returns
    assert returns.mean() > 1.85
    assert returns.min() > 1.5
