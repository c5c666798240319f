from __future__ import annotations

import math

import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.dungeon.env import DungeonEscape

NOTHING, FORWARD = 0, 1
WALL, AGENT, DOOR, KEY, DRAGON, PORTAL, MISSED, DISTANCE = range(8)
DEAD, ALIVE = [False, True, True], [True, True, True]


def played(env: DungeonEscape, *choices: int) -> TimeStep:
    """One decision; the choices of an area's three agents, or of all."""
    discrete = torch.tensor(choices * (3 // len(choices)) * env.num_areas)[:, None]
    return env.step({"DungeonEscape": Action(torch.zeros(len(discrete), 0), discrete)})["DungeonEscape"]


def placed(areas: int = 1, **columns: object) -> DungeonEscape:
    """Agents in a row across the middle, facing the door; the dragon below on its way to the right; or as the columns say."""
    env = DungeonEscape(areas)
    env.reset(0)
    there = {
        "position": [[-4.0, 0.0], [0.0, 0.0], [4.0, 0.0]] * areas,
        "angle": math.pi / 2,
        "dragon": [-3.0, -4.0],
        "portal": [6.0, -4.0],
        "door": 0.0,
    }
    change(env, **{**there, **columns})
    return env


def change(env: DungeonEscape, **columns: object) -> None:
    state = env.state_dict()
    for name, value in columns.items():
        state[name][:] = torch.tensor(value)
    env.load_state_dict(state)


def bereaved(**columns: object) -> DungeonEscape:
    """The first agent has given its life."""
    env = placed(dragon=[-4.0, 1.5])
    played(env, NOTHING)
    change(env, **columns)
    return env


def rays(step: TimeStep, slot: int) -> torch.Tensor:
    return step.obs[0][slot, :-1].view(15, 8)


def holds_key(step: TimeStep) -> list[float]:
    return step.obs[0][:, -1].tolist()


def test_agents_of_an_area_are_a_group():
    step = played(placed(areas=2), NOTHING)
    assert step.group.tolist() == step.area.tolist() == [0, 0, 0, 1, 1, 1]


def test_who_runs_into_the_dragon_dies_with_it_and_leaves_the_key_where_it_fell():
    env = placed(dragon=[-4.0, 3.0], position=[[-4.0, 1.2], [0.0, 0.0], [4.0, 0.0]])
    step = played(env, FORWARD, NOTHING, NOTHING)
    assert step.terminated.tolist() == [True, False, False]
    assert step.acting.tolist() == DEAD
    assert step.final_obs.slots.tolist() == [0]
    assert not step.group_reward.any()
    assert not step.reward.any()
    state = env.state_dict()
    assert not state["dragon_lives"].any()
    assert state["key_lies"].all()
    torch.testing.assert_close(state["key"], torch.tensor([[-4.0, 3.0]]), atol=0.3, rtol=0)


def test_a_dragon_that_walks_into_an_agent_dies_too():
    step = played(placed(dragon=[-5.6, 0.0], portal=[6.0, 0.0]), NOTHING)
    assert step.terminated.tolist() == [True, False, False]


def test_only_one_dies_of_two_who_meet_the_dragon_at_once():
    step = played(placed(dragon=[-2.0, 0.0], position=[[-3.5, 0.0], [-0.5, 0.0], [4.0, 0.0]]), NOTHING)
    assert step.terminated.tolist() == [True, False, False]


def test_the_dead_do_not_act_and_are_not_seen_until_the_area_starts_anew():
    env = bereaved()
    for _ in range(3):
        step = played(env, 99, NOTHING, NOTHING)  # what the dead would do is not read
        assert step.acting.tolist() == DEAD
        assert not step.terminated.any()
        assert not step.obs[0][0].any()
        assert rays(step, 1)[:, AGENT].sum() == 1  # the third: the first is gone
    change(env, age=299)
    assert played(env, NOTHING).acting.tolist() == ALIVE


def test_who_touches_the_key_holds_it_and_no_other_can_take_it():
    env = bereaved(key=[0.0, 0.7])
    step = played(env, NOTHING)
    assert holds_key(step) == [0, 1, 0]
    change(env, position=[[-4.0, 0.0], [-4.0, 0.0], [0.0, 0.7]])
    assert holds_key(played(env, NOTHING)) == [0, 1, 0]


def test_the_door_opens_to_the_key_for_the_group_and_all_start_anew():
    env = bereaved(position=[[-4.0, 0.0], [0.0, 5.0], [4.0, 0.0]], holds_key=[False, True, False], key_lies=False)
    played(env, FORWARD)
    step = played(env, FORWARD)
    assert step.group_reward.tolist() == [0, 1, 1]
    assert step.terminated.tolist() == [False, True, True]
    assert step.final_obs.slots.tolist() == [1, 2]
    assert step.final_obs.obs[0][:, -1].tolist() == [1, 0]
    assert step.acting.tolist() == ALIVE
    assert holds_key(step) == [0, 0, 0]
    assert step.obs[0][0].any()
    assert env.state_dict()["dragon_lives"].all()


@pytest.mark.parametrize("columns", [{}, {"holds_key": [False, True, False], "door": 3.5}])
def test_the_door_stays_shut_without_the_key_and_the_wall_beside_it_for_good(columns: dict[str, object]):
    env = bereaved(position=[[-4.0, 0.0], [0.0, 5.0], [4.0, 0.0]], key=[0.0, -5.0], **columns)
    for _ in range(3):
        step = played(env, FORWARD)
        assert not step.group_reward.any()
        assert not step.terminated.any()


def test_a_dragon_that_gets_away_ends_the_episode_with_nothing():
    env = placed(dragon=[4.9, -4.0])
    step = played(env, NOTHING)
    assert step.terminated.tolist() == ALIVE
    assert not step.group_reward.any()
    assert env.state_dict()["age"].tolist() == [0]


def test_time_out_cuts_the_episode_of_the_living():
    env = bereaved(age=298)
    assert not played(env, NOTHING).truncated.any()
    step = played(env, NOTHING)
    assert step.truncated.tolist() == DEAD
    assert not step.terminated.any()
    assert step.final_obs.slots.tolist() == [1, 2]


def test_who_dies_as_time_runs_out_has_ended_and_the_others_are_cut():
    step = played(placed(dragon=[-4.0, 1.5], age=299), NOTHING)
    assert step.terminated.tolist() == [True, False, False]
    assert step.truncated.tolist() == DEAD
    assert step.final_obs.slots.tolist() == [0, 1, 2]
    assert step.acting.tolist() == ALIVE


def test_rays_tell_what_is_around_in_the_order_of_unitys():
    env = placed(position=[[0.0, 0.0], [3.0, 0.0], [5.0, 4.0]], angle=0.0, dragon=[-2.5, 0.0], portal=[6.0, 4.0])
    first = rays(played(env, NOTHING), 0)
    kinds = first[:, :7].argmax(1).tolist()
    assert kinds[:3] == [AGENT, WALL, PORTAL]  # ahead, 24 degrees to the right, to the left
    assert kinds[8] == DOOR  # 96 degrees to the left
    assert kinds[13:] == [DRAGON, DRAGON]  # 168 degrees either way
    assert first[0, DISTANCE].item() == pytest.approx((3 - 0.9) / 25)
    assert first[8, DISTANCE].item() == pytest.approx(6 / math.sin(math.radians(96)) / 25)
    assert rays(played(env, NOTHING), 2)[0, PORTAL] == 1


def test_the_key_is_seen_and_the_dragon_no_more():
    env = bereaved(key=[0.0, 3.0])
    second = rays(played(env, NOTHING), 1)
    assert second[0, KEY] == 1
    assert second[0, DISTANCE].item() == pytest.approx((3 - 0.9) / 25)
    assert not second[:, DRAGON].any()


def test_nothing_but_a_death_slays_the_dragon_and_nobody_leaves_the_room():
    env = DungeonEscape(64)
    env.reset(1)
    rng = torch.Generator().manual_seed(0)
    for _ in range(300):
        env.step({"DungeonEscape": Action(torch.zeros(192, 0), torch.randint(0, 7, (192, 1), generator=rng))})
        state = env.state_dict()
        dead = (~state["acting"].view(64, 3)).sum(1)
        assert torch.equal(dead, (~state["dragon_lives"]).long())
        assert state["position"].abs().max() <= 5.5 + 1e-4
        assert state["dragon"].abs().max() <= 6


def episodes(env: DungeonEscape, ticks: int, choices: torch.Generator | None) -> tuple[int, int]:
    """Of areas: those that ended and those whose door was opened; by chance, or by the environment's own rule."""
    ended = opened = 0
    env.reset(2)
    for _ in range(ticks):
        if choices is None:
            action = env.heuristic("DungeonEscape")
        else:
            action = Action(torch.zeros(3 * env.num_areas, 0), torch.randint(0, 7, (3 * env.num_areas, 1), generator=choices))
        assert action is not None
        step = env.step({"DungeonEscape": action})["DungeonEscape"]
        ended += int((env.state_dict()["age"] == 0).sum())
        opened += int(step.group_reward.view(-1, 3).amax(1).sum())
    return ended, opened


def test_its_rule_escapes_every_time():
    ended, opened = episodes(DungeonEscape(32), 200, None)
    assert ended > 100
    assert opened == ended


def test_chance_meets_the_prize_now_and_then_so_that_it_can_be_learned():
    ended, opened = episodes(DungeonEscape(128), 600, torch.Generator().manual_seed(0))
    assert ended > 250
    assert 0.02 < opened / ended < 0.15


def test_an_action_of_the_living_that_is_no_choice_is_refused():
    with pytest.raises(EnvError, match="agent 1"):
        played(placed(), NOTHING, 7, NOTHING)
