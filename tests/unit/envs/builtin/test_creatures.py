import math
from pathlib import Path

import numpy as np
import pytest
import torch
import warp as wp
from envs.builtin.worlds import act

import palaestra
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.creatures.anatomy import (
    BoxShape,
    Capsule,
    RoundShape,
    from_axes,
    from_euler,
    inertia,
    joint_axes,
    rotate,
)
from palaestra.envs.builtin.creatures.assembly import solving_order
from palaestra.envs.builtin.creatures.crawler import Crawler
from palaestra.envs.builtin.creatures.solver import past_cone
from palaestra.envs.builtin.creatures.walker import Walker
from palaestra.envs.builtin.creatures.worm import Worm

MODELS = Path(__file__).parents[3] / "golden" / "data" / "onnx" / "unity_examples"
CREATURES = (Crawler, Walker, Worm)
Kind = type[Crawler] | type[Walker] | type[Worm]


def size(env: WarpEnv) -> int:
    return env.behaviors[env.behavior].action.continuous


def test_crawler_starts_above_the_ground_with_idle_joints():
    parts, rest = (obs[0] for obs in Crawler(1).reset(3)["Crawler"].obs)
    speed = rest[6].item()
    assert 0.1 <= speed <= 15
    # nothing moves, so all of the wanted speed is missing
    assert rest[:4].tolist() == pytest.approx([speed, 0, 0, 0], abs=1e-5)
    assert rest[4:6].tolist() == [0, 0]
    assert rest[14].item() == pytest.approx((2.656 - 0.5) / 10, abs=1e-4)
    assert not rest[15:].any()
    assert parts[:3].abs().max() < 1e-5  # its body is where the frame is
    assert parts[7:10].norm().item() == pytest.approx(math.sqrt(2 * 0.6364**2 + 0.15**2), abs=1e-4)  # leg 0


@pytest.mark.parametrize("kind", CREATURES)
def test_a_creature_falls_to_the_ground_and_stays_whole(kind: Kind):
    env = kind(4)
    env.reset(1)
    start = {name: value.clone() for name, value in env.state_dict().items()}
    lowest = start["position"][:, 0, 1].clone()
    for _ in range(20):
        act(env, torch.zeros(4, size(env)))
        lowest = torch.minimum(lowest, env.state_dict()["position"][:, 0, 1])
    state = env.state_dict()
    assert (lowest < start["position"][:, 0, 1] - 0.05).all()
    assert torch.isfinite(state["position"]).all()
    assert (state["position"][..., 1] > env.creature.floor - 0.05).all()
    reach = {
        k: (start["position"][0, k] - start["position"][0, p]).norm().item()
        for k, p in enumerate(env.creature.parents)
        if p >= 0
    }
    for k, p in enumerate(env.creature.parents):
        if p >= 0:
            assert ((state["position"][:, k] - state["position"][:, p]).norm(dim=1) < 2 * reach[k] + 0.1).all()


def test_a_part_that_must_not_touch_the_ground_ends_the_episode_at_minus_one():
    env = Walker(8)
    env.reset(2)
    ends = 0
    for _ in range(60):
        step = act(env, torch.zeros(8, 39))
        assert (step.reward[step.terminated] == -1).all()
        assert (step.reward[~step.terminated] >= 0).all()
        assert (step.reward <= 5).all()  # 1 a tick
        ends += int(step.terminated.sum())
    assert ends >= 8  # without balance it falls


def test_inertia_by_hand():
    assert inertia(5.0, RoundShape(2.0)) == pytest.approx([8.0] * 3)  # 2/5 m r^2
    assert inertia(12.0, BoxShape((1.0, 2.0, 3.0))) == pytest.approx([13.0, 10.0, 5.0])
    assert inertia(3.0, Capsule(0.5, 1.0, 1)) == pytest.approx(inertia(3.0, RoundShape(0.5)))  # no longer than its caps
    long = inertia(1.0, Capsule(1e-4, 2.0, 2))
    assert long == pytest.approx([4 / 12, 4 / 12, 0.0], abs=1e-3)  # a rod


def test_eulers_turn_about_z_then_x_then_y():
    turn = from_euler((90.0, 90.0, 0.0))
    assert rotate(turn, (0, 0, 1)) == pytest.approx([0, -1, 0], abs=1e-9)  # down, which the turn about y leaves
    assert rotate(turn, (0, 1, 0)) == pytest.approx([1, 0, 0], abs=1e-9)  # forward, then to the right


def test_axes_of_a_joint_are_made_orthogonal():
    axes = joint_axes((1.0, 0.0, 0.0), (1.0, 0.0, -1.0))
    assert axes == pytest.approx(np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]))
    assert rotate(from_axes(axes), (0, 1, 0)) == pytest.approx([0, 0, -1], abs=1e-9)


@wp.kernel(module="unique", enable_backward=False)
def measure_cones(angles: wp.array(dtype=wp.vec2), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = past_cone(angles[i][0], angles[i][1], 0.4, 0.2)


def test_two_swings_are_limited_by_one_ellipse():
    angles = wp.array(
        [(0.5, 0.0), (0.0, -0.1), (0.4 * math.sqrt(0.5), 0.2 * math.sqrt(0.5))], dtype=wp.vec2, device="cpu"
    )
    out = wp.zeros(3, dtype=wp.vec3, device="cpu")
    wp.launch(measure_cones, 3, inputs=[angles, out], device="cpu")
    past_y, within_z, edge = out.numpy()
    assert past_y == pytest.approx([0.1, 1, 0], abs=1e-5)
    assert within_z == pytest.approx([-0.1, 0, -1], abs=1e-5)
    # on the ellipse, where its normal is (y / 0.16, z / 0.04) made a unit vector: (1, 2) / sqrt(5)
    assert edge == pytest.approx([0, 1 / math.sqrt(5), 2 / math.sqrt(5)], abs=1e-5)


def test_contacts_of_a_part_are_solved_after_its_last_joint():
    # Worm's last joint (2: parts 2 and 3) shares no part with joint 0 (parts 0 and 1), so both are in the first round,
    # 1 is in the second
    assert solving_order(Worm.creature) == [2, 0, -4, -1, 1, -3, -2]


def resting_worm() -> Worm:
    """A worm that has come to rest on the ground."""
    env = Worm(1)
    env.reset(0)
    for _ in range(60):
        act(env, torch.zeros(1, 9))
    return env


def moved(env: Worm, state: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns how far each part moves (4, 3) in the decision after a state."""
    env.load_state_dict({name: value.clone() for name, value in state.items()})
    act(env, torch.zeros(1, 9))
    return (env.state_dict()["position"] - state["position"])[0]


def test_friction_holds_a_resting_part_at_points_that_stay():
    env = resting_worm()
    before = env.state_dict()
    act(env, torch.zeros(1, 9))
    after = env.state_dict()
    assert before["touches"].tolist() == [[1, 1, 1, 1]]
    assert (before["held"] > 0).all()
    assert torch.equal(after["held_place"], before["held_place"])
    assert before["held_place"][0, ::2, 1] == pytest.approx(torch.full((4,), env.creature.floor), abs=0.02)


def test_friction_pulls_held_points_back_to_their_places():
    env = resting_worm()
    state = env.state_dict()
    without = moved(env, state)
    state["held_place"][..., 0] += 0.001  # as if the worm had slid by a millimeter
    back = moved(env, state) - without
    assert back[:, 0] == pytest.approx(torch.full((4,), 0.001), abs=3e-4)
    assert back[:, 1:].abs().max() < 3e-4


def test_a_part_that_slips_is_held_anew():
    env = resting_worm()
    state = env.state_dict()
    state["velocity"][..., 0] = 3.0
    moved(env, state)
    assert (env.state_dict()["held_place"][0, ::2, 0] > state["held_place"][0, ::2, 0] + 0.05).all()


def test_a_part_that_has_tilted_is_held_anew():
    env = resting_worm()
    state = env.state_dict()
    without = moved(env, state)
    state["held_up"][:] = torch.tensor([0.0, 0.0, 1.0])  # its points were chosen in another pose
    state["held_place"][..., 0] += 0.001
    assert (moved(env, state) - without).abs().max() < 2e-4


def test_a_fast_part_touches_the_ground_before_it_is_there():
    env = resting_worm()
    state = env.state_dict()
    state["position"][..., 1] += 0.15
    state["touches"][:] = 0
    moved(env, state)
    falls = env.state_dict()
    state["velocity"][..., 1] = -20.0  # 0.27 m a tick
    moved(env, state)
    lowest = env.state_dict()["position"][..., 1] - resting_worm().state_dict()["position"][..., 1]
    assert falls["touches"].sum() == 0  # it falls by 6 cm
    assert env.state_dict()["touches"].all()
    assert lowest.min() > -0.02  # and has not sunk in


def test_unitys_crawler_walks_here():
    env = Crawler(40)
    policy = palaestra.load_policy(MODELS / "Crawler.onnx", seed=0)
    step = env.reset(1)["Crawler"]
    total = torch.zeros(40)
    running = torch.ones(40, dtype=torch.bool)
    for _ in range(300):
        step = act(env, torch.from_numpy(policy.act([obs.numpy() for obs in step.obs]).continuous))
        total += torch.where(running, step.reward, 0)
        running &= ~(step.terminated | step.truncated)
    assert total.mean() > 0.5 * 3000 * 300 / 1000
