import math

import pytest
import torch
from envs.builtin.worlds import begun

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.soccer.strikers import StrikersVsGoalie

BALL, GOAL, WALL, STRIKER, GOALIE = range(5)
NOTHING, AHEAD = (0, 0, 0), (1, 0, 0)
PLACES = [[-6.0, 4.0], [-6.0, -4.0], [8.0, 0.0]]


def discrete(*choices: tuple[int, int, int]) -> Action:
    return Action(torch.zeros(len(choices), 0), torch.tensor(choices))


def played(env: StrikersVsGoalie, *choices: tuple[int, int, int]) -> dict[str, TimeStep]:
    """One decision: the two Strikers' choices and the Goalie's, the same in all areas."""
    return env.step(
        {"Striker": discrete(*choices[:2] * env.num_areas), "Goalie": discrete(*choices[2:] * env.num_areas)}
    )


def waited(env: StrikersVsGoalie) -> dict[str, TimeStep]:
    return played(env, NOTHING, NOTHING, NOTHING)


def placed(areas: int = 1, **columns: object) -> StrikersVsGoalie:
    """All at rest: the Strikers on the left and facing the goal, which the Goalie stands in front of; or as the columns
    say.
    """
    there = {"position": PLACES, "angle": [0.0, 0.0, math.pi], "ball": [0.0, 0.0]}
    return begun(StrikersVsGoalie(areas), **{**there, **columns})


def seen(step: TimeStep, slot: int) -> torch.Tensor:
    """The rays of the newest frame, of all sensors: (14, 7) of a Striker, (41, 6) of a Goalie."""
    tags = 7 if len(step.obs) == 2 else 6
    return torch.cat([obs[slot].view(3, -1, tags)[2] for obs in step.obs])


def test_time_costs_each_striker_what_it_earns_the_goalie():
    steps = waited(placed(2))
    assert steps["Striker"].reward.tolist() == pytest.approx([-0.001] * 4)
    assert steps["Goalie"].reward.tolist() == pytest.approx([0.001] * 2)
    assert not steps["Striker"].group_reward.any()
    assert not steps["Goalie"].group_reward.any()


def test_a_goal_pays_the_strikers_less_the_time_it_took_and_costs_the_goalie_one_and_ends_the_game_of_all():
    env = placed(3, ball=[[0.0, 0.0], [15.2, 1.9], [0.0, 0.0]], age=199)
    steps = waited(env)
    strikers = steps["Striker"]
    goalies = steps["Goalie"]
    assert strikers.group_reward[2:4].tolist() == pytest.approx([1 - (199 * 5 + 1) / 5000] * 2)
    assert strikers.reward[2].item() == pytest.approx(-1 / 5000)  # of the one tick
    assert goalies.group_reward[1].item() == -1
    assert strikers.terminated.tolist() == [False, False, True, True, False, False]
    assert goalies.terminated.tolist() == [False, True, False]
    assert (strikers.final_obs.slots.tolist(), goalies.final_obs.slots.tolist()) == ([2, 3], [1])
    assert [obs.shape for obs in strikers.final_obs.obs] == [(2, 231), (2, 63)]
    assert [obs.shape for obs in goalies.final_obs.obs] == [(1, 738)]
    assert goalies.final_obs.obs[0][0].view(3, 41, 6)[2, :, BALL].any()
    assert not strikers.obs[0][2].view(3, -1)[:2].any()  # the next game begins
    assert env.state_dict()["age"].tolist() == [200, 0, 200]


def test_at_the_left_end_there_is_a_block():
    env = placed(ball=[-14.3, 0.0], ball_velocity=[-10.0, 0.0])
    assert not waited(env)["Goalie"].terminated.any()
    state = env.state_dict()
    assert state["ball"][0, 0] > -15.01 + 0.6242
    assert state["ball_velocity"][0, 0].item() == pytest.approx(0.8 * 9.8 * 0.98**4, rel=1e-4)


def test_time_out_cuts_the_episode_and_its_last_reward_says_who_kept_the_ball_out():
    env = placed(age=998)
    assert not waited(env)["Goalie"].truncated.any()
    steps = waited(env)
    for step, sign in ((steps["Striker"], -1), (steps["Goalie"], 1)):
        assert step.truncated.all()
        assert not step.terminated.any()
        assert not step.group_reward.any()
        assert step.reward.tolist() == pytest.approx([sign * 0.001] * len(step.reward))


def test_strikers_run_faster_and_the_goalie_sidesteps_as_fast_as_it_runs():
    for choice, strengths in (((1, 0, 0), (1.3, 1.0)), ((0, 1, 0), (0.3, 1.0))):
        env = placed()
        played(env, choice, NOTHING, choice)
        for player, strength in zip((0, 2), strengths, strict=True):
            speed = 0.0
            for _ in range(5):
                speed = (speed + 2 * strength) * 0.94
            assert env.state_dict()["velocity"][player].norm().item() == pytest.approx(speed, rel=1e-4)


@pytest.mark.parametrize(("player", "kicks"), [(0, False), (2, True)])
def test_the_goalie_kicks_whatever_it_does(player: int, kicks: bool):
    places = [list(place) for place in PLACES]
    places[player] = [0.0, 0.0]
    velocity = [[5.0, 0.0] if k == player else [0.0, 0.0] for k in range(3)]
    env = placed(position=places, velocity=velocity, ball=[1.1342, 0.0])
    waited(env)
    struck = 1.8 * 4.7 * 50 / 53 + (40 / 3 if kicks else 0.0)
    assert env.state_dict()["ball_velocity"][0, 0].item() == pytest.approx(struck * 0.98**4, rel=1e-4)


def test_a_striker_sees_ahead_and_behind_and_tells_its_mate_from_the_goalie():
    step = waited(placed(position=[[0.0, 0.0], [-4.0, 0.0], [8.0, 0.0]], ball=[1.5, 2.5], angle=0.0))["Striker"]
    rays = seen(step, 0)
    player = math.sqrt(1 - 0.25)
    kinds = rays[:, :6].argmax(1).tolist()
    # ahead, 12 and 48 degrees to the left, behind
    assert (kinds[0], kinds[2], kinds[8], kinds[11]) == (GOALIE, GOAL, BALL, STRIKER)
    assert kinds[12] == WALL
    assert rays[0, -1].item() == pytest.approx((8 - player) / 20)
    assert rays[11, -1].item() == pytest.approx((4 - player) / 20)
    block = seen(step, 1)[11]
    assert block[WALL] == 1
    assert block[-1].item() == pytest.approx((15.01 - 0.5 - 4) / 20)


def test_the_net_behind_a_block_that_a_striker_touches_is_a_hit_without_a_tag():
    """The net's back is 17.3723 m out. No sensor lists the left goal."""
    step = waited(placed(position=[[-14.51, 0.0], [-4.0, 0.0], [8.0, 0.0]], angle=math.pi, ball=[1.5, 2.5]))["Striker"]
    assert seen(step, 0)[0].tolist() == pytest.approx([0, 0, 0, 0, 0, 0, (17.3723 - 0.5 - 14.51) / 20], abs=1e-5)


def test_the_goalie_sees_all_around():
    env = placed(position=[[0.0, 4.0], [0.0, -4.0], [0.0, 0.0]], angle=math.pi, ball=[-4.0, 0.0])
    rays = seen(waited(env)["Goalie"], 0)
    player = math.sqrt(1 - 0.25)
    kinds = rays[:, :5].argmax(1).tolist()
    assert (kinds[0], kinds[19], kinds[20]) == (BALL, STRIKER, STRIKER)  # ahead, 90 degrees to the right, to the left
    assert kinds[39] == kinds[40] == GOAL  # right behind
    assert rays[0, -1].item() == pytest.approx((4 - math.sqrt(1.1242**2 - 0.25)) / 20)
    assert rays[19, -1].item() == pytest.approx((4 - player) / 20)
    assert rays[40, -1].item() == pytest.approx(16.856 / 20)


def test_actions_reach_the_agents_of_their_behavior():
    env = placed(2)
    env.step({"Striker": discrete(AHEAD, NOTHING, NOTHING, AHEAD), "Goalie": discrete(NOTHING, AHEAD)})
    gone = env.state_dict()["position"] - torch.tensor(PLACES * 2)
    assert gone[:, 0].sign().tolist() == [1, 0, 0, 0, 1, -1]


def test_actions_of_a_wrong_shape_or_for_one_behavior_alone_are_refused():
    env = placed(2)
    with pytest.raises(EnvError, match=r"'Goalie': actions have shape \(1, 3\), expected \(2, 3\)"):
        env.step({"Striker": discrete(*[NOTHING] * 4), "Goalie": discrete(NOTHING)})
    with pytest.raises(EnvError, match="no actions for behavior 'Goalie'"):
        env.step({"Striker": discrete(*[NOTHING] * 4)})
