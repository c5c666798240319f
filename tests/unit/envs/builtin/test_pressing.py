# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false

import numpy as np
import pytest
import warp as wp

from palaestra.envs.builtin.physics.pressing import fall, grown, press, press_on_plane
from palaestra.envs.builtin.physics.rigid_bodies import box_body, box_box
from palaestra.envs.builtin.sensors.rays import clear_frames, shift_frames
from palaestra.envs.builtin.sensors.sphere_casts import touches_box

wp.set_module_options({"enable_backward": False})


@wp.kernel
def meet(gap: wp.array(dtype=wp.float32), speed: wp.array(dtype=wp.float32), found: wp.array2d(dtype=wp.float32)):
    """Two boxes of 1 m and equal masses, the first of which moves toward the second."""
    i = wp.tid()
    half = wp.vec2(0.5, 0.5)
    a = box_body(wp.vec2(0.0, 0.0), wp.vec2(speed[i], 0.0), 0.0, 0.0, half, 10.0)
    b = box_body(wp.vec2(1.0 + gap[i], 0.0), wp.vec2(0.0, 0.0), 0.0, 0.0, half, 10.0)
    a, b = press(a, b, box_box(grown(a), grown(b)), 0.0)
    found[i, 0] = a.velocity[0]
    found[i, 1] = b.velocity[0]
    found[i, 2] = b.position[0] - a.position[0]
    found[i, 3] = a.half[0]


@wp.kernel
def meet_plane(gap: wp.array(dtype=wp.float32), found: wp.array2d(dtype=wp.float32)):
    """A box that moves at 4 m/s toward a plane and at 3 m/s along it, with friction of 0.6."""
    i = wp.tid()
    a = box_body(wp.vec2(0.0, 0.0), wp.vec2(-4.0, 3.0), 0.0, 0.0, wp.vec2(0.5, 0.5), 10.0)
    a = press_on_plane(a, 0, gap[i], -1.0, 0.6)
    found[i, 0] = a.velocity[0]
    found[i, 1] = a.velocity[1]
    found[i, 2] = a.position[0]


@wp.kernel
def drop(states: wp.array(dtype=wp.vec2), found: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    state, held = fall(states[i], 0.5, 0.2, 0.0)
    found[i] = wp.vec3(state[0], state[1], held)


@wp.kernel
def stack(obs: wp.array2d(dtype=wp.float32), newest: wp.array(dtype=wp.int32)):
    newest[0] = shift_frames(obs, 1, 2)
    clear_frames(obs, 2)


@wp.kernel
def touch(places: wp.array(dtype=wp.vec2), found: wp.array(dtype=wp.bool)):
    i = wp.tid()
    found[i] = touches_box(places[i], wp.vec2(1.0, 2.0), 0.5)


def array(values, dtype=wp.float32):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=dtype, device="cpu")


def test_bodies_close_a_small_gap_within_a_tick_and_part_slowly():
    gaps = [0.1, 0.01, 0.0, -0.1, -0.6]
    speeds = [6.0, 6.0, 6.0, 6.0, 0.0]
    found = wp.zeros((5, 4), dtype=wp.float32, device="cpu")
    wp.launch(meet, dim=5, inputs=[array(gaps), array(speeds), found], device="cpu")
    a, b, apart, half = found.numpy().T
    assert a == pytest.approx([6.0, 3.25, 3.0, 3.0, 0.0])  # 0.5 m/s closes 0.01 m in a tick; the rest is shared
    assert b == pytest.approx([0.0, 2.75, 3.0, 3.0, 0.0])
    assert apart == pytest.approx([1.1, 1.01, 1.0, 0.9 + 0.08, 0.4 + 0.2])
    assert half == pytest.approx([0.5] * 5)  # `grown` changes a copy


def test_a_plane_holds_a_body_and_slows_it_along():
    found = wp.zeros((4, 3), dtype=wp.float32, device="cpu")
    wp.launch(meet_plane, dim=4, inputs=[array([0.05, 0.01, 0.0, -0.1]), found], device="cpu")
    assert found.numpy()[0] == pytest.approx([-4, 3, 0])
    assert found.numpy()[1] == pytest.approx([-0.5, 3 - 0.6 * 3.5, 0])
    assert found.numpy()[2] == pytest.approx([0, 3 - 0.6 * 4, 0])
    assert found.numpy()[3] == pytest.approx([0, 3 - 0.6 * 4, 0.08])


def test_a_falling_body_is_held_by_the_floor():
    found = wp.zeros(3, dtype=wp.vec3, device="cpu")
    wp.launch(drop, dim=3, inputs=[array([(1.0, 0.0), (0.5, -3.0), (0.4, 0.0)], wp.vec2), found], device="cpu")
    assert found.numpy()[0] == pytest.approx([1 - 0.2 * 0.02, -0.2, 0])
    assert found.numpy()[1] == pytest.approx([0.5, 0, 3.2])
    assert found.numpy()[2] == pytest.approx([0.4 + 0.08, 0, 0.2])


def test_frames_move_back_by_one_in_their_own_row():
    obs = array(np.arange(24).reshape(4, 6), wp.float32)
    newest = wp.zeros(1, dtype=wp.int32, device="cpu")
    wp.launch(stack, dim=1, inputs=[obs, newest], device="cpu")
    assert newest.numpy().tolist() == [4]
    assert obs.numpy().tolist() == [[0, 1, 2, 3, 4, 5], [8, 9, 10, 11, 10, 11], [0] * 6, [18, 19, 20, 21, 22, 23]]


def test_a_circle_touches_a_box_up_to_a_trace():
    places = [(0, 0), (1.5, 0), (1.5005, 0), (1.502, 0), (0, -2.49), (1.4, 2.4), (1.3, 2.3)]
    found = wp.zeros(len(places), dtype=wp.bool, device="cpu")
    wp.launch(touch, dim=len(places), inputs=[array(places, wp.vec2), found], device="cpu")
    assert found.numpy().tolist() == [True, True, True, False, True, False, True]
