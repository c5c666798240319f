from __future__ import annotations

import numpy as np
import pytest
import torch

import palaestra
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.tennis.env import Tennis

STAND = 1.0
MIDDLE = 25 * np.pi / 180


def played(env: Tennis, actions: torch.Tensor) -> TimeStep:
    return env.step({"Tennis": Action(actions, torch.zeros(len(actions), 0, dtype=torch.int64))})["Tennis"]


def still(env: Tennis) -> TimeStep:
    return played(env, torch.zeros(2 * env.num_areas, 3))


def placed(areas: int = 1, **columns: list | float) -> Tennis:
    """Rackets far back, the ball at rest high over the left side, played there by the right; or as the columns say, of every area."""
    env = Tennis(areas)
    env.reset(0)
    state = env.state_dict()
    there = {"ball": [-4.0, 30.0], "ball_velocity": [0.0, 0.0], "striker": 1, "bounces": 0, "strokes": 0}
    rackets = {"position": [[-8.5, STAND]] * 2, "velocity": [[0.0, 0.0]] * 2, "tilt": [MIDDLE] * 2}
    for name, value in {**there, **rackets, **columns}.items():
        rows = torch.tensor(value, dtype=state[name].dtype)
        state[name][:] = rows.repeat(areas, *[1] * (rows.ndim - 1)) if name in rackets else rows
    env.load_state_dict(state)
    return env


def test_each_sees_rackets_and_ball_in_its_own_frame():
    env = placed(ball=[-4.0, 6.0], ball_velocity=[3.0, 1.0], position=[[-7.0, STAND], [-3.0, STAND]], parameters=[0.0, 0.5, 0.0])
    left, right = still(env).obs[0][:, 18:].tolist()
    assert left == pytest.approx([-7, 1, 0, 0, -3.7, 6.1, 3, 1, MIDDLE], abs=1e-5)
    assert right == pytest.approx([-3, 1, 0, 0, 3.7, 6.1, -3, 1, MIDDLE], abs=1e-5)


def test_the_last_three_views_are_shown_oldest_first_after_zeros():
    env = Tennis(3)
    first = env.reset(0)["Tennis"].obs[0]
    assert not first[:, :18].any()
    second = still(env).obs[0]
    assert not second[:, :9].any()
    assert torch.equal(second[:, 9:18], first[:, 18:])
    assert torch.equal(still(env).obs[0][:, :18], second[:, 9:])


def test_both_sides_of_mirrored_areas_see_the_same_game_to_the_last_digit():
    env = Tennis(200)
    env.reset(3)
    state = env.state_dict()
    for name in ("position", "velocity", "tilt"):
        rows = state[name].view(100, 2, 2, *state[name].shape[1:])
        rows[:, 1] = rows[:, 0].flip(1)
    for name in ("ball", "ball_velocity"):
        state[name][1::2] = state[name][::2] * torch.tensor([-1.0, 1.0])
    state["striker"][1::2] = 1 - state["striker"][::2]
    state["rng"][1::2] = state["rng"][::2]
    state["obs"].zero_()
    env.load_state_dict(state)
    generator, going = torch.Generator().manual_seed(0), torch.ones(100, dtype=torch.bool)
    for _ in range(25):
        actions = torch.randn(100, 1, 2, 3, generator=generator)
        step = played(env, torch.cat([actions, actions.flip(2)], 1).view(-1, 3))
        reward = step.reward.view(100, 2, 2)[going]
        assert torch.equal(reward[:, 0], reward[:, 1].flip(1))
        going &= ~step.terminated.view(100, 4).any(1)
        seen = step.obs[0].view(100, 2, 2, 27)[going]
        assert torch.equal(seen[:, 0], seen[:, 1].flip(1))
    assert 20 < going.sum() < 80


NEAR_FLOOR, AT_WALL, AT_NET = [-4.0, 0.35], [-8.6, 3.0], [-0.4, 0.8]
DOWN, BACKWARD, FORWARD = [0.0, -5.0], [-8.0, 0.0], [8.0, 0.0]


@pytest.mark.parametrize(
    ("ball", "velocity", "striker", "bounces", "loser"),
    [
        pytest.param(NEAR_FLOOR, DOWN, 1, 1, 0, id="its floor for the second time"),
        pytest.param(NEAR_FLOOR, DOWN, 0, 0, 0, id="its floor after its own stroke"),
        pytest.param(NEAR_FLOOR, DOWN, 1, 0, None, id="its floor for the first time"),
        pytest.param(AT_WALL, BACKWARD, 1, 1, 0, id="the wall after its floor"),
        pytest.param(AT_WALL, BACKWARD, 0, 0, 0, id="the wall after its own stroke"),
        pytest.param(AT_WALL, BACKWARD, 1, 0, 1, id="out"),
        pytest.param(AT_NET, FORWARD, 0, 0, 0, id="net"),
        pytest.param([-0.4, 1.6], FORWARD, 0, 0, None, id="over the net"),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_who_loses(ball: list[float], velocity: list[float], striker: int, bounces: int, loser: int | None, side: int):
    sign = 1 - 2 * side
    env = placed(
        ball=[sign * ball[0], ball[1]],
        ball_velocity=[sign * velocity[0], velocity[1]],
        striker=striker if side == 0 else 1 - striker,
        bounces=bounces,
        position=[[-1.5, STAND]] * 2,
        tilt=[-0.3] * 2,
    )
    step = still(env)
    if loser is None:
        assert not step.reward.any()
        assert not (step.terminated | step.truncated).any()
    else:
        assert step.reward.tolist() == ([-1, 1] if (loser == 0) == (side == 0) else [1, -1])
        assert step.terminated.all()
        assert step.final_obs.slots.tolist() == [0, 1]
        assert (step.obs[0][:, 23] == 4.0).all()  # the next serve, as yet in nobody's reach


def test_the_floor_gives_back_three_quarters_of_the_balls_speed():
    env = placed(ball=[-4.0, 0.35], ball_velocity=[1.0, -5.0], parameters=[0.0, 0.5, 0.0])
    still(env)
    state = env.state_dict()
    assert state["ball_velocity"][0].tolist() == pytest.approx([1.0, 3.75])
    assert state["bounces"].tolist() == [1]


def test_a_racket_sends_the_ball_along_its_normal_and_meets_it_once():
    meets = {"ball": [-4.0, 1.0], "ball_velocity": [-4.0, 0.0], "position": [[-4.5, STAND], [-8.5, STAND]], "tilt": [0.0, 0.0]}
    env = placed(**meets, parameters=[0.0, 0.5, 0.0])
    played(env, torch.tensor([[0, 0, -25 / 45], [0, 0, 0]]))
    state = env.state_dict()
    assert state["ball_velocity"][0].tolist() == pytest.approx([6.5 + 0.3 * 4, 0.0], abs=1e-5)
    assert (state["striker"].item(), state["strokes"].item()) == (0, 1)
    env = placed(**meets, striker=0, parameters=[0.0, 0.5, 0.0])  # struck by this racket already
    still(env)
    assert env.state_dict()["ball_velocity"][0].tolist() == [-4.0, 0.0]


def test_every_stroke_of_a_rally_adds_to_the_next():
    speed = {}
    for strokes in (0, 20):
        env = placed(ball=[-4.0, 1.0], ball_velocity=[-4.0, 0.0], position=[[-4.5, STAND]] * 2, tilt=[0.0] * 2, strokes=strokes)
        played(env, torch.tensor([[0, 0, -25 / 45]] * 2))
        speed[strokes] = env.state_dict()["ball_velocity"][0, 0].item()
    assert speed[20] - speed[0] == pytest.approx(8.0, abs=0.01)


@pytest.mark.parametrize(("strokes", "fastest"), [(0, 9.0), (10, 13.0), (100, 20.0)])
def test_a_stroke_is_no_faster_than_its_place_in_the_rally_allows(strokes: int, fastest: float):
    env = placed(ball=[-4.0, 1.0], ball_velocity=[-20.0, 0.0], position=[[-4.5, STAND]] * 2, tilt=[0.0] * 2, strokes=strokes)
    played(env, torch.tensor([[1.0, 0, -25 / 45]] * 2))
    state = env.state_dict()
    assert state["strokes"].tolist() == [strokes + 1]
    assert state["ball_velocity"][0, 0].item() == pytest.approx(fastest, abs=0.01)


@pytest.mark.parametrize(("scale", "meets"), [(0.5, False), (1.5, True)])
def test_a_larger_racket_reaches_higher(scale: float, meets: bool):
    env = placed(ball=[-4.0, 2.5], ball_velocity=[-4.0, 0.0], position=[[-4.5, STAND]] * 2, tilt=[0.0] * 2, parameters=[0.0, scale, 0.0])
    played(env, torch.tensor([[0, 0, -25 / 45]] * 2))
    assert (env.state_dict()["strokes"].item() == 1) == meets


def test_a_racket_runs_turns_and_stays_on_its_side():
    env = placed(position=[[-5.0, STAND], [-5.0, STAND]])
    full = torch.tensor([[9.0, 0, 1], [-9.0, 0, -1]])
    played(env, full)
    state = env.state_dict()
    assert state["velocity"][:, 0].tolist() == pytest.approx([5.0, -5.0])
    np.testing.assert_allclose(state["tilt"], np.radians([45.0, 5.0]), atol=1e-4)
    for _ in range(20):
        played(env, full)
    state = env.state_dict()
    assert state["position"][:, 0].tolist() == [-1.0, -8.5]
    np.testing.assert_allclose(state["tilt"], np.radians([70.0, -20.0]), atol=1e-4)


def test_a_racket_jumps_when_told_and_not_in_the_air():
    env = placed()
    played(env, torch.tensor([[0, 0.4, 0], [0, 0.6, 0]]))
    assert env.state_dict()["position"][0, 1] == STAND
    top = []
    for up in (0.0, 1.0):
        env = placed()
        played(env, torch.tensor([[0, 1.0, 0]] * 2))
        heights = []
        for _ in range(8):
            played(env, torch.tensor([[0, up, 0]] * 2))
            heights.append(env.state_dict()["position"][0, 1].item())
        top.append(max(heights))
    assert top[0] == top[1] == pytest.approx(STAND + 4.5**2 / (2 * 9.81), abs=0.06)


def test_a_rally_without_end_is_a_draw():
    env = placed(ball=[-4.0, 2000.0], age=498)
    assert not still(env).truncated.any()
    step = still(env)
    assert step.truncated.tolist() == [True, True]
    assert not step.terminated.any()
    assert not step.reward.any()
    assert step.final_obs.slots.tolist() == [0, 1]


def test_chance_touches_the_ball_often_and_wins_on_both_sides_alike():
    env = Tennis(500)
    step = env.reset(0)["Tennis"]
    assert step.team.tolist() == [0, 1] * 500
    assert (step.group == -1).all()
    generator, rewards, touched = torch.Generator().manual_seed(0), [], []
    for _ in range(200):
        strokes = env.state_dict()["strokes"]
        step = played(env, torch.randn(1000, 3, generator=generator))
        over = step.terminated.view(-1, 2)
        assert torch.equal(over[:, 0], over[:, 1])
        rewards.append(step.reward.view(-1, 2)[over[:, 0]])
        touched.append(strokes[over[:, 0]] > 0)
    earned, share = torch.cat(rewards), torch.cat(touched).float().mean().item()
    assert len(earned) > 3000
    assert not earned.sum(1).any()
    assert (earned.abs() == 1).all()
    assert (earned[:, 0] == 1).float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert 0.3 < share < 0.7


def test_its_rule_rallies_and_beats_chance():
    env = Tennis(200)
    env.reset(0)
    for _ in range(100):
        action = env.heuristic("Tennis")
        assert action is not None
        env.step({"Tennis": action})
    assert env.state_dict()["strokes"].float().mean() > 3
    env.reset(0)
    wins, generator = torch.zeros(2), torch.Generator().manual_seed(0)
    for _ in range(100):
        action = env.heuristic("Tennis")
        assert action is not None
        action.continuous[1::2] = torch.randn(200, 3, generator=generator)
        wins += (played(env, action.continuous).reward.view(-1, 2) > 0).sum(0)
    assert wins[0] > 4 * wins[1]
    assert env.heuristic("Other") is None


def test_parameters_take_hold_at_the_next_rally():
    env = placed(2)
    env.set_parameters({"gravity": torch.tensor([9.81, 20.0]), "scale": torch.tensor([0.5, 5.0])})
    assert still(env).obs[0][3, 25].item() == pytest.approx(-0.981, abs=1e-4)
    state = env.state_dict()
    state["age"][:] = 499
    env.load_state_dict(state)
    assert still(env).truncated.all()
    np.testing.assert_allclose(still(env).obs[0][:, 25], [-0.981, -0.981, -2.0, -2.0], atol=1e-4)


def test_a_stroke_earns_who_strikes_what_the_parameter_says():
    env = Tennis(50)
    env.set_parameters({"ball_touch": torch.full((50,), 0.25)})
    env.reset(0)
    earned, strokes = torch.zeros(50), torch.zeros(50, dtype=torch.int64)
    for _ in range(60):
        action, before = env.heuristic("Tennis"), env.state_dict()["strokes"]
        assert action is not None
        step = played(env, action.continuous)
        goes_on = ~step.terminated.view(-1, 2)[:, 0]
        reward, more = step.reward.view(-1, 2)[goes_on], (env.state_dict()["strokes"] - before)[goes_on]
        assert torch.equal(reward.sum(1), 0.25 * (more > 0))
        earned[goes_on] += reward.sum(1)
        strokes[goes_on] += more
    assert strokes.sum() > 100


def test_an_areas_rallies_depend_on_the_seed_and_not_on_how_many_areas_there_are():
    few, many = Tennis(3), Tennis(8)
    assert torch.equal(few.reset(5)["Tennis"].obs[0], many.reset(5)["Tennis"].obs[0][:6])
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        actions = torch.randn(16, 3, generator=generator)
        one, two = played(few, actions[:6]), played(many, actions)
        assert torch.equal(one.obs[0], two.obs[0][:6])
        assert torch.equal(one.reward, two.reward[:6])


def test_a_picture_shows_the_ball_over_its_side():
    env = palaestra.make("Tennis", areas=1)
    env.reset(0)
    state = env.state_dict()
    middles = []
    for x in (-6.0, 6.0):
        state["ball"][:] = torch.tensor([x, 4.0])
        env.load_state_dict(state)
        picture = env.render(0).astype(int)
        middles.append(np.argwhere((picture[..., 0] > 200) & (picture[..., 2] < 120) & (picture[..., 1] > 140))[:, 1].mean())
    assert middles[0] + 200 < middles[1]
