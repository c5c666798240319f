from __future__ import annotations

import math

import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.soccer.strikers import StrikersVsGoalie

BALL, GOAL, WALL, STRIKER, GOALIE = range(5)
NOTHING, AHEAD = (0, 0, 0), (1, 0, 0)
PLACES = [[-3.0, 2.0], [-3.0, -2.0], [5.0, 0.0]]


def discrete(*choices: tuple[int, int, int]) -> Action:
    return Action(torch.zeros(len(choices), 0), torch.tensor(choices))


def played(env: StrikersVsGoalie, *choices: tuple[int, int, int]) -> dict[str, TimeStep]:
    """One decision: the two Strikers' choices and the Goalie's, the same in all areas."""
    return env.step({"Striker": discrete(*choices[:2] * env.num_areas), "Goalie": discrete(*choices[2:] * env.num_areas)})


def waited(env: StrikersVsGoalie) -> dict[str, TimeStep]:
    return played(env, NOTHING, NOTHING, NOTHING)


def change(env: StrikersVsGoalie, **columns: object) -> None:
    state = env.state_dict()
    for name, value in columns.items():
        state[name][:] = torch.as_tensor(value)
    env.load_state_dict(state)


def placed(areas: int = 1, **columns: object) -> StrikersVsGoalie:
    """All at rest: the Strikers on the left and facing the goal, which the Goalie stands in front of; or as the columns say."""
    env = StrikersVsGoalie(areas)
    env.reset(0)
    there = {"position": PLACES * areas, "angle": [0.0, 0.0, math.pi] * areas, "ball": [0.0, 0.0]}
    change(env, **{**there, **columns})
    return env


def seen(step: TimeStep, slot: int, rays: int) -> torch.Tensor:
    return step.obs[0][slot].view(3, rays, -1)[2]


def test_each_behavior_has_a_table_of_its_own_agents_alone():
    steps = waited(placed(2))
    strikers, goalies = steps["Striker"], steps["Goalie"]
    assert strikers.obs[0].shape == (4, 294)
    assert goalies.obs[0].shape == (2, 738)
    assert (strikers.area.tolist(), goalies.area.tolist()) == ([0, 0, 1, 1], [0, 1])
    assert (strikers.team.tolist(), goalies.team.tolist()) == ([0] * 4, [1] * 2)
    assert (strikers.group.tolist(), goalies.group.tolist()) == ([0, 0, 2, 2], [1, 3])
    assert strikers.acting.all()
    assert goalies.acting.all()


def test_time_costs_the_strikers_what_it_earns_the_goalie():
    steps = waited(placed(2))
    assert steps["Striker"].group_reward.tolist() == pytest.approx([-0.001] * 4)
    assert steps["Goalie"].group_reward.tolist() == pytest.approx([0.001] * 2)
    assert not steps["Striker"].reward.any()
    assert not steps["Goalie"].reward.any()


def test_a_goal_is_one_to_the_strikers_and_costs_the_goalie_one_and_ends_the_game_of_all():
    env = placed(3, ball_velocity=[[0.0, 0.0], [10.0, 0.0], [0.0, 0.0]], ball=[[0.0, 0.0], [5.9, 1.9], [0.0, 0.0]])
    steps = waited(env)
    strikers, goalies = steps["Striker"], steps["Goalie"]
    assert strikers.group_reward[2:4].tolist() == [1, 1]
    assert goalies.group_reward[1].item() == -1
    assert strikers.terminated.tolist() == [False, False, True, True, False, False]
    assert goalies.terminated.tolist() == [False, True, False]
    assert (strikers.final_obs.slots.tolist(), goalies.final_obs.slots.tolist()) == ([2, 3], [1])
    assert (strikers.final_obs.obs[0].shape, goalies.final_obs.obs[0].shape) == ((2, 294), (1, 738))
    assert strikers.final_obs.obs[0][0].view(3, 14, 7)[2, :, BALL].any()
    assert not strikers.obs[0][2].view(3, -1)[:2].any()  # the next game begins
    assert env.state_dict()["age"].tolist() == [1, 0, 1]


def test_at_the_left_end_there_is_a_wall():
    env = placed(ball=[-6.0, 0.0], ball_velocity=[-10.0, 0.0])
    assert not waited(env)["Goalie"].terminated.any()
    assert env.state_dict()["ball_velocity"][0, 0] > 0


def test_the_goalie_wins_when_time_is_up():
    env = placed(age=298)
    assert not waited(env)["Goalie"].terminated.any()
    steps = waited(env)
    for step, sign in ((steps["Striker"], -1), (steps["Goalie"], 1)):
        assert step.terminated.all()
        assert not step.truncated.any()
        assert step.group_reward.sign().unique().tolist() == [sign]


def test_a_striker_sees_ahead_and_behind_and_tells_its_mate_from_the_goalie():
    step = waited(placed(position=[[0.0, 0.0], [-4.0, 0.0], [4.0, 0.0]], ball=[1.5, 2.5], angle=0.0))["Striker"]
    rays = seen(step, 0, 14)
    kinds = rays[:, :6].argmax(1).tolist()
    assert (kinds[0], kinds[8], kinds[11]) == (GOALIE, BALL, STRIKER)  # ahead, 48 degrees to the left, straight behind
    assert kinds[12] == WALL
    assert rays[0, -1].item() == pytest.approx(3.1 / 20)
    assert rays[11, -1].item() == pytest.approx(3.1 / 20)
    assert seen(step, 1, 14)[11, WALL] == 1  # the left end


def test_the_goalie_sees_all_around():
    env = placed(position=[[0.0, 4.0], [0.0, -4.0], [0.0, 0.0]], angle=math.pi, ball=[-4.0, 0.0])
    rays = seen(waited(env)["Goalie"], 0, 41)
    kinds = rays[:, :5].argmax(1).tolist()
    assert (kinds[0], kinds[19], kinds[20]) == (BALL, STRIKER, STRIKER)  # ahead, 90 degrees to the right, to the left
    assert kinds[39] == kinds[40] == GOAL  # right behind
    assert rays[0, -1].item() == pytest.approx((4 - 1.15) / 20)
    assert rays[19, -1].item() == pytest.approx((4 - 0.9) / 20)
    assert rays[40, -1].item() == pytest.approx(7 / 20)


def test_actions_reach_the_agents_of_their_behavior():
    env = placed(2)
    env.step({"Striker": discrete(AHEAD, NOTHING, NOTHING, AHEAD), "Goalie": discrete(NOTHING, AHEAD)})
    gone = env.state_dict()["position"] - torch.tensor(PLACES * 2)
    assert gone[:, 0].sign().tolist() == [1, 0, 0, 0, 1, -1]


@pytest.mark.parametrize(("slot", "name", "number"), [(0, "Striker", 2), (1, "Goalie", 1)])
def test_what_is_no_choice_is_refused_with_the_behavior_and_its_agent(slot: int, name: str, number: int):
    env = placed(2)
    choices = {"Striker": [NOTHING] * 4, "Goalie": [NOTHING] * 2}
    choices[name][number] = (0, 0, 3 + slot)
    with pytest.raises(EnvError, match=rf"'{name}', agent {number}: action \[0, 0, {3 + slot}\] must be choices of branches"):
        env.step({behavior: discrete(*rows) for behavior, rows in choices.items()})


def test_actions_of_a_wrong_shape_or_for_one_behavior_alone_are_refused():
    env = placed(2)
    with pytest.raises(EnvError, match=r"'Goalie': actions have shape \(1, 3\), expected \(2, 3\)"):
        env.step({"Striker": discrete(*[NOTHING] * 4), "Goalie": discrete(NOTHING)})
    with pytest.raises(EnvError, match="no actions for behavior 'Goalie'"):
        env.step({"Striker": discrete(*[NOTHING] * 4)})


def rates(rule: str, ticks: int) -> tuple[int, int]:
    """Of games in which this behavior plays by the rule, the others by chance: how many ended, and how many by a goal."""
    env, generator = StrikersVsGoalie(48), torch.Generator().manual_seed(0)
    env.reset(1)
    change(env, age=torch.arange(48) * 5)
    ended = goals = 0
    for _ in range(ticks):
        actions = {
            name: Action(torch.zeros(slots, 0), torch.randint(0, 3, (slots, 3), generator=generator))
            for name, slots in (("Striker", 96), ("Goalie", 48))
        }
        if by_rule := env.heuristic(rule):
            actions[rule] = by_rule
        step = env.step(actions)["Goalie"]
        ended += int(step.terminated.sum())
        goals += int((step.group_reward == -1).sum())
    return ended, goals


def test_chance_scores_now_and_then_so_that_both_sides_have_something_to_learn():
    ended, goals = rates("none", 600)
    assert 0.1 < goals / ended < 0.5


def test_the_rule_of_the_strikers_beats_chance():
    ended, goals = rates("Striker", 80)
    assert goals > 0.8 * ended > 50


def test_the_rule_of_the_goalie_beats_chance():
    ended, goals = rates("Goalie", 150)
    assert goals < 0.1 * ended


def test_a_picture_is_drawn_of_any_area():
    picture = placed(2).render(1)
    assert picture.shape[2] == 3
    assert len({tuple(color) for color in picture.reshape(-1, 3).tolist()}) > 5
