import math

import pytest
import torch
from envs.builtin.worlds import act, by_chance

from palaestra.core.timestep import TimeStep
from palaestra.envs.builtin.dungeon.env import DungeonEscape

NOTHING, FORWARD = 0, 1
WALL, AGENT, DRAGON, KEY, LOCK, PORTAL, MISSED, DISTANCE = range(8)
DEAD = [False, True, True]
ALIVE = [True, True, True]
UP = math.pi / 2
AHEAD, RIGHT, LEFT = 0, 13, 14  # rays: straight ahead, furthest to the right and to the left
GATE = torch.tensor([11.58, -11.59])


def placed(areas: int = 1, **columns: object) -> DungeonEscape:
    """Agents in a row on the floor, facing the door; a slow dragon below on its way; or as the columns say."""
    env = DungeonEscape(areas)
    env.reset(0)
    there = {
        "agents": [[-4.0, 0.0], [0.0, 0.0], [4.0, 0.0]],
        "body_angle": UP,
        "body_height": 0.0,
        "dragon": [-3.0, -7.0],
        "dragon_angle": 0.0,
        "dragon_pace": 1.0,
    }
    change(env, **{**there, **columns})
    return env


def change(env: DungeonEscape, **columns: object) -> None:
    """Sets columns; `agents` are the agents' places, and `velocities` the speeds at which they move."""
    state = env.state_dict()
    names = {"agents": "body_position", "velocities": "body_velocity", "angles": "body_angle"}
    for name, value in columns.items():
        column = state[names.get(name, name)]
        (column[:, :3] if name in names else column)[:] = torch.tensor(value)
    env.load_state_dict(state)


def bereaved(**columns: object) -> DungeonEscape:
    """The first agent has given its life: it stood at (-4, 0), and the key lies a little to the right of (-4, 1.26)."""
    env = placed(dragon=[-4.0, 1.26], dragon_pace=0.0)
    act(env, NOTHING)
    change(env, **columns)
    return env


def rays(step: TimeStep, slot: int, frame: int = 2) -> torch.Tensor:
    return step.obs[1][slot].view(3, 15, 8)[frame]


def holds_key(step: TimeStep) -> list[float]:
    return step.obs[2][:, 0].tolist()


def test_who_runs_into_the_dragon_dies_with_it_and_leaves_the_key_and_a_tombstone():
    env = placed(dragon=[-4.0, 2.2], dragon_pace=0.0, dragon_angle=0.0)
    act(env, FORWARD, NOTHING, NOTHING)
    step = act(env, FORWARD, NOTHING, NOTHING)
    assert step.terminated.tolist() == [True, False, False]
    assert step.acting.tolist() == DEAD
    assert step.final_obs.slots.tolist() == [0]
    assert not step.group_reward.any()
    assert not step.reward.any()
    state = env.state_dict()
    assert not state["dragon_lives"].any()
    assert state["key_lies"].all()
    # 0.186 to the dragon's left, which looks along x
    assert state["key"][0].tolist() == pytest.approx([-4.0, 2.386], abs=1e-3)
    assert state["stone_stands"].all()
    assert state["stone"][0, 1].item() == pytest.approx(2.2 - 1.25, abs=0.3)
    assert state["stone_angle"][0].item() == pytest.approx(UP)


def test_a_dragon_that_walks_into_an_agent_dies_too():
    step = act(placed(dragon=[-5.3, 0.0], dragon_pace=7.0), NOTHING)
    assert step.terminated.tolist() == [True, False, False]


def test_only_one_dies_of_two_who_meet_the_dragon_at_once():
    step = act(placed(dragon=[-2.0, 0.0], dragon_pace=0.0, agents=[[-3.25, 0.0], [-0.75, 0.0], [4.0, 0.0]]), NOTHING)
    assert step.terminated.tolist() == [True, False, False]


def test_the_dead_do_not_act_and_are_not_seen_until_the_area_starts_anew():
    env = bereaved(
        agents=[[-4.0, 0.0], [-6.0, 0.0], [4.0, 0.0]], angles=[UP, 0.0, UP], stone_stands=False, key_lies=False
    )
    for _ in range(3):
        step = act(env, 99, NOTHING, NOTHING)  # what the dead would do is not read
        assert step.acting.tolist() == DEAD
        assert not step.terminated.any()
        assert not any(obs[0].any() for obs in step.obs)
        # the third: the first is gone
        assert rays(step, 1)[AHEAD, DISTANCE].item() == pytest.approx((10.0 - 0.5 - 0.5) / 40)
    change(env, age=2999)
    assert act(env, NOTHING).acting.tolist() == ALIVE


def test_who_touches_the_key_carries_it_and_no_other_can_take_it():
    env = bereaved(key=[0.0, 0.591], key_angle=UP)
    step = act(env, NOTHING)
    assert holds_key(step) == [0, 0, 0]  # a hair away
    change(env, key=[0.0, 0.589])
    step = act(env, NOTHING)
    assert holds_key(step) == [0, 1, 0]
    change(env, agents=[[-4.0, 0.0], [-6.0, 0.0], [0.0, 0.58]])
    assert holds_key(act(env, NOTHING)) == [0, 1, 0]


def test_the_door_opens_to_the_key_for_the_group_and_all_start_anew():
    env = bereaved(agents=[[-4.0, 0.0], [0.0, 11.0], [4.0, 0.0]], holds_key=[False, True, False], key_lies=False)
    step = act(env, FORWARD)
    if not step.terminated.any():
        step = act(env, FORWARD)
    assert step.group_reward.tolist() == [0, 1, 1]
    assert step.terminated.tolist() == [False, True, True]
    assert step.final_obs.slots.tolist() == [1, 2]
    assert step.final_obs.obs[2][:, 0].tolist() == [1, 0]
    assert step.final_obs.obs[1].view(2, 3, 15, 8)[0, 1:, AHEAD].any(1).all()
    assert step.acting.tolist() == ALIVE
    assert holds_key(step) == [0, 0, 0]
    assert not step.obs[1].view(3, 3, 120)[:, :2].any()  # no frames of the last episode
    assert env.state_dict()["dragon_lives"].all()
    assert 0 <= env.state_dict()["lead"].item() <= 4


@pytest.mark.parametrize(
    "columns", [{}, {"holds_key": [False, True, False], "agents": [[-4.0, 0.0], [4.0, 11.0], [0.0, 0.0]]}]
)
def test_the_door_stays_shut_without_the_key_and_the_wall_beside_it_for_good(columns: dict[str, object]):
    env = bereaved(**{"agents": [[-4.0, 0.0], [0.0, 11.0], [4.0, 0.0]], **columns, "key_lies": False})
    for _ in range(3):
        step = act(env, FORWARD)
        assert not step.group_reward.any()
        assert not step.terminated.any()


@pytest.mark.parametrize(("key", "left", "ends"), [(False, 2, False), (True, 2, True), (False, 1, True)])
def test_the_portal_takes_agents_and_ends_the_episode_with_the_key_or_the_last(key: bool, left: int, ends: bool):
    others = [[-4.0, 0.0], [0.0, 0.0], [10.2, -10.2]]
    env = bereaved(agents=others, holds_key=[False, False, key], key_lies=False, acting=[False, left > 1, True])
    change(env, velocities=[[0.0, 0.0], [0.0, 0.0], [10.0, -10.0]])
    step = act(env, NOTHING)
    assert not step.group_reward.any()
    assert step.terminated.tolist() == [False, ends and left > 1, True]
    assert step.acting.tolist() == (ALIVE if ends else [False, True, False])


def test_a_dragon_that_gets_away_ends_the_episode_with_nothing():
    env = placed(dragon=[10.3, -10.3], dragon_angle=-math.pi / 4, dragon_pace=7.0)
    step = act(env, NOTHING)
    assert step.terminated.tolist() == ALIVE
    assert not step.group_reward.any()
    assert env.state_dict()["age"].tolist() == [0]


def test_the_dragon_starts_on_one_of_four_sides_and_walks_straight_to_its_portal():
    env = DungeonEscape(64)
    env.reset(1)
    state = env.state_dict()
    starts = {tuple(place) for place in state["dragon"].tolist()}
    assert starts == {(0.0, 8.0), (8.0, 0.0), (0.0, -8.0), (-8.0, 0.0)}
    pace = state["dragon_pace"]
    assert 1 <= pace.min() < 2
    assert 6 < pace.max() <= 7
    act(env, NOTHING)
    walked = env.state_dict()["dragon"] - state["dragon"]
    to = GATE - state["dragon"]
    torch.testing.assert_close(walked, to / to.norm(dim=1, keepdim=True) * pace[:, None] * 0.1, atol=1e-4, rtol=0)


def test_the_dragon_gets_past_every_column():
    env = DungeonEscape(64)
    env.reset(1)
    change(env, dragon_pace=7.0, agents=[[-11.0, -11.0], [-11.0, 0.0], [-11.0, 11.0]])
    begun = torch.zeros(64, dtype=torch.bool)
    for _ in range(40):
        act(env, NOTHING)
        begun |= env.state_dict()["age"] == 0
    assert begun.all()  # 23 m at 7 m/s take 33 decisions


def test_who_dies_as_time_runs_out_has_ended_and_the_others_are_truncated():
    step = act(placed(dragon=[-4.0, 1.26], dragon_pace=0.0, age=2999), NOTHING)
    assert step.terminated.tolist() == [True, False, False]
    assert step.truncated.tolist() == DEAD
    assert step.final_obs.slots.tolist() == [0, 1, 2]
    assert step.acting.tolist() == ALIVE


def test_rays_tell_what_is_around_in_the_order_of_unitys():
    env = placed(agents=[[0.0, 0.0], [3.0, 0.0], [-8.0, -8.0]], angles=0.0, dragon=[-10.0, 0.0], dragon_pace=0.0)
    step = act(env, NOTHING)
    first = rays(step, 0)
    assert first[AHEAD].tolist() == pytest.approx([0, 1, 0, 0, 0, 0, 0, (3 - 0.5 - 0.5) / 40])
    # 60 degrees to the right and to the left: the walls, each for a ball of 0.5 m
    far = 12 / math.sin(math.radians(60)) / 40
    assert first[RIGHT].tolist() == pytest.approx([1, 0, 0, 0, 0, 0, 0, far])
    assert first[LEFT].tolist() == pytest.approx([1, 0, 0, 0, 0, 0, 0, far])
    # the ninth and tenth ray lead 42.9 degrees aside, past a corner of the foot of a column 4.5 ahead and 4 aside
    foot = first[9]
    assert foot[WALL] == 1
    assert 4.0 < foot[DISTANCE].item() * 40 < 5.5
    assert first[9, DISTANCE].item() == pytest.approx(first[10, DISTANCE].item())
    assert not first[:, DRAGON].any()  # it is behind
    third = rays(step, 2)
    assert third[AHEAD, PORTAL] == 0
    assert (
        rays(act(placed(angles=-math.pi / 4, agents=[[4.0, -8.0], [-9.0, 9.0], [-9.0, 3.0]]), NOTHING), 0)[AHEAD, WALL]
        == 1
    )


def test_rays_see_lock_portal_and_the_key_before_the_dragon():
    env = placed(
        agents=[[0.0, 6.0], [6.0, -9.0], [-9.0, 0.0]],
        angles=[UP, -0.5, 0.0],
        dragon=[-4.0, -0.1],
        dragon_angle=math.pi,
        dragon_pace=0.0,
    )
    step = act(env, NOTHING)
    lock = rays(step, 0)[AHEAD]
    assert lock[LOCK] == 1
    assert lock[DISTANCE].item() == pytest.approx((12.066 - 6.0 - 0.5) / 40, abs=1e-4)
    assert rays(step, 1)[AHEAD, PORTAL] == 1
    key = rays(step, 2)[AHEAD]
    assert key[KEY] == 1
    assert key[DISTANCE].item() == pytest.approx((5.0 - 0.94 - 0.0895 - 0.5) / 40, abs=1e-3)
    change(env, dragon_angle=0.0)  # it turns its back
    assert rays(act(env, NOTHING), 2)[AHEAD, DRAGON] == 1


def test_a_fallen_key_and_a_tombstone_are_seen_and_the_dragon_no_more():
    env = bereaved(
        key=[0.0, 3.0], key_angle=UP, agents=[[-4.0, 0.0], [0.0, 0.0], [8.0, -3.0]], stone=[8.0, 0.0], stone_angle=UP
    )
    step = act(env, NOTHING)
    key = rays(step, 1)[AHEAD]
    stone = rays(step, 2)[AHEAD]
    assert key[KEY] == 1
    assert key[DISTANCE].item() == pytest.approx((3 - 0.0895 - 0.5) / 40, abs=1e-3)
    assert stone[WALL] == 1
    assert stone[DISTANCE].item() == pytest.approx((3 - 0.164 - 0.5) / 40, abs=1e-3)
    assert not step.obs[1].view(3, 3, 15, 8)[1:, 2, :, DRAGON].any()


def test_rays_pass_what_touches_the_agent():
    env = placed(agents=[[6.0, 12.0], [0.0, 0.0], [1.0, 0.0]], angles=[UP, 0.0, 0.0])
    step = act(env, NOTHING)
    assert rays(step, 0)[AHEAD, MISSED] == 1
    assert rays(step, 1)[AHEAD, WALL] == 1


@pytest.mark.parametrize(("y", "met"), [(11.5, None), (11.7, 0.60083)])
def test_the_end_of_the_next_wall_behind_one_that_an_agent_touches_is_round(y: float, met: float | None):
    """It looks along the wall at x = 12.5. A ball 60 degrees to the right touches the other wall's corner (12.5, 12.5)
    or misses it.
    """
    step = act(placed(agents=[[12.0, y], [0.0, 0.0], [4.0, 0.0]]), NOTHING)
    expected = [0.0] * 6 + [1, 1] if met is None else [1.0] + [0] * 6 + [met / 40]
    assert rays(step, 0)[RIGHT].tolist() == pytest.approx(expected, abs=1e-5)


def test_columns_lock_and_tombstone_stop_agents():
    env = bereaved(
        agents=[[0.0, 0.0], [4.5, -2.5], [-4.0, -3.0]],
        angles=[UP, -UP, UP],
        key_lies=False,
        stone=[-4.0, 0.0],
        stone_angle=UP,
    )
    for _ in range(6):
        act(env, NOTHING, FORWARD, FORWARD)
    place = env.state_dict()["body_position"][0]
    assert place[1].tolist() == pytest.approx([4.5, -4.0 + 0.8475 + 0.5], abs=0.02)
    assert place[2, 1].item() == pytest.approx(-0.259 - 0.5, abs=0.02)
    change(env, agents=[[0.0, 0.0], [0.0, 8.0], [-9.0, -3.0]], angles=[UP, UP, UP])
    for _ in range(6):
        act(env, NOTHING, FORWARD, NOTHING)
    assert env.state_dict()["body_position"][0, 1, 1].item() == pytest.approx(12.066 - 0.5, abs=0.02)


def test_agents_start_apart_and_away_from_columns():
    env = DungeonEscape(256)
    env.reset(0)
    place = env.state_dict()["body_position"][:, :3]
    assert place.abs().max() <= 6.25
    apart = (place[:, :, None] - place[:, None]).abs().amax(3) + 10 * torch.eye(3)
    assert apart.min() >= 2.5 + 0.5 * 0.7
    column = (place.abs() - torch.tensor([4.5, 4.0])).abs() - 2.5
    assert column.clamp(min=0).norm(dim=2).min() >= 0.718 - 1e-4


def test_nothing_but_a_death_slays_the_dragon_and_nobody_leaves_the_room():
    env = DungeonEscape(64)
    env.reset(1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        by_chance(env, generator)
        state = env.state_dict()
        assert torch.equal(state["stone_stands"], ~state["dragon_lives"])
        lives = state["acting"].view(64, 3)
        assert ((~lives).sum(1) >= (~state["dragon_lives"]).long()).all()
        assert state["body_position"][:, :3][lives].abs().max() <= 12.7


def test_chance_meets_the_prize_now_and_then_so_that_it_can_be_learned():
    env = DungeonEscape(128)
    env.reset(2)
    generator = torch.Generator().manual_seed(0)
    ended = opened = 0
    for _ in range(600):
        step = by_chance(env, generator)
        ended += int((env.state_dict()["age"] == 0).sum())
        opened += int(step.group_reward.view(-1, 3).amax(1).sum())
    assert ended > 150
    assert 0.02 < opened / ended < 0.3
