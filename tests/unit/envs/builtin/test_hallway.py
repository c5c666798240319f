import numpy as np
import pytest
import torch
from envs.builtin.worlds import act, change

from palaestra.core.timestep import TimeStep
from palaestra.envs.builtin.hallway.env import Hallway

NOTHING, FORWARD, BACK, RIGHT, LEFT = range(5)
GOAL_O, GOAL_X, SYMBOL_O, SYMBOL_X, WALL = range(5)
UP = np.pi / 2
COST = 6 / 3000

# Unity's own hall, out of a recording: meters that an agent covers in decisions of going forward, from a stand
RECORDED = [0.3861, 0.9459, 1.3843, 1.7277, 1.9968]


def stood(place: tuple[float, float], angle: float = UP, symbol: int = 0, left_goal: int = 0) -> Hallway:
    """One area; the agent stands still on the floor, the symbol in the middle of the hall."""
    env = Hallway(1)
    env.reset(0)
    change(env, place=place, symbol_place=torch.zeros(2), angle=angle, symbol=symbol, left_goal=left_goal, height=0.5)
    return env


def rays(step: TimeStep) -> torch.Tensor:
    """What each ray tells, the newest frame's, (5, 7)."""
    return step.obs[0][0, -35:].view(5, 7)


def seen_from(*args, **kwargs) -> torch.Tensor:
    return rays(act(stood(*args, **kwargs), NOTHING))


@pytest.mark.parametrize(("symbol", "left_goal", "reward"), [(0, 0, 1.0), (1, 1, 1.0), (0, 1, -0.1), (1, 0, -0.1)])
def test_the_goal_of_the_symbols_mark_is_the_right_one(symbol: int, left_goal: int, reward: float):
    env = stood((-7.0, 15.0), symbol=symbol, left_goal=left_goal)
    while not (step := act(env, FORWARD)).terminated.item():
        assert step.reward.item() == pytest.approx(-COST)
    assert step.reward.item() == pytest.approx(reward)  # in place of the decision's cost
    assert not step.truncated.any()
    assert step.final_obs.slots.tolist() == [0]


def test_a_goal_is_touched_at_the_edge_of_its_plate():
    env = stood((-7.0, 18.0), left_goal=0)
    reached = 0.0
    while not (step := act(env, FORWARD)).terminated.item():
        reached = env.state_dict()["place"][0, 1].item()
    assert reached < 20.29 - 0.5  # the plate begins 20.29 from the middle
    front = step.final_obs.obs[0][0, -35:].view(5, 7)[0]
    assert front[GOAL_O] == 1
    assert front[6].item() * 12 < 0.4  # a ball before it nearly touches the plate


@pytest.mark.parametrize(
    ("choice", "turn"), [(RIGHT, -18.0), (LEFT, 18.0), (FORWARD, 0.0), (BACK, 0.0), (NOTHING, 0.0)]
)
def test_a_decision_turns_by_18_degrees_or_moves(choice: int, turn: float):
    env = stood((3.0, -12.0))
    act(env, choice)
    state = env.state_dict()
    assert np.degrees(state["angle"].item() - UP) == pytest.approx(turn, abs=1e-3)
    moved = state["place"][0].tolist()[1] + 12.0
    assert np.sign(round(moved, 6)) == {FORWARD: 1, BACK: -1}.get(choice, 0)


def test_going_forward_covers_what_unitys_recording_shows():
    env = stood((3.0, -20.0))
    at = [-20.0]
    for _ in range(12):
        act(env, FORWARD)
        at.append(env.state_dict()["place"][0, 1].item())
    covered = np.diff(at)
    assert covered[:5] == pytest.approx(RECORDED, abs=0.003)
    assert 2.7 < covered[-1] < 3.0  # recorded near the end of a long run: 2.76, 2.80, 2.84


def test_it_is_dropped_and_gains_speed_in_the_air():
    env = Hallway(1)
    env.reset(0)
    heights = [env.state_dict()["height"].item()]
    for _ in range(4):
        act(env, FORWARD)
        heights.append(env.state_dict()["height"].item())
    assert heights[0] == 1
    assert heights[1] == pytest.approx(1 - 0.1484, abs=0.005)  # 0.3924 m/s more a tick, 4 % of it lost to drag
    assert heights[-1] == pytest.approx(0.5)
    assert env.state_dict()["velocity"].norm() > 0


@pytest.mark.parametrize(("symbol", "tag"), [(0, SYMBOL_O), (1, SYMBOL_X)])
def test_rays_as_thick_as_a_ball_tell_the_symbol_and_the_walls(symbol: int, tag: int):
    seen = seen_from((0.0, -10.0), symbol=symbol)
    assert seen[0].tolist() == pytest.approx([*np.eye(5)[tag], 0, (10 - 0.5 - 0.5) / 12])
    for ray in (3, 4):  # 70 degrees to the sides
        assert seen[ray].tolist() == pytest.approx([*np.eye(5)[WALL], 0, 9.0 / np.sin(np.radians(70)) / 12])


@pytest.mark.parametrize("left_goal", [0, 1])
def test_rays_tell_the_goals_apart_and_right_comes_before_left(left_goal: int):
    seen = seen_from((0.0, 12.0), left_goal=left_goal)
    # 35 degrees to the sides
    right = seen[1]
    left = seen[2]
    assert right[:5].tolist() == np.eye(5)[1 - left_goal].tolist()
    assert left[:5].tolist() == np.eye(5)[left_goal].tolist()
    assert right[6].item() == pytest.approx(left[6].item())
    # a level ball 0.5 above the floor meets the plate's edge, 0.05 high, within 0.218 of its middle
    reach = np.sqrt(0.5**2 - 0.45**2)
    assert seen[1][6].item() * 12 * np.cos(np.radians(35)) == pytest.approx(20.29 - 12.0 - reach, abs=1e-3)


def test_a_ray_that_meets_nothing_within_12_says_so():
    assert seen_from((8.0, -20.0))[0].tolist() == [0, 0, 0, 0, 0, 1, 1]


def test_a_wall_that_the_agent_touches_is_not_seen():
    near = seen_from((0.0, 24.2))
    at = seen_from((0.0, 24.25))
    assert near[0].tolist() == pytest.approx([*np.eye(5)[WALL], 0, 0.05 / 12], abs=1e-5)
    assert at[0].tolist() == [0, 0, 0, 0, 0, 1, 1]


def test_past_the_end_of_the_next_wall_behind_one_that_the_agent_touches_there_is_nothing():
    """It looks south along the wall at x = 9.5. A ball that goes 35 degrees to the left passes the corner (10, -24.75)
    at 0.52 m.
    """
    assert seen_from((9.0, -22.2), -UP)[2].tolist() == [0, 0, 0, 0, 0, 1, 1]


def test_from_the_goals_no_ray_ahead_meets_the_symbol():
    env = Hallway(64)
    env.reset(5)
    state = env.state_dict()
    state["place"][:, 1] = 15.0
    state["angle"][:] = UP
    env.load_state_dict(state)
    seen = act(env, *[NOTHING] * 64).obs[0][:, -35:].view(64, 5, 7)
    assert not seen[..., SYMBOL_O : SYMBOL_X + 1].any()
    assert seen[..., GOAL_O : GOAL_X + 1].any()


def test_the_symbol_and_the_walls_are_in_the_way():
    env = stood((0.0, -5.0))
    for _ in range(20):
        act(env, FORWARD)
    assert env.state_dict()["place"][0].tolist() == pytest.approx([0.0, -1.0], abs=1e-3)
    env = stood((0.0, -22.0))
    for _ in range(20):
        act(env, BACK)
    assert env.state_dict()["place"][0, 1].item() == pytest.approx(-24.25, abs=1e-3)


def test_a_corner_that_strikes_a_wall_turns_the_agent():
    env = stood((0.0, -20.0), angle=np.radians(-60.0))
    for _ in range(12):
        act(env, FORWARD)
    assert abs(np.degrees(env.state_dict()["angle"].item()) + 60) > 3


def test_an_episode_draws_symbols_and_goals_evenly_and_independently():
    env = Hallway(4096)
    env.reset(2)
    state = env.state_dict()
    pair = (2 * state["symbol"] + state["left_goal"]).long()
    assert (torch.bincount(pair, minlength=4) / 4096).tolist() == pytest.approx([0.25] * 4, abs=0.03)
    marks = state["symbol"]
    x = state["symbol_place"][:, 0]
    assert x[marks == 1].unique().tolist() == pytest.approx([0.015])  # Unity's X stands in the middle, its O anywhere
    assert x[marks == 0].abs().max() > 2.9


def test_it_sees_three_frames_and_times_the_oldest_first():
    env = Hallway(1)
    step = env.reset(0)["Hallway"]
    assert not step.obs[0][:, :70].any()
    assert step.obs[1][0].tolist() == pytest.approx([0, 0, 1 / 3000])  # Unity counts the coming tick before it observes
    first = act(env, RIGHT)
    second = act(env, NOTHING)
    assert torch.equal(second.obs[0][:, 35:70], first.obs[0][:, 70:])
    assert second.obs[1][0].tolist() == pytest.approx([1 / 3000, 7 / 3000, 13 / 3000])


def test_the_rest_of_a_decision_passes_in_the_new_episode():
    env = stood((-7.0, 19.0), left_goal=0)
    while not (step := act(env, FORWARD)).terminated.item():
        pass
    state = env.state_dict()
    assert step.obs[1][0].tolist() == pytest.approx([0, 0, (state["age"].item() + 1) / 3000])
    assert state["age"].item() < 6
    assert not step.obs[0][:, :70].any()
    assert not state["velocity"].any()  # nothing was chosen


@pytest.mark.parametrize("spin", [5.0, 15.0])
def test_a_spin_is_braked_at_two_corners_and_limited(spin: float):
    # each corner holds 0.6 of the load along x and as much along y, half a meter from the middle: 1.2 m g * 1 m in all,
    # against m / 6
    brake = 6 * 1.2 * 19.62 * 0.02 * 0.96
    turned = 0.0
    speed = spin
    while speed > 0:
        speed = min(max(speed * 0.999 - brake, 0.0), 7.0)
        turned += speed * 0.02
    env = stood((0.0, -10.0))
    change(env, spin=spin)
    act(env, NOTHING)
    assert env.state_dict()["angle"].item() - UP == pytest.approx(turned, abs=5e-4)
    assert env.state_dict()["spin"].item() == 0
