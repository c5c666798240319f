import numpy as np
import pytest
import torch
from envs.builtin.worlds import act, begun, still

from palaestra.envs.builtin.tennis.env import Tennis

SERVICE, NO_FLOOR, LEFT_FLOOR, RIGHT_FLOOR = range(4)
FLOOR, WALL, RADIUS = -6.9, 11.88, 0.25


def placed(areas: int = 1, **columns: list | float) -> Tennis:
    """Rackets far back, the ball high over the left side, struck by the right; or as the columns say, of every area."""
    ball = {"ball": [-4.0, 30.0], "ball_velocity": [0.0, 0.0], "striker": 1, "floor": NO_FLOOR, "over": 1}
    rackets = {"position": [[-11.0, 20.0], [11.0, 20.0]], "velocity": [0.0, 0.0]}
    return begun(Tennis(areas), **{"contacts": 0, **ball, **rackets, **columns})


def test_each_sees_rackets_and_ball_in_its_own_frame():
    env = placed(
        ball=[-4.0, 6.0], ball_velocity=[3.0, 1.0], position=[[-7.0, 2.0], [3.0, 2.0]], parameters=[0.0, 0.5, 0.0]
    )
    left, right = still(env).obs[0][:, 18:].tolist()
    assert left == pytest.approx([-7, 2, 0, 0, -3.7, 6.1, 3, 1, 0], abs=1e-5)
    assert right == pytest.approx([-3, 2, 0, 0, 3.7, 6.1, -3, 1, 0], abs=1e-5)


def test_both_sides_of_mirrored_areas_see_the_same_game_to_the_last_digit():
    env = Tennis(200)
    env.reset(3)
    state = env.state_dict()
    flip = torch.tensor([-1.0, 1.0])
    for name in ("position", "velocity"):
        rows = state[name].view(100, 2, 2, 2)
        rows[:, 1] = rows[:, 0].flip(1) * flip
    for name in ("ball", "ball_velocity"):
        state[name][1::2] = state[name][::2] * flip
    state["rng"][1::2] = state["rng"][::2]
    state["obs"].zero_()
    env.load_state_dict(state)
    generator = torch.Generator().manual_seed(0)
    going = torch.ones(100, dtype=torch.bool)
    for _ in range(22):
        actions = torch.randn(100, 1, 2, 3, generator=generator)
        step = act(env, torch.cat([actions, actions.flip(2)], 1).view(-1, 3))
        reward = step.reward.view(100, 2, 2)[going]
        assert torch.equal(reward[:, 0], reward[:, 1].flip(1))
        going &= ~step.terminated.view(100, 4).any(1)
        seen = step.obs[0].view(100, 2, 2, 27)[going]
        assert torch.equal(seen[:, 0], seen[:, 1].flip(1))
    assert 5 < going.sum() < 90


NEAR_FLOOR = [-4.0, FLOOR + 0.3]
AT_WALL = [-WALL + 0.3, -3.0]
AT_NET = [-0.45, -6.5]
DOWN = [0.0, -5.0]
BACKWARD = [-8.0, 0.0]
FORWARD = [8.0, 0.0]


@pytest.mark.parametrize(
    ("ball", "velocity", "striker", "floor", "over", "loser"),
    [
        pytest.param(NEAR_FLOOR, DOWN, 1, LEFT_FLOOR, 1, 0, id="its floor for the second time"),
        pytest.param(NEAR_FLOOR, DOWN, 0, NO_FLOOR, 1, 0, id="its floor after its own stroke"),
        pytest.param(NEAR_FLOOR, DOWN, -1, SERVICE, 0, 0, id="its floor at the service"),
        pytest.param(NEAR_FLOOR, DOWN, 1, NO_FLOOR, 1, None, id="its floor for the first time"),
        pytest.param(AT_WALL, BACKWARD, 1, LEFT_FLOOR, 1, 0, id="the wall after its floor"),
        pytest.param(AT_WALL, BACKWARD, 0, NO_FLOOR, 1, 0, id="the wall after its own stroke"),
        pytest.param(AT_WALL, BACKWARD, 1, NO_FLOOR, 1, 1, id="out"),
        pytest.param(AT_NET, FORWARD, 0, NO_FLOOR, 0, 0, id="net at the first stroke"),
        pytest.param(AT_NET, FORWARD, 0, NO_FLOOR, 1, None, id="net later"),
        pytest.param([-0.45, -5.8], FORWARD, 0, NO_FLOOR, 0, None, id="over the net"),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_who_loses(
    ball: list[float], velocity: list[float], striker: int, floor: int, over: int, loser: int | None, side: int
):
    sign = 1 - 2 * side
    mirrored = {LEFT_FLOOR: RIGHT_FLOOR, RIGHT_FLOOR: LEFT_FLOOR}
    env = placed(
        ball=[sign * ball[0], ball[1]],
        ball_velocity=[sign * velocity[0], velocity[1]],
        striker=striker if side == 0 or striker < 0 else 1 - striker,
        floor=floor if side == 0 else mirrored.get(floor, floor),
        over=over,
    )
    step = still(env)
    if loser is None:
        assert not step.reward.any()
        assert not step.terminated.any()
    else:
        assert step.reward.tolist() == ([-1, 1] if (loser == 0) == (side == 0) else [1, -1])
        assert step.terminated.all()
        assert step.final_obs.slots.tolist() == [0, 1]
    assert not step.truncated.any()


def test_the_rest_of_a_decision_passes_in_the_next_rally():
    """The ball meets the floor in the first tick; in the four that are left the next one falls from 6 m."""
    step = still(placed(ball=[-4.0, FLOOR + 0.26], ball_velocity=[0.0, -5.0], floor=LEFT_FLOOR))
    assert step.terminated.all()
    seen = step.obs[0][:, 18:]
    assert seen[:, 7].tolist() == pytest.approx([-4 * 0.1962] * 2, abs=1e-5)
    assert seen[:, 5].tolist() == pytest.approx([6 - 0.1962 * 0.02 * 10] * 2, abs=1e-5)
    assert not step.obs[0][:, :18].any()


def test_the_ball_bounces_without_loss_and_is_no_faster_than_9_along_each_axis():
    env = placed(ball=[-4.0, FLOOR + 0.35], ball_velocity=[1.0, -5.0], parameters=[0.0, 0.5, 0.0])
    still(env)
    assert env.state_dict()["ball_velocity"][0].tolist() == pytest.approx([1.0, 5.0])
    assert env.state_dict()["floor"].tolist() == [LEFT_FLOOR]
    env = placed(ball=[-4.0, 5.0], ball_velocity=[-9.0, -8.9])
    still(env)
    assert env.state_dict()["ball_velocity"][0].tolist() == pytest.approx([-9.0, -9.0])


def test_a_racket_at_rest_returns_the_ball_by_the_masses_of_both():
    """An approach at 4 m/s, elastic: the ball of 0.75 kg gains 2 * 4 * 4 / 4.75 m/s, the racket of 4 kg the rest."""
    meets = {
        "ball": [-4.0, 1.0],
        "ball_velocity": [-4.0, 0.0],
        "position": [[-4.6, 1.0], [11.0, 20.0]],
        "parameters": [0.0, 0.5, 0.0],
    }
    env = placed(**meets)
    still(env)
    state = env.state_dict()
    assert state["ball_velocity"][0].tolist() == pytest.approx([-4 + 8 * 4 / 4.75, 0.0], abs=1e-4)
    assert (state["striker"].item(), state["floor"].item(), state["strokes"].item()) == (0, NO_FLOOR, 1)
    step = still(placed(**meets, striker=0))  # struck by this racket already
    assert step.reward.tolist() == [-1, 1]


def test_a_racket_tilted_by_a_positive_action_sends_the_ball_down():
    for tilt in (-0.5, 0.5):
        env = placed(
            ball=[-4.0, 1.0],
            ball_velocity=[-4.0, 0.0],
            position=[[-4.6, 1.0], [11.0, 20.0]],
            parameters=[0.0, 0.5, 0.0],
        )
        act(env, torch.tensor([[0.0, 0.0, tilt], [0.0, 0.0, 0.0]]))
        velocity = env.state_dict()["ball_velocity"][0]
        slope = np.radians(27.5)
        gained = 8 * 4 / 4.75 * np.cos(slope)
        assert velocity.tolist() == pytest.approx(
            [-4 + gained * np.cos(slope), -np.sign(tilt) * gained * np.sin(slope)], abs=0.01
        )


def test_a_ball_that_stays_on_a_racket_has_been_hit_once():
    env = placed(
        ball=[-6.0, 1.0], ball_velocity=[-2.0, 0.0], position=[[-7.0, 1.0], [11.0, 20.0]], parameters=[0.0, 0.5, 0.0]
    )
    for _ in range(3):  # the ball leaves at less than the racket's speed, which a stroke cannot change
        assert not act(env, torch.tensor([[0.32, 0.0, 0.0], [0.0, 0.0, 0.0]])).terminated.any()
    assert env.state_dict()["strokes"].tolist() == [1]
    assert env.state_dict()["ball_velocity"][0, 0] == 9.0


@pytest.mark.parametrize(("scale", "meets"), [(0.5, False), (2.0, True)])
def test_the_scale_is_the_balls_width(scale: float, meets: bool):
    env = placed(
        ball=[-4.0, 2.2], ball_velocity=[-4.0, 0.0], position=[[-4.6, 1.0], [11.0, 20.0]], parameters=[0.0, scale, 0.0]
    )
    still(env)
    assert (env.state_dict()["strokes"].item() == 1) == meets


def test_a_racket_runs_at_30_and_is_brought_back_from_the_net():
    env = placed(position=[[-8.0, 0.0], [8.0, 0.0]], parameters=[0.0, 0.5, 0.0])
    act(env, torch.tensor([[9.0, 0.0, 0.0], [-0.5, 0.0, 0.0]]))
    state = env.state_dict()
    assert state["velocity"][:, 0].tolist() == [30.0, 15.0]
    assert state["position"][:, 0].tolist() == pytest.approx([-5.0, 9.5])
    onward = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    for _ in range(2):
        act(env, onward)
    step = act(env, onward)
    assert step.obs[0][0, 18].item() == pytest.approx(-1 + 0.6)  # back to -1, and one tick on
    assert env.state_dict()["position"][1, 0].item() == pytest.approx(WALL - 0.0635)


def test_a_racket_rises_at_7_while_it_is_low_and_falls_onto_the_floor():
    env = placed(position=[[-8.0, -3.0], [8.0, -3.0]])
    step = act(env, torch.tensor([[0.0, 0.6, 0.0], [0.0, 0.4, 0.0]]))
    assert step.obs[0][:, 21].tolist() == pytest.approx([7 - 0.1962, -5 * 0.1962], abs=1e-4)
    env = placed(position=[[-8.0, 0.0], [8.0, 0.0]])
    step = act(env, torch.tensor([[0.0, 1.0, 0.0]] * 2))
    assert step.obs[0][:, 21].tolist() == pytest.approx([-5 * 0.1962] * 2, abs=1e-4)
    for _ in range(12):
        still(env)
    state = env.state_dict()
    assert state["position"][:, 1].tolist() == pytest.approx([FLOOR + 0.494] * 2, abs=1e-4)


def test_a_rally_begins_6_to_8_meters_from_the_net_on_both_sides_alike():
    env = Tennis(2000)
    env.reset(0)
    state = env.state_dict()
    ball = state["ball"]
    racket = state["position"].view(-1, 2, 2)
    for places in (ball[:, 0].abs(), -racket[:, 0, 0], racket[:, 1, 0]):
        assert places.min().item() == pytest.approx(6.0, abs=0.01)
        assert places.max().item() == pytest.approx(8.0, abs=0.01)
    assert (ball[:, 0] < 0).float().mean().item() == pytest.approx(0.5, abs=0.04)
    assert (ball[:, 1] == 6.0).all()
    assert (racket[..., 1] == -1.5).all()


def test_a_stroke_earns_who_strikes_what_the_parameter_says():
    env = placed(
        ball=[-4.0, 1.0], ball_velocity=[-4.0, 0.0], position=[[-4.6, 1.0], [11.0, 20.0]], parameters=[0.0, 0.5, 0.25]
    )
    assert still(env).reward.tolist() == [0.25, 0.0]
    assert still(env).reward.tolist() == [0.0, 0.0]
