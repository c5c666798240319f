from __future__ import annotations

import math
import time

import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.soccer.env import SoccerTwos

BALL, OWN, OTHER, WALL, MATE, OPPONENT, MISSED, DISTANCE = range(8)
NOTHING, AHEAD, BACK = (0, 0, 0), (1, 0, 0), (2, 0, 0)
RIGHT, LEFT, TURN_LEFT, TURN_RIGHT = (0, 1, 0), (0, 2, 0), (0, 0, 1), (0, 0, 2)
APART = [[-3.0, 3.0], [-3.0, -3.0], [3.0, 3.0], [3.0, -3.0]]


def played(env: SoccerTwos, *choices: tuple[int, int, int]) -> TimeStep:
    """One decision; the choices of an area's four players, or of all."""
    discrete = torch.tensor(choices * (4 // len(choices)) * env.num_areas)
    return env.step({"SoccerTwos": Action(torch.zeros(len(discrete), 0), discrete)})["SoccerTwos"]


def by_chance(env: SoccerTwos, generator: torch.Generator) -> TimeStep:
    slots = 4 * env.num_areas
    choices = torch.randint(0, 3, (slots, 3), generator=generator)
    return env.step({"SoccerTwos": Action(torch.zeros(slots, 0), choices)})["SoccerTwos"]


def change(env: SoccerTwos, **columns: object) -> None:
    state = env.state_dict()
    for name, value in columns.items():
        state[name][:] = torch.as_tensor(value)
    env.load_state_dict(state)


def placed(areas: int = 1, **columns: object) -> SoccerTwos:
    """Everybody at rest in a corner of a square around the ball, facing the other goal; or as the columns say."""
    env = SoccerTwos(areas)
    env.reset(0)
    there = {"position": APART * areas, "angle": [0.0, 0.0, math.pi, math.pi] * areas, "ball": [0.0, 0.0]}
    change(env, **{**there, **columns})
    return env


def rays(step: TimeStep, slot: int, view: int = 2) -> torch.Tensor:
    return step.obs[0][slot].view(3, 14, 8)[view]


def seen(step: TimeStep, slot: int) -> list[int]:
    return rays(step, slot)[:, :7].argmax(1).tolist()


def test_two_teams_of_two_are_a_group_each():
    step = played(placed(2), NOTHING)
    assert step.team.tolist() == [0, 0, 1, 1] * 2
    assert step.group.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert step.area.tolist() == [0] * 4 + [1] * 4
    assert step.acting.all()


@pytest.mark.parametrize(("end", "winners"), [(1, [0, 1]), (-1, [2, 3])])
def test_a_goal_pays_the_team_that_scores_less_the_time_it_took_and_costs_the_other_one(end: int, winners: list[int]):
    env = placed(ball=[5.9 * end, 1.0], ball_velocity=[10.0 * end, 0.0], age=299)
    step = played(env, NOTHING)
    passed = 299 * 5 + 1  # the ball is at the line on the second physics tick
    expected = [1 - passed / 3000 if slot in winners else -1 for slot in range(4)]
    assert step.group_reward.tolist() == pytest.approx(expected)
    assert not step.reward.any()
    assert step.terminated.all()
    assert not step.truncated.any()
    assert step.final_obs.slots.tolist() == [0, 1, 2, 3]
    assert env.state_dict()["age"].tolist() == [0]


def test_a_goal_on_the_last_tick_of_all_still_pays():
    step = played(placed(ball=[5.45, 0.0], ball_velocity=[10.0, 0.0], age=599), NOTHING)
    assert step.terminated.all()
    assert step.group_reward[0].item() > 0


@pytest.mark.parametrize("beside", [2.6, -2.6])
def test_a_ball_beside_the_goal_bounces_back(beside: float):
    env = placed(ball=[6.0, beside], ball_velocity=[5.0, 0.0])
    assert not played(env, NOTHING).terminated.any()
    assert env.state_dict()["ball_velocity"][0, 0] < -2


def test_time_out_cuts_the_episode_of_all_for_nothing():
    env = placed(age=598)
    assert not played(env, NOTHING).truncated.any()
    step = played(env, NOTHING)
    assert step.truncated.all()
    assert not step.terminated.any()
    assert not step.group_reward.any()
    assert step.final_obs.slots.tolist() == [0, 1, 2, 3]


def test_rays_tell_what_is_there_and_how_far_in_the_order_of_unitys():
    env = placed(position=[[0.0, 0.0], [-4.0, 0.0], [6.0, -6.0 * math.tan(math.radians(12))], [0.0, 4.0]], angle=0.0, ball=[1.5, 2.5])
    step = played(env, NOTHING)
    first = rays(step, 0)
    kinds = seen(step, 0)
    assert kinds[:3] == [OTHER, OPPONENT, OTHER]  # ahead, 12 degrees to the right, to the left
    assert kinds[8] == BALL  # 48 degrees to the left
    assert kinds[11] == MATE  # straight behind
    assert kinds[12:] == [WALL, WALL]  # 45 degrees either way from there
    assert first[0, DISTANCE].item() == pytest.approx(7 / 20)
    assert first[1, DISTANCE].item() == pytest.approx((6 / math.cos(math.radians(12)) - 0.9) / 20)
    assert first[11, DISTANCE].item() == pytest.approx((4 - 0.9) / 20)
    assert first[12, DISTANCE].item() == pytest.approx(4.5 * 2**0.5 / 20)
    assert seen(step, 2)[0] == OWN  # the other team's goal is at this end
    assert rays(step, 2)[0, DISTANCE].item() == pytest.approx(1 / 20)


def test_a_corner_is_cut_off():
    env = placed(position=[[4.0, 1.5], *APART[1:]], angle=math.pi / 4, ball=[-4.0, 0.0])
    assert rays(played(env, NOTHING), 0)[0, DISTANCE].item() == pytest.approx((10 - 5.5) / 2**0.5 / 20)
    change(env, ball=[5.2, 2.7], ball_velocity=[10.0, 10.0])
    played(env, NOTHING)
    state = env.state_dict()
    assert state["ball"].sum() <= 10 - 0.75 * 2**0.5 + 1e-4
    assert state["ball_velocity"].max() < 0


def test_three_views_are_stacked_oldest_first_and_empty_before_the_episode():
    env = SoccerTwos(2)
    now = rays(env.reset(3)["SoccerTwos"], 1)
    step = played(env, TURN_LEFT)
    assert torch.equal(rays(step, 1, 1), now)
    assert not rays(step, 1, 0).any()
    later = played(env, TURN_LEFT)
    assert torch.equal(later.obs[0].view(8, 3, -1)[:, :2], step.obs[0].view(8, 3, -1)[:, 1:])


def test_a_field_turned_around_shows_each_team_what_the_other_saw_and_pays_it_so():
    env, turned = SoccerTwos(8), SoccerTwos(8)
    env.reset(0)
    turned.reset(1)
    state = {name: column.clone() for name, column in env.state_dict().items()}
    around = torch.arange(32).view(8, 2, 2).flip(1).flatten()
    for name in ("ball", "ball_velocity", "position", "velocity"):
        state[name] = -(state[name][around] if len(state[name]) == 32 else state[name])
    state["angle"] = state["angle"][around] + math.pi
    state["obs"] = state["obs"][around]
    turned.load_state_dict(state)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        choices = torch.randint(0, 3, (32, 3), generator=generator)
        here = env.step({"SoccerTwos": Action(torch.zeros(32, 0), choices)})["SoccerTwos"]
        there = turned.step({"SoccerTwos": Action(torch.zeros(32, 0), choices[around])})["SoccerTwos"]
        torch.testing.assert_close(there.obs[0], here.obs[0][around], atol=1e-3, rtol=0)
    change(env, ball=[5.9, 1.0], ball_velocity=[10.0, 0.0])
    change(turned, ball=[-5.9, -1.0], ball_velocity=[-10.0, 0.0])
    here, there = played(env, NOTHING), played(turned, NOTHING)
    assert here.terminated.all()
    assert torch.equal(there.group_reward, here.group_reward[around])


def test_players_run_sidestep_and_turn_as_they_are_told():
    moves = {AHEAD: (1, 0), BACK: (-1, 0), RIGHT: (0, -1), LEFT: (0, 1)}
    for choice, (x, y) in moves.items():
        env = placed()
        played(env, choice, NOTHING, NOTHING, NOTHING)
        gone = env.state_dict()["position"][0] - torch.tensor(APART[0])
        assert gone.sign().tolist() == [x, y]
    for choice, sign in ((TURN_LEFT, 1), (TURN_RIGHT, -1)):
        env = placed()
        played(env, choice, NOTHING, NOTHING, NOTHING)
        assert env.state_dict()["angle"][0].item() == pytest.approx(sign * math.radians(15), abs=1e-5)


def test_who_runs_into_the_ball_kicks_it_and_who_drifts_into_it_only_pushes():
    position, velocity = [[-1.3, 0.0], *APART[1:]], [[5.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    speeds = []
    for choice in (AHEAD, NOTHING):
        env = placed(position=position, velocity=velocity)
        played(env, choice, NOTHING, NOTHING, NOTHING)
        speeds.append(env.state_dict()["ball_velocity"][0, 0].item())
    assert speeds[0] > speeds[1] + 4
    assert speeds[1] > 2


def test_the_ball_has_the_size_and_weight_of_its_area_from_the_next_episode_on():
    env = placed(2, ball_velocity=[[0.0, 3.0], [0.0, 3.0]])
    env.set_parameters({"ball_scale": torch.tensor([4.0, 10.0]), "gravity": torch.tensor([6.0, 20.0])})
    assert env.state_dict()["ball_radius"].tolist() == pytest.approx([0.75, 0.75])
    change(env, age=599)
    played(env, NOTHING)
    state = env.state_dict()
    assert state["ball_radius"].tolist() == pytest.approx([0.4, 1.0])
    change(env, ball=[0.0, 0.0], ball_velocity=[0.0, 3.0], position=APART * 2)
    played(env, NOTHING)
    lost = 3 - env.state_dict()["ball_velocity"][:, 1]
    assert lost.tolist() == pytest.approx([0.1 * 0.1 * 6, 0.1 * 0.1 * 20], abs=1e-4)


def test_nothing_leaves_the_field_or_stays_inside_another():
    env, generator = SoccerTwos(64), torch.Generator().manual_seed(0)
    env.reset(1)
    for _ in range(150):
        by_chance(env, generator)
    state = env.state_dict()
    for place, radius in ((state["position"], 0.5), (state["ball"], 0.75)):
        assert (place.abs() <= torch.tensor([7.0, 4.5]) - radius + 1e-4).all()
        assert (place.abs().sum(1) <= 10 - radius * 2**0.5 + 1e-3).all()
    gaps = torch.cdist(state["position"].view(64, 4, 2), state["position"].view(64, 4, 2)) + 9 * torch.eye(4)
    assert gaps.min() > 0.7


def test_chance_scores_now_and_then_and_for_either_team_alike():
    env, generator = SoccerTwos(128), torch.Generator().manual_seed(0)
    env.reset(1)
    won = [0, 0]
    for _ in range(600):
        step = by_chance(env, generator)
        for team in range(2):
            won[team] += int((step.group_reward[2 * team :: 4] > 0).sum())
    goals = sum(won)
    assert 80 < goals < 240
    assert abs(won[0] - won[1]) < 3.3 * goals**0.5


def test_its_rule_beats_chance():
    env, generator = SoccerTwos(32), torch.Generator().manual_seed(0)
    env.reset(1)
    won = [0, 0]
    for _ in range(150):
        rule = env.heuristic("SoccerTwos")
        assert rule is not None
        choices = torch.where((torch.arange(128) % 4 < 2)[:, None], rule.discrete, torch.randint(0, 3, (128, 3), generator=generator))
        step = env.step({"SoccerTwos": Action(torch.zeros(128, 0), choices)})["SoccerTwos"]
        for team in range(2):
            won[team] += int((step.group_reward[2 * team :: 4] > 0).sum())
    assert won[0] > 100
    assert won[1] < 0.05 * won[0]


def test_areas_do_not_hear_of_each_other():
    alone, many = SoccerTwos(1), SoccerTwos(5)
    alone.reset(4)
    many.reset(4)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        choices = torch.randint(0, 3, (20, 3), generator=generator)
        one = alone.step({"SoccerTwos": Action(torch.zeros(4, 0), choices[:4])})["SoccerTwos"]
        all_of_them = many.step({"SoccerTwos": Action(torch.zeros(20, 0), choices)})["SoccerTwos"]
        assert torch.equal(one.obs[0], all_of_them.obs[0][:4])


def test_what_is_no_choice_is_refused():
    with pytest.raises(EnvError, match=r"agent 2: action \[0, 3, 0\] must be choices of branches \(3, 3, 3\)"):
        played(placed(), NOTHING, NOTHING, (0, 3, 0), NOTHING)


def test_it_plays_more_decisions_a_second_than_a_trainer_can_take():
    env = SoccerTwos(1000)
    env.reset(0)
    action = {"SoccerTwos": Action(torch.zeros(4000, 0), torch.randint(0, 3, (4000, 3), generator=torch.Generator().manual_seed(0)))}
    env.step(action)
    start = time.process_time()
    for _ in range(20):
        env.step(action)
    assert 20 * 4000 / (time.process_time() - start) > 100_000  # 200,000 on a core that does nothing else
