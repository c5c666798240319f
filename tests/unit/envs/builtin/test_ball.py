from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from demo_files import columns
from envs.builtin.worlds import act, change, still

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.demos import read_demo
from palaestra.envs.builtin.ball.env import Ball, BallHard, VisualBall

GOLDEN = Path(__file__).parents[3] / "golden" / "data"
MODEL = GOLDEN / "onnx" / "unity_examples" / "3DBallHard.onnx"
Any3DBall = Ball | BallHard | VisualBall

# Unity's own 3DBall, out of recordings: what the agent saw, did, and saw next. One in free fall, four with the ball
# rolling.
RECORDED = [
    (
        [0.0380, 0.0111, 1.1303, 4.0000, 0.2364, 0, 0, 0],
        [-0.0190, 0.1565],
        [0.0364, 0.0247, 1.1303, 3.9411, 0.2364, 0, -0.981, 0],
    ),
    (
        [-0.0177, -0.0273, -0.0032, 3.0326, 0.4655, -0.1402, -0.1592, -0.2839],
        [0.2665, -0.1849],
        [0.0056, -0.0433, -0.0161, 3.0478, 0.4322, -0.1301, -0.0311, -0.3413],
    ),
    (
        [-0.0418, 0.0384, -0.2446, 3.0292, 0.1058, -0.0637, -0.0019, 0.0926],
        [0.1254, -0.0718],
        [-0.0309, 0.0321, -0.2486, 3.0202, 0.1175, -0.0228, -0.1149, 0.1346],
    ),
    (
        [0.0125, 0.0940, -0.1373, 3.0598, -0.0455, -0.0402, -0.0491, 0.2522],
        [-0.5240, -0.6263],
        [-0.0333, 0.0397, -0.1404, 3.0274, -0.0184, -0.0050, -0.1014, 0.3156],
    ),
]


def put(
    env: Any3DBall, position: list[float], velocity: list[float] | None = None, tilt: list[float] | None = None
) -> None:
    change(env, position=position, velocity=velocity or [0.0, 0.0, 0.0], tilt=tilt or [0.0, 0.0, 0.0, 1.0])


def test_a_ball_that_lies_still_earns_a_tenth_and_stays():
    env = Ball(2)
    env.reset(0)
    put(env, [0.5, 3.0, -0.5])
    for _ in range(3):
        step = still(env)
    torch.testing.assert_close(step.reward, torch.full((2,), 0.1))
    torch.testing.assert_close(step.obs[0], torch.tensor([[0, 0, 0.5, 3.0, -0.5, 0, 0, 0]]).expand(2, 8))
    assert not step.terminated.any()
    assert len(step.final_obs.slots) == 0


def test_five_ticks_of_free_fall_are_integrated_with_the_new_velocity():
    env = Ball(1)
    env.reset(0)
    put(env, [0.0, 4.0, 0.0])
    after = still(env).obs[0][0]
    assert after[3] == pytest.approx(4 - 9.81 * 0.0004 * 15, abs=1e-5)  # g * 0.02^2 * (1 + 2 + 3 + 4 + 5)
    assert after[6] == pytest.approx(-0.981, abs=1e-5)


def test_a_replay_of_unitys_recording_stays_within_four_centimeters_over_twenty_decisions():
    recorded = columns(read_demo(GOLDEN / "demos" / "unity_examples_0.15" / "Expert3DBall.demo"))
    seen = torch.from_numpy(recorded.obs[0])
    env = Ball(1)
    env.reset(0)
    z, x = seen[0, :2].tolist()
    about_x = np.arcsin(x)
    about_z = np.arcsin(z)
    for _ in range(20):  # a turn about x, then about z: x = sin cos, z = cos sin, y = -sin sin
        about_x, about_z = np.arcsin(x / np.cos(about_z)), np.arcsin(z / np.cos(about_x))
    y = -np.sin(about_x) * np.sin(about_z)
    w = np.cos(about_x) * np.cos(about_z)
    put(env, seen[0, 2:5].tolist(), tilt=[x, y, z, w])
    for k in range(20):
        after = act(env, torch.from_numpy(recorded.continuous[k : k + 1])).obs[0][0]
        torch.testing.assert_close(after[:2], seen[k + 1, :2], atol=2e-4, rtol=0)
        landed = k >= 3
        torch.testing.assert_close(after[2:5], seen[k + 1, 2:5], atol=0.04 if landed else 1e-4, rtol=0)
        torch.testing.assert_close(after[[5, 7]], seen[k + 1, [5, 7]], atol=0.05 if landed else 1e-4, rtol=0)


@pytest.mark.parametrize(("seen", "action", "then"), RECORDED)
def test_the_physics_follows_recordings_of_unitys(seen: list[float], action: list[float], then: list[float]):
    env = Ball(1)
    env.reset(0)
    z, x = seen[:2]
    put(env, seen[2:5], seen[5:], [x, 0.0, z, (1 - x * x - z * z) ** 0.5])
    state = env.state_dict()
    # a rolling ball's spin: the block's normal, nearly (-2z, 1, 2x), times the velocity, over the radius
    if seen[3] < 4:
        state["spin"][:] = torch.linalg.cross(torch.tensor([-2 * z, 1.0, 2 * x]), torch.tensor(seen[5:])) / 0.5
    env.load_state_dict(state)
    after = act(env, torch.tensor([action])).obs[0][0]
    torch.testing.assert_close(after[:2], torch.tensor(then[:2]), atol=1e-3, rtol=0)
    torch.testing.assert_close(after[2:5], torch.tensor(then[2:5]), atol=2e-3, rtol=0)
    torch.testing.assert_close(after[5:], torch.tensor(then[5:]), atol=0.05, rtol=0)


def test_actions_beyond_one_count_as_one():
    env = Ball(2)
    env.reset(0)
    put(env, [0.0, 4.0, 0.0])
    obs = act(env, torch.tensor([[1.0, -1.0], [50.0, -9.0]])).obs[0]
    torch.testing.assert_close(obs[0], obs[1])
    # five ticks of 2 degrees, halved in a quaternion
    assert obs[0, 0] == pytest.approx(np.sin(np.radians(5)), abs=1e-3)


def test_the_block_tilts_no_further_than_its_limit():
    env = Ball(1)
    env.reset(0)
    for _ in range(20):
        put(env, [0.0, 40.0, 0.0], tilt=env.state_dict()["tilt"][0].tolist())
        seen = act(env, torch.tensor([[1.0, 0.0]])).obs[0][0, 0].item()
    assert 0.25 <= seen < 0.27


def test_a_fallen_ball_costs_one_and_ends_the_episode_with_its_last_view():
    env = Ball(3)
    env.reset(0)
    state = env.state_dict()
    state["position"][1] = torch.tensor([2.9, 1.0, 0.0])
    state["velocity"][1] = torch.tensor([8.0, 0.0, 0.0])
    env.load_state_dict(state)
    step = still(env)
    assert step.terminated.tolist() == [False, True, False]
    assert not step.truncated.any()
    assert step.reward[1] == -1
    assert step.final_obs.slots.tolist() == [1]
    assert step.final_obs.obs[0][0, 2] > 3.0
    # it has fallen as the second tick begins, whose physics and those of three more pass in the new episode
    assert step.obs[0][1, 3].item() == pytest.approx(4 - 9.81 * 0.0004 * 10, abs=1e-5)
    assert step.obs[0][1, 2].abs() <= 1.5


def test_the_rest_of_a_decision_passes_in_the_new_episode_without_its_action():
    env = Ball(1)
    env.reset(0)
    put(env, [9.0, 0.0, 0.0])
    step = act(env, torch.tensor([[1.0, 1.0]]))
    assert step.terminated.all()
    tilt = env.state_dict()["tilt"][0]
    assert tilt.abs()[[0, 2]].max() <= np.sin(np.radians(5)) + 1e-6  # at most 10 degrees: no turn of the old action
    assert step.obs[0][0, 3].item() == pytest.approx(4 - 9.81 * 0.0004 * 15, abs=1e-5)
    assert env.state_dict()["age"].item() == 4  # ticks of the new episode; it began within the first


def test_the_ball_is_dropped_anywhere_within_one_and_a_half_meters_of_the_middle():
    place = Ball(4096).reset(0)["3DBall"].obs[0][:, [2, 4]]
    assert 1.49 < place.abs().max() <= 1.5
    assert place.abs().mean().item() == pytest.approx(0.75, abs=0.02)


def test_a_new_episode_does_not_stop_the_balls_spin():
    env = Ball(1)
    env.reset(0)
    put(env, [9.0, 0.0, 0.0])
    change(env, spin=[1.0, 2.0, 3.0])
    still(env)
    torch.testing.assert_close(env.state_dict()["spin"][0], torch.tensor([1.0, 2.0, 3.0]) * (1 - 0.01 * 0.02) ** 5)


def test_a_parameter_takes_hold_at_its_areas_next_episode():
    env = Ball(2)
    env.reset(0)
    env.set_parameters({"gravity": torch.tensor([9.81, 50.0]), "scale": torch.tensor([1.0, 2.0])})
    put(env, [0.0, 20.0, 0.0])
    assert still(env).obs[0][1, 6] == pytest.approx(-0.981, abs=1e-3)
    put(env, [9.0, 0.0, 0.0])
    torch.testing.assert_close(still(env).obs[0][:, 6], torch.tensor([-0.981, -5.0]))
    put(env, [0.0, 3.5, 0.0])
    # the larger ball lies there
    torch.testing.assert_close(still(env).obs[0][:, 3], torch.tensor([3.5 - 9.81 * 0.0004 * 15, 3.5]))


def test_the_balls_mass_makes_no_difference():
    env = Ball(2)
    env.set_parameters({"mass": torch.tensor([0.1, 20.0])})
    env.reset(0)
    put(env, [0.5, 3.2, -0.3], velocity=[1.0, 0.0, 0.5], tilt=[0.05, 0.0, 0.1, 0.9937])
    for _ in range(5):
        obs = still(env).obs[0]
    assert torch.equal(obs[0], obs[1])


def test_a_hard_episode_begins_with_one_view_after_zeros_and_keeps_the_oldest_first():
    env = BallHard(2)
    place, turn = env.reset(0)[env.behavior].obs
    assert (place.shape, turn.shape) == ((2, 27), (2, 18))
    assert not place[:, :24].any()
    assert not turn[:, :16].any()
    assert torch.equal(place[:, 25], torch.full((2,), 4.0))
    tilt = env.state_dict()["tilt"]
    assert torch.equal(turn[:, 16:], tilt[:, [2, 0]])
    next_place, next_turn = still(env).obs
    assert torch.equal(next_place[:, 21:24], place[:, 24:27])
    assert torch.equal(next_turn[:, 14:16], turn[:, 16:18])
    put(env, [9.0, 0.0, 0.0])
    step = still(env)
    assert not step.obs[0][:, :24].any()
    assert not step.obs[1][:, :16].any()
    assert torch.equal(step.final_obs.obs[0][:, 21:24], next_place[:, 24:27])
    assert torch.equal(step.final_obs.obs[1][:, 14:16], next_turn[:, 16:18])


def gray(picture: torch.Tensor) -> torch.Tensor:
    """Rows and columns of the pixels that show the ball, (n, 2), of a picture (3, 84, 84)."""
    return ((picture[0] > 0.3) & ((picture[2] - picture[0]).abs() < 0.15)).nonzero().float()


def orange(picture: torch.Tensor) -> torch.Tensor:
    """Rows and columns of the pixels that show the headband."""
    return ((picture[0] > 0.3) & (picture[2] < 0.5 * picture[0])).nonzero().float()


def dark(picture: torch.Tensor) -> torch.Tensor:
    """Rows and columns of the pixels that show eyes or mouth."""
    return ((picture.amax(0) < 0.3) & (picture.amin(0) > 0.0)).nonzero().float()


def blue(picture: torch.Tensor) -> torch.Tensor:
    return (picture[2] > picture[0] + 0.1).nonzero().float()


def test_a_camera_sees_the_block_in_the_middle_and_the_ball_on_it():
    env = VisualBall(1)
    env.reset(0)
    put(env, [0.0, 3.0, 0.0])
    picture = still(env).obs[0][0, 9:]
    # straight ahead lies (0, y, z) with 7 - y = (z + 8) tan 30: the ball's center at (3, 0) is 3.3 degrees above that
    row = 42 - 42 * np.tan(np.radians(30) - np.arctan(4 / 8)) / np.tan(np.radians(30)) - 0.5
    torch.testing.assert_close(gray(picture).mean(0), torch.tensor([row, 41.5], dtype=torch.float32), atol=0.6, rtol=0)
    # the upper edge in front
    near = 41.5 + 42 * 2.5 / (8 - 2.5) / (np.cos(np.radians(30)) + 4.5 / 5.5 * 0.5) / np.tan(np.radians(30))
    assert blue(picture)[:, 1].max().item() == pytest.approx(near, abs=1.0)
    assert (picture.sum(0) == 0).float().mean() > 0.5  # all else is black
    put(env, [1.5, 3.0, 0.0])
    assert gray(still(env).obs[0][0, 9:])[:, 1].min() > 48  # to the right


def row_of(y: float, z: float) -> float:
    """The row of pixels that shows a height and a depth, from the camera 7 m above and 8 m before the block's
    center.
    """
    return 42 - 42 * np.tan(np.radians(30) - np.arctan((7 - y) / (z + 8))) / np.tan(np.radians(30)) - 0.5


def test_the_camera_sees_the_headband_and_the_face():
    """Worked by hand from Unity's prefab, a cube 5 m wide: quads at 0.3, 0.074 and -0.183 of it, a band at 0.341, 0.193
    high.
    """
    env = VisualBall(1)
    env.reset(0)
    put(env, [0.0, 3.5, 2.0])
    picture = still(env).obs[0][0, 9:]
    band = orange(picture)
    assert (
        row_of(2.187, -2.61) - 2
        < band[:, 0].min()
        < row_of(1.223, -2.61)
        < band[:, 0].max() + 2
        < row_of(1.223, -2.61) + 4
    )
    face = dark(picture)
    eyes = face[(face[:, 1] < 36) | (face[:, 1] > 47)]
    assert eyes[:, 0].mean().item() == pytest.approx(row_of(0.37, -2.5), abs=1.0)
    assert eyes[:, 1].mean().item() == pytest.approx(41.5, abs=0.6)
    mouth = face[(face[:, 1] > 36) & (face[:, 1] < 47)]
    assert mouth[:, 0].mean().item() == pytest.approx(row_of(-0.915, -2.5), abs=1.0)


def test_the_ball_casts_a_shadow_on_the_block():
    """The lamp stands in front, to the right, 40 degrees high: a shadow falls 0.843 m to the left and behind for each
    meter of height.
    """
    env = VisualBall(1)
    env.reset(0)
    put(env, [0.5, 4.0, -0.5])
    picture = still(env).obs[0][0, 9:]
    is_top = picture[2] > 0.95
    is_shaded = (picture[2] > picture[0] + 0.3) & (picture[2] < 0.9)
    rows, columns = (is_shaded & is_top.roll(3, 1) & is_top.roll(-3, 1)).nonzero(as_tuple=True)
    assert len(rows) > 0
    assert columns.float().mean() < gray(picture)[:, 1].mean() - 3


def test_colors_have_the_steps_of_a_cameras_texture():
    picture = VisualBall(1).reset(0)["Visual3DBall"].obs[0]
    assert picture.max() > 0.5
    torch.testing.assert_close(picture, (255 * picture).round() / 255)


def test_four_pictures_are_kept_the_oldest_first_and_forgotten_with_the_episode():
    env = VisualBall(2)
    first = env.reset(0)[env.behavior].obs[0]
    assert first.shape == (2, 12, 84, 84)
    assert not first[:, :9].any()
    assert first[:, 9:].any()
    second = still(env).obs[0]
    assert torch.equal(second[:, 6:9], first[:, 9:])
    put(env, [9.0, 0.0, 0.0])
    step = still(env)
    assert not step.obs[0][:, :9].any()
    final = step.final_obs.obs[0]
    assert torch.equal(final[:, 6:9], second[:, 9:])
    assert torch.equal(final[:, 3:6], second[:, 6:9])
    assert len(gray(final[0, 9:])) == 0  # it has fallen out of the picture
    assert len(gray(step.obs[0][0, 9:])) > 0
    again = env.reset(0)[env.behavior].obs[0]
    assert torch.equal(again, first)


def test_unitys_own_model_balances_the_ball():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
    env = BallHard(100)
    step = env.reset(0)[env.behavior]
    earned = torch.zeros(100)
    open_ = torch.ones(100)
    for _ in range(1000):
        action = session.run(["continuous_actions"], {"vector_observation": torch.cat(step.obs, 1).numpy()})[0]
        step = act(env, torch.from_numpy(np.asarray(action)))
        earned += open_ * step.reward
        open_ *= (~(step.terminated | step.truncated)).float()
    assert not open_.any()
    assert earned.mean() >= 95


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"gravty": torch.ones(2)}, "no parameter 'gravty'; did you mean 'gravity'"),
        ({"gravity": torch.ones(3)}, r"shape \(3,\)"),
        ({"gravity": torch.tensor([9.8, 500.0])}, "'gravity' is 500, expected a number within 4..105"),
        ({"mass": torch.tensor([1.0, torch.nan])}, "'mass' is nan"),
    ],
)
def test_parameters_that_cannot_be_are_refused_whole(values: dict[str, torch.Tensor], what: str):
    env = Ball(2)
    before = env.state_dict()["pending"]
    with pytest.raises(EnvError, match=what):
        env.set_parameters({"scale": torch.full((2,), 2.0), **values})
    assert torch.equal(env.state_dict()["pending"], before)


@pytest.mark.parametrize("areas", [0, -1, 2.5, True])
def test_a_number_of_areas_that_cannot_be_is_refused(areas: int):
    with pytest.raises(EnvError, match="expected a whole number of at least 1"):
        Ball(areas)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(EnvError, match="expected cpu, cuda"):
        Ball(1, device="gpu")
    with pytest.raises(EnvError, match="run on cpu and cuda"):
        Ball(1, device="meta")


def test_actions_that_do_not_fit_are_refused():
    env = Ball(2)
    with pytest.raises(EnvError, match=r"call reset\(seed\) first"):
        still(env)
    env.reset(0)
    with pytest.raises(EnvError, match="no actions for behavior '3DBall'"):
        env.step({})
    with pytest.raises(EnvError, match=r"shape \(3, 2\), expected \(2, 2\)"):
        env.step({"3DBall": Action(torch.zeros(3, 2), torch.zeros(3, 0, dtype=torch.int64))})
    with pytest.raises(EnvError, match=r"agent 1: .* must be finite numbers"):
        act(env, torch.tensor([[0.0, 0.0], [torch.inf, 0.0]]))


def test_a_state_of_another_environment_is_refused():
    with pytest.raises(EnvError, match="another number of areas"):
        Ball(2).load_state_dict(Ball(3).state_dict())
    state = Ball(2).state_dict()
    with pytest.raises(EnvError, match="shape"):
        Ball(2).load_state_dict({**state, "velocity": state["velocity"][:, :1]})
    with pytest.raises(EnvError, match="has columns"):
        Ball(2).load_state_dict(BallHard(2).state_dict())
    with pytest.raises(EnvError, match="has columns"):
        Ball(2).load_state_dict({})


@pytest.mark.parametrize("kind", [Ball, BallHard, VisualBall])
def test_a_picture_shows_the_ball_where_it_is(kind: type[Any3DBall]):
    env = kind(1)
    env.reset(0)
    put(env, [-1.5, 3.0, 0.0])
    left = env.render(0)
    put(env, [1.5, 3.0, 0.0])
    right = env.render(0)
    assert left.dtype == np.uint8
    assert left.shape[0] >= 200
    gold = [np.argwhere((p[..., 0] > 180) & (p[..., 2] < 120))[:, 1].mean() for p in (left, right)]
    assert gold[0] + 20 < gold[1]
    with pytest.raises(EnvError, match="no area 1"):
        env.render(1)
