import math

import pytest
import torch
from envs.builtin.worlds import act, begun, by_chance, change

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.soccer.env import SoccerTwos

BALL, OWN, OTHER, WALL, MATE, OPPONENT, MISSED, DISTANCE = range(8)
NOTHING, AHEAD, BACK = (0, 0, 0), (1, 0, 0), (2, 0, 0)
RIGHT, LEFT, TURN_LEFT, TURN_RIGHT = (0, 1, 0), (0, 2, 0), (0, 0, 1), (0, 0, 2)
APART = [[-9.0, 4.0], [-9.0, -4.0], [9.0, 4.0], [9.0, -4.0]]
STILL = [[0.0, 0.0]] * 4


def placed(areas: int = 1, **columns: object) -> SoccerTwos:
    """Everybody at rest in a corner of a rectangle around the ball, facing the other goal; or as the columns say."""
    there = {"position": APART, "angle": [0.0, 0.0, math.pi, math.pi], "ball": [0.0, 0.0]}
    return begun(SoccerTwos(areas), **{**there, **columns})


def rays(step: TimeStep, slot: int, frame: int = 2) -> torch.Tensor:
    """The 11 rays ahead and the 3 behind of one frame, (14, 8)."""
    return torch.cat([obs[slot].view(3, -1, 8)[frame] for obs in step.obs])


def seen(step: TimeStep, slot: int) -> list[int]:
    return rays(step, slot)[:, :7].argmax(1).tolist()


def run_up(ticks: int, push: float = 2.0) -> tuple[float, float]:
    """Speed and way of a player who starts at rest: a push and a drag of 3/s each tick of 0.02 s."""
    speed = way = 0.0
    for _ in range(ticks):
        speed = (speed + push) * 0.94
        way += speed * 0.02
    return speed, way


def test_an_episode_begins_with_each_team_in_its_half_and_the_ball_near_the_middle():
    env = SoccerTwos(500)
    env.reset(5)
    state = env.state_dict()
    place = state["position"].view(-1, 4, 2)
    angle = state["angle"].view(-1, 4)
    ball = state["ball"]
    assert place[..., 1].unique().tolist() == pytest.approx([-1.2, 1.2])
    assert (place[:, 0, 1] == -place[:, 1, 1]).all()
    left = place[:, :2, 0]
    right = place[:, 2:, 0]
    assert (left.min().item(), left.max().item()) == pytest.approx((-13.19, -3.19), abs=0.05)
    assert (right.min().item(), right.max().item()) == pytest.approx((3.19, 13.19), abs=0.05)
    assert angle[:, :2].abs().max().item() == pytest.approx(math.radians(10), abs=0.01)
    assert (angle[:, 2:] - math.pi).abs().max().item() == pytest.approx(math.radians(10), abs=0.01)
    assert ball.abs().amax(0).tolist() == pytest.approx([2.5, 2.5], abs=0.05)


# the floor of a goal begins at 15.5, half a meter below the ball's middle; the ball touches it from 0.6442 m away
@pytest.mark.parametrize(("end", "winners"), [(1, [0, 1]), (-1, [2, 3])])
def test_a_goal_pays_the_team_that_scores_less_the_time_it_took_and_costs_the_other_one(end: int, winners: list[int]):
    touching = 15.5 - math.sqrt(0.6442**2 - 0.5**2)
    env = placed(ball=[end * (touching - 0.01), 1.0], ball_velocity=[0.0, 0.0], age=299, lead=2)
    assert not act(env, NOTHING).terminated.any()
    change(env, ball=[end * (touching + 0.001), 1.0])
    step = act(env, NOTHING)
    passed = 300 * 5 + 2 + 1
    expected = [1 - passed / 5000 if slot in winners else -1 for slot in range(4)]
    assert step.group_reward.tolist() == pytest.approx(expected)
    assert not step.reward.any()
    assert step.terminated.all()
    assert not step.truncated.any()
    assert step.final_obs.slots.tolist() == [0, 1, 2, 3]


def test_what_is_left_of_a_decision_after_a_goal_passes_in_the_next_episode_without_actions():
    env = placed(ball=[15.2, 0.0])
    step = act(env, AHEAD)
    state = env.state_dict()
    assert step.terminated.all()
    assert (state["age"].tolist(), state["lead"].tolist()) == ([0], [4])
    assert not state["velocity"].any()
    # the last observation is of the tick of the goal; the new episode's first is its only frame
    assert step.final_obs.obs[0].view(4, 3, -1)[:, 1].any()
    assert not step.obs[0].view(4, 3, -1)[:, :2].any()
    assert step.obs[0].view(4, 3, -1)[:, 2].any()


def test_a_goal_is_found_on_the_tick_after_the_ball_got_there():
    touching = 15.5 - math.sqrt(0.6442**2 - 0.5**2)
    for ticks, back in ((1, 0.01), (2, 0.2)):  # 10 m/s less what the floor holds: some 0.17 m a tick
        env = placed(ball=[touching - back, 1.0], ball_velocity=[10.0, 0.0])
        assert act(env, NOTHING).terminated.all()
        assert env.state_dict()["lead"].item() == 5 - ticks - 1


def test_a_goal_on_the_last_tick_before_time_is_up_still_pays():
    step = act(placed(ball=[15.2, 0.0], age=999, lead=3), NOTHING)
    assert step.terminated.all()
    assert step.group_reward[0].item() == pytest.approx(1 - 4999 / 5000, abs=1e-6)


@pytest.mark.parametrize("beside", [4.4, -4.4])
def test_a_ball_beside_the_goal_bounces_back(beside: float):
    env = placed(ball=[14.0, beside], ball_velocity=[10.0, 0.0])
    assert not act(env, NOTHING).terminated.any()
    state = env.state_dict()
    assert state["ball_velocity"][0, 0] < 0
    assert state["ball_velocity"][0, 1] * beside < 0  # the wall slants toward the goal


def test_a_ball_that_slides_along_the_slanting_wall_to_the_net_is_in():
    # it touches the wall and, 0.02 m away, the net's end at (15.47, 4.15)
    slide = math.sqrt(0.6442**2 - (0.6242 - (15.49738 - 15.47 * 0.8660254 - 4.15 * 0.5)) ** 2)
    foot = 15.47 * 0.5 - 4.15 * 0.8660254  # the net's end along the wall
    for along, is_in in ((foot - slide + 0.01, True), (foot - slide - 0.01, False)):
        off = 15.49738 - 0.6242
        env = placed(ball=[0.8660254 * off + 0.5 * along, 0.5 * off - 0.8660254 * along])
        assert act(env, NOTHING).terminated.all().item() is is_in


def test_ticks_before_the_first_decision_count_toward_the_time_limit():
    env = placed(age=999, lead=2)
    assert act(env, AHEAD).truncated.all()
    state = env.state_dict()
    assert state["lead"].tolist() == [2]  # time was up on the third tick of five
    assert not state["velocity"].any()


def test_rays_tell_what_is_there_and_how_far_in_the_order_of_unitys():
    # opponents straight ahead and 12 degrees to the right, the mate to the left of the way back, the ball 48 degrees to
    # the left
    right = [6.0, -6.0 * math.tan(math.radians(12))]
    env = placed(
        position=[[0.0, 0.0], [-4.0, 4.0], [8.0, 0.0], right], angle=0.0, ball=[2.0, 2.0 * math.tan(math.radians(48))]
    )
    step = act(env, NOTHING)
    first = rays(step, 0)
    kinds = seen(step, 0)
    # half a meter above their middles
    ball = math.sqrt(1.1242**2 - 0.25)
    player = math.sqrt(1 - 0.25)
    assert kinds == [OPPONENT, OPPONENT, OTHER, WALL, WALL, WALL, BALL, WALL, BALL, WALL, BALL, OWN, MATE, WALL]
    assert first[0, DISTANCE].item() == pytest.approx((8 - player) / 20)
    assert first[1, DISTANCE].item() == pytest.approx((6 / math.cos(math.radians(12)) - player) / 20)
    assert first[2, DISTANCE].item() == pytest.approx(16.856 / math.cos(math.radians(12)) / 20)  # the net's back
    assert first[3, DISTANCE].item() == pytest.approx(14.99738 / math.cos(math.radians(6)) / 20)  # the slanting wall
    assert first[9, DISTANCE].item() == pytest.approx(7.008 / math.sin(math.radians(60)) / 20)  # side wall
    assert first[8, DISTANCE].item() == pytest.approx((2 / math.cos(math.radians(48)) - ball) / 20)
    assert first[11, DISTANCE].item() == pytest.approx(16.8723 / 20)
    assert first[12, DISTANCE].item() == pytest.approx((4 * 2**0.5 - player) / 20)
    assert first[13, DISTANCE].item() == pytest.approx(7.008 * 2**0.5 / 20)
    assert not first[:, MISSED].any()


def test_nothing_within_20_meters_is_nothing():
    first = rays(act(placed(position=[[-9.0, 0.0], *APART[1:]], ball=[-9.0, 5.0]), NOTHING), 0)
    assert first[0].tolist() == [0] * 6 + [1, 1]


def test_a_wall_that_a_player_touches_is_not_seen():
    env = placed(position=[[0.0, 7.0], *APART[1:]], angle=math.pi / 2)
    assert seen(act(env, NOTHING), 0)[0] == WALL
    change(env, position=[[0.0, 7.008], *APART[1:]])
    assert seen(act(env, NOTHING), 0)[0] == MISSED


def test_each_team_calls_its_own_goal_its_own():
    step = act(placed(position=[[5.0, 0.0], [-12.0, 1.0], [-5.0, 0.0], [12.0, 1.0]], angle=0.0), NOTHING)
    assert (seen(step, 0)[0], seen(step, 2)[11]) == (OTHER, OTHER)
    assert seen(step, 3)[0] == OWN


def test_a_field_turned_around_shows_each_team_what_the_other_saw_and_pays_it_so():
    env = SoccerTwos(8)
    turned = SoccerTwos(8)
    env.reset(0)
    turned.reset(1)
    state = {name: column.clone() for name, column in env.state_dict().items()}
    around = torch.arange(32).view(8, 2, 2).flip(1).flatten()
    for name in ("ball", "ball_velocity", "position", "velocity"):
        state[name] = -(state[name][around] if len(state[name]) == 32 else state[name])
    state["angle"] = state["angle"][around] + math.pi
    for name in ("obs_ahead", "obs_behind"):
        state[name] = state[name][around]
    turned.load_state_dict(state)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        choices = torch.randint(0, 3, (32, 3), generator=generator)
        here = env.step({"SoccerTwos": Action(torch.zeros(32, 0), choices)})["SoccerTwos"]
        there = turned.step({"SoccerTwos": Action(torch.zeros(32, 0), choices[around])})["SoccerTwos"]
        for mine, theirs in zip(here.obs, there.obs, strict=True):  # Unity's nets differ by 0.03 m
            assert ((theirs - mine[around]).abs() < 2e-3).float().mean() > 0.99
    change(env, ball=[14.8, 1.0], ball_velocity=[10.0, 0.0])
    change(turned, ball=[-14.8, -1.0], ball_velocity=[-10.0, 0.0])
    here = act(env, NOTHING)
    there = act(turned, NOTHING)
    assert here.terminated.all()
    assert torch.equal(there.group_reward, here.group_reward[around])


def test_players_run_sidestep_and_turn_as_they_are_told():
    (_, ahead), (_, aside) = run_up(5), run_up(5, 0.6)
    ways = {AHEAD: (ahead, 0), BACK: (-ahead, 0), RIGHT: (0, -aside), LEFT: (0, aside), (1, 1, 0): (0, -aside)}
    for choice, way in ways.items():
        env = placed()
        act(env, choice, NOTHING, NOTHING, NOTHING)
        gone = env.state_dict()["position"][0] - torch.tensor(APART[0])
        assert gone.tolist() == pytest.approx(way, abs=1e-5)
    for choice, sign in ((TURN_LEFT, 1), (TURN_RIGHT, -1)):
        env = placed()
        act(env, choice, NOTHING, NOTHING, NOTHING)
        assert env.state_dict()["angle"][0].item() == pytest.approx(sign * math.radians(10), abs=1e-5)


def test_a_turn_changes_the_direction_of_the_next_tick():
    env = placed()
    act(env, (1, 0, 1), NOTHING, NOTHING, NOTHING)
    velocity = 0j
    for tick in range(5):
        velocity = (velocity + 2 * complex(math.cos(math.radians(2 * tick)), math.sin(math.radians(2 * tick)))) * 0.94
    assert env.state_dict()["velocity"][0].tolist() == pytest.approx([velocity.real, velocity.imag], abs=1e-4)


# the player meets the ball on the first tick, 0.01 m away: 1.8 times its speed of approach, shared by 50 and 3 kg; from
# the next tick on
# the kick adds 2000 N * 0.02 s / 3 kg
@pytest.mark.parametrize(
    ("choice", "push", "kick"), [(AHEAD, 2.0, 40 / 3), (NOTHING, 0.0, 0.0), ((1, 1, 0), 0.0, 40 / 3)]
)
def test_who_runs_into_the_ball_kicks_it_and_who_drifts_into_it_only_pushes(
    choice: tuple[int, int, int], push: float, kick: float
):
    env = placed(position=[[0.0, 0.0], *APART[1:]], velocity=[[5.0, 0.0], *STILL[1:]], ball=[1.1342, 0.0])
    act(env, choice, NOTHING, NOTHING, NOTHING)
    struck = 1.8 * (5 + push) * 0.94 * 50 / 53
    assert env.state_dict()["ball_velocity"][0, 0].item() == pytest.approx(
        (struck + kick) * 0.98**4, rel=0.01 if choice[1] else 1e-4
    )


def test_a_player_who_keeps_in_touch_kicks_only_once():
    env = placed(position=[[0.0, 0.0], *APART[1:]], ball=[1.13, 0.0], touches=[1, 0, 0, 0])
    act(env, AHEAD, NOTHING, NOTHING, NOTHING)
    assert env.state_dict()["ball_velocity"][0, 0].item() < 10
    assert not env.state_dict()["kick"].any()


def test_a_kick_leads_from_the_player_after_the_tick_to_where_it_touched_before():
    # the ball lies at 45 degrees; the player runs on, so the kick turns aside
    far = 1.1342 / 2**0.5
    env = placed(position=[[0.0, 0.0], *APART[1:]], velocity=[[8.0, 0.0], *STILL[1:]], ball=[far, far])
    act(env, AHEAD, NOTHING, NOTHING, NOTHING)
    velocity = env.state_dict()["ball_velocity"][0]
    assert math.degrees(math.atan2(velocity[1], velocity[0])) > 47


@pytest.mark.parametrize("spin", [0.0, 5.0])
def test_the_ball_bounces_off_a_wall_with_eight_tenths_and_friction(spin: float):
    env = placed(ball=[0.0, 6.8], ball_velocity=[0.0, 10.0], ball_spin=spin)
    act(env, NOTHING)
    state = env.state_dict()
    assert state["ball_velocity"][0, 1].item() == pytest.approx(-0.8 * 9.8 * 0.98**4, rel=1e-4)
    # friction may take 0.6 of the push of 1.8 * 9.8; to stop the slip takes two sevenths of it, as for any solid ball
    pull = 0.98 * spin * 0.6242 / 3.5
    assert state["ball_velocity"][0, 0].item() == pytest.approx(pull * 0.98**4, rel=1e-4)
    assert state["ball_spin"][0].item() == pytest.approx((0.98 * spin - 2.5 * pull / 0.6242) * 0.98**4, rel=1e-4)


def test_the_ball_spins_at_7_radians_a_second_at_most():
    env = placed(ball_velocity=[3.0, 0.0], ball_spin=-20.0)
    act(env, NOTHING)
    assert env.state_dict()["ball_spin"][0].item() == pytest.approx(-7 * 0.98**4, rel=1e-5)


def test_a_slow_ball_does_not_bounce():
    env = placed(ball=[0.0, 6.86], ball_velocity=[0.0, 1.9])
    act(env, NOTHING)
    assert env.state_dict()["ball"][0, 1].item() == pytest.approx(7.508 - 0.6242, abs=1e-3)
    assert env.state_dict()["ball_velocity"][0, 1].item() == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("speed", [12.0, 2.0])
def test_the_floor_holds_the_ball_back_without_slowing_it(speed: float):
    env = placed(ball_velocity=[speed, 0.0])
    act(env, NOTHING)
    way = 0.0
    most = 0.35 * 0.8 * 0.1242 / 0.02
    share = 1 / (1 + 2.5 * (0.5 / 0.6242) ** 2)
    for tick in range(1, 6):
        now = speed * 0.98**tick
        way += 0.02 * (now - min(most, share * now))
    state = env.state_dict()
    assert state["ball"][0, 0].item() == pytest.approx(way, rel=1e-4)
    assert state["ball_velocity"][0, 0].item() == pytest.approx(speed * 0.98**5, rel=1e-5)


def test_a_player_at_a_wall_rubs_along_it():
    env = placed(position=[[0.0, 7.008], *APART[1:]], angle=[math.pi / 4, 0.0, 0.0, 0.0])
    act(env, AHEAD, NOTHING, NOTHING, NOTHING)
    # the wall takes what leads into it, and 0.6 of that along it
    speed, _ = run_up(5, 2.0 * math.cos(math.pi / 4) * (1 - 0.6))
    assert env.state_dict()["velocity"][0].tolist() == pytest.approx([speed, 0.0], abs=1e-3)


def test_players_who_meet_head_on_stop_each_other():
    env = placed(
        position=[[-0.6, 0.0], APART[1], [0.6, 0.0], APART[3]],
        ball=[0.0, 6.0],
        velocity=[[4.0, 0], [0, 0], [-4.0, 0], [0, 0]],
    )
    act(env, AHEAD, NOTHING, AHEAD, NOTHING)
    state = env.state_dict()
    assert state["velocity"][[0, 2]].abs().max().item() < 1e-3
    assert (state["position"][2, 0] - state["position"][0, 0]).item() == pytest.approx(1.0, abs=0.02)


def test_a_touch_of_the_ball_is_rewarded_as_the_parameter_says_from_the_next_episode_on():
    env = placed(2)
    env.set_parameters({"ball_touch": torch.tensor([0.5, 0.0])})
    there = {
        "position": [[0.0, 0.0], *APART[1:]] * 2,
        "ball": [1.13, 0.0],
        "velocity": [[0.0, 0.0]] * 8,
        "ball_velocity": [0.0, 0.0],
    }
    change(env, **there)
    assert not act(env, AHEAD, NOTHING, NOTHING, NOTHING).reward.any()
    change(env, age=999)
    act(env, NOTHING)
    change(env, **there, angle=0.0)
    step = act(env, AHEAD, NOTHING, NOTHING, NOTHING)
    assert step.reward.tolist() == pytest.approx([0.1, *[0.0] * 7])
    assert not act(env, NOTHING).reward.any()


def test_nothing_leaves_the_field_or_stays_inside_another():
    env = SoccerTwos(64)
    generator = torch.Generator().manual_seed(0)
    env.reset(1)
    for _ in range(150):
        by_chance(env, generator)
        state = env.state_dict()
        for place, radius in (
            (state["position"], 0.5),
            (state["ball"], 0.6242),
        ):  # a goal is found a tick after the ball got there
            assert (place.abs() <= torch.tensor([17.3723, 7.508]) - radius + 1e-3).all()
            slant = place.abs() @ torch.tensor([0.8660254, 0.5])
            in_field = place[:, 0].abs() < 15.0
            assert (slant[in_field] <= 15.49738 - radius + 2e-3).all()
    players = env.state_dict()["position"].view(64, 4, 2)
    gaps = torch.cdist(players, players) + 9 * torch.eye(4)
    assert gaps.min() > 0.7
