from __future__ import annotations

import pytest
import torch

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.walljump.env import WallJump
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec
from palaestra.runtime.play.evaluation import play, results
from palaestra.runtime.play.players import Players

SMALL, BIG = 0, 1
FORWARD, JUMP = (1, 0, 0, 0), (0, 0, 0, 1)
LEAP = (1, 0, 0, 1)
AHEAD = torch.pi / 2


def laid(wall: float, agent: tuple[float, float], block: tuple[float, float] = (7, -8), plays: int = BIG, height: float = 0) -> WallJump:
    """One area with everything where it is said to be, the agent facing the wall."""
    env = WallJump(1)
    env.reset(0)
    state = env.state_dict()
    values = {"wall": wall, "agent": agent, "block": block, "angle": AHEAD, "height": height, "plays": plays, "played": plays}
    for name, value in values.items():
        state[name][0] = torch.tensor(value)
    env.load_state_dict(state)
    return env


def played(env: WallJump, choice: tuple[int, ...], decisions: int = 1) -> dict[str, TimeStep]:
    """The tables after so many of one decision, or those in which an episode ended."""
    action = Action(torch.zeros(env.num_areas, 0), torch.tensor(choice).repeat(env.num_areas, 1))
    steps = {}
    for _ in range(decisions):
        steps = env.step(dict.fromkeys(env.behaviors, action))
        if any((step.terminated | step.truncated).any() for step in steps.values()):
            break
    return steps


def place(env: WallJump) -> tuple[float, float, float]:
    """The agent's x, y and height."""
    state = env.state_dict()
    return (*state["agent"][0].tolist(), state["height"].item())


def test_an_agent_runs_forward_as_far_as_a_wall():
    env = laid(wall=2.0, agent=(0, -6))
    played(env, FORWARD, 5)
    assert -4 < place(env)[1] < -1
    played(env, FORWARD, 20)
    assert place(env) == pytest.approx((0, -1, 0), abs=1e-3)


@pytest.mark.parametrize(
    ("choice", "x", "angle"), [((0, 0, 1, 0), -1, 0), ((0, 0, 2, 0), 1, 0), ((0, 1, 0, 0), 0, 1), ((0, 2, 0, 0), 0, -1)]
)
def test_the_first_choice_of_turning_and_sidestepping_is_left(choice: tuple[int, ...], x: int, angle: int):
    env = laid(wall=2.0, agent=(0, -6))
    played(env, choice)
    assert torch.tensor(place(env)[0]).sign() == x
    assert env.state_dict()["angle"].item() == pytest.approx(AHEAD + angle * torch.pi / 9)


def test_a_jump_lifts_by_its_height_and_comes_down_again():
    env = laid(wall=2.0, agent=(0, -6))
    heights = []
    for tick in range(8):
        played(env, JUMP if tick == 0 else (0, 0, 0, 0))
        heights.append(place(env)[2])
    assert 2.4 < max(heights) < 2.8
    assert heights[-1] == 0


@pytest.mark.parametrize(("wall", "reward"), [(2.0, 1.0), (2.5, 1.0), (4.0, 0.0)])
def test_a_small_wall_is_jumped_over_and_a_big_one_is_not(wall: float, reward: float):
    env = laid(wall, agent=(0, -4))
    steps = played(env, LEAP, 40)
    assert steps["BigWallJump"].reward.item() == pytest.approx(reward - 0.0005)
    assert steps["BigWallJump"].terminated.item() == (reward > 0)


def test_a_pushed_block_stops_at_the_wall_and_leads_over_it():
    env = laid(wall=4.0, agent=(0, -8), block=(0.2, -5.5))
    played(env, FORWARD, 40)
    assert env.state_dict()["block"][0].tolist() == pytest.approx([0.2, -2])
    assert place(env) == pytest.approx((0, -4, 0), abs=1e-3)
    steps = played(env, LEAP, 40)
    assert steps["BigWallJump"].reward.item() == pytest.approx(0.9995)


@pytest.mark.parametrize(("agent", "block"), [((9.5, -4), (0, -8)), ((6.4, -8), (9.0, -8))])
def test_a_fall_of_the_agent_or_of_its_block_ends_the_episode(agent: tuple[float, float], block: tuple[float, float]):
    env = laid(wall=4.0, agent=agent, block=block)
    steps = played(env, (0, 0, 2, 0), 40)
    assert steps["BigWallJump"].reward.item() == pytest.approx(-1.0005)
    assert steps["BigWallJump"].terminated.item()


def test_an_episode_is_cut_after_400_decisions():
    env = laid(wall=2.0, agent=(0, -6), plays=SMALL)
    env.load_state_dict({**env.state_dict(), "age": torch.tensor([399], dtype=torch.int32)})
    step = played(env, (0, 0, 0, 0))["SmallWallJump"]
    assert step.truncated.item()
    assert not step.terminated.item()


def test_the_rays_tell_a_big_wall_from_a_small_one_and_show_the_block():
    low = played(laid(wall=2.0, agent=(0, -4)), (0, 0, 0, 0))["BigWallJump"].obs[0][0]
    high = played(laid(wall=4.0, agent=(0, -4)), (0, 0, 0, 0))["BigWallJump"].obs[0][0]
    block = played(laid(wall=4.0, agent=(0, -10), block=(0, -5)), (0, 0, 0, 0))["BigWallJump"].obs[0][0]
    assert low[:5].tolist() == pytest.approx([1, 0, 0, 0, 3.5 / 20])
    assert block[:5].tolist() == pytest.approx([0, 0, 1, 0, 3.5 / 20])
    upper = slice(35, 40)
    assert low[upper].tolist() == pytest.approx([0, 0, 0, 1, 1])
    assert high[upper].tolist() == pytest.approx([1, 0, 0, 0, 3.5 / 20])
    assert low[-4:].tolist() == pytest.approx([0, 0, -4 / 20, 1])


def test_the_wall_of_an_episode_decides_the_behavior():
    env = WallJump(1000)
    env.set_parameters({"big_wall_min_height": torch.full((1000,), 6.0)})
    env.reset(5)
    state = env.state_dict()
    big = state["plays"] == BIG
    assert big.float().mean().item() == pytest.approx(0.6, abs=0.05)
    assert sorted(set(state["wall"][~big].tolist())) == [0, 2]
    assert 3.0 <= state["wall"][big].min() < 3.2
    assert 3.8 < state["wall"][big].max() <= 4.0


def test_a_height_that_is_set_is_not_drawn():
    env = WallJump(100)
    env.set_parameters({"big_wall_height": torch.full((100,), 7.0), "small_wall_height": torch.full((100,), 1.5)})
    env.reset(5)
    assert sorted(set(env.state_dict()["wall"].tolist())) == [0, 0.75, 3.5]


@pytest.mark.parametrize("height", [8.0, 10.0])
def test_its_rule_passes_both_walls(height: float):
    env = WallJump(50)
    env.set_parameters({name: torch.full((50,), height) for name in ("big_wall_min_height", "big_wall_max_height")})
    players = Players(env, BrainAssignment([BrainSpec("heuristic")], env).brain, lambda agents: 100)
    play(env, players, 1)
    for found in results(players).values():
        assert (found.returns > 0.9).mean() > 0.95


def test_pictures_of_both_walls_differ():
    pictures = [laid(wall, agent=(0, -6)).render(0) for wall in (2.0, 4.0)]
    assert pictures[0].shape == pictures[1].shape
    assert (pictures[0] != pictures[1]).any()
