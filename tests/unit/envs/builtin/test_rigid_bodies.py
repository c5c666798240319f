# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false, reportCallIssue=false

import math
from typing import Any

import numpy as np
import pytest
import warp as wp

from palaestra.envs.builtin.physics.rigid_bodies import (
    GRAVITY,
    SECONDS,
    STILL,
    Body,
    add_speed,
    advance,
    apply_drag,
    box_box,
    circle_circle,
    keep_box_within,
    resolve_contact,
    rub,
)

wp.set_module_options({"enable_backward": False})

DISC = wp.constant(0)
BOX = wp.constant(1)
ROOM = wp.constant(6.0)


@wp.func
def copied(body: Body):
    return body


@wp.kernel
def collide(bodies: wp.array2d(dtype=Body), kind: int, friction: float, ticks: int):
    """Two free bodies, for some ticks."""
    i = wp.tid()
    a = copied(bodies[i, 0])
    b = copied(bodies[i, 1])
    for _ in range(ticks):
        if kind == DISC:
            a, b = resolve_contact(a, b, circle_circle(a, b), friction)
        else:
            a, b = resolve_contact(a, b, box_box(a, b), friction)
        a = advance(a)
        b = advance(b)
    bodies[i, 0] = a
    bodies[i, 1] = b


@wp.kernel
def slide(bodies: wp.array2d(dtype=Body), sticking: float, sliding: float, push: float, ticks: int):
    """One body on the ground, pushed by a little each tick."""
    i = wp.tid()
    body = copied(bodies[i, 0])
    for _ in range(ticks):
        rested = wp.length(body.velocity) < STILL and wp.abs(body.spin) < STILL
        body = add_speed(body, wp.vec2(1.0, 0.0), push)
        holding = wp.where(rested, wp.max(sticking, sliding), sliding)
        body = rub(body, holding * GRAVITY * SECONDS, sliding * GRAVITY * SECONDS)
        body = advance(body)
    bodies[i, 0] = body


@wp.kernel
def roam(bodies: wp.array2d(dtype=Body), seed: int, ticks: int):
    """A box that a random force drives about a room, and another that it pushes."""
    i = wp.tid()
    agent = copied(bodies[i, 0])
    block = copied(bodies[i, 1])
    state = wp.rand_init(seed, i)
    way = wp.vec2(0.0, 0.0)
    for k in range(ticks):
        if k % 20 == 0:
            way = wp.sample_unit_ring(state)
        agent = add_speed(apply_drag(agent, 5.0, 0.0), way, 1.0)
        agent, block = resolve_contact(agent, block, box_box(agent, block), 0.3)
        agent = advance(agent)
        block = advance(apply_drag(block, 0.5, 0.5))
        block = keep_box_within(block, wp.vec2(ROOM, ROOM), 0.3)
        agent = keep_box_within(agent, wp.vec2(ROOM, ROOM), 0.3)
    bodies[i, 0] = agent
    bodies[i, 1] = block


def body(position=(0.0, 0.0), velocity=(0.0, 0.0), angle=0.0, spin=0.0, half=(0.5, 0.5), mass=1.0, turns=True) -> Any:
    made = Body()
    made.position = wp.vec2(*position)
    made.velocity = wp.vec2(*velocity)
    made.angle = angle
    made.spin = spin
    made.half = wp.vec2(*half)
    made.inverse_mass = 1 / mass
    made.inverse_inertia = 3 / mass / (half[0] ** 2 + half[1] ** 2) if turns else 0.0
    return made


def run(kernel: Any, pairs: list[tuple[Any, ...]], *inputs: Any) -> np.ndarray:
    """(pairs, bodies of each) records of the bodies afterwards."""
    bodies = wp.array([one for pair in pairs for one in pair], dtype=Body, device="cpu").reshape(
        (len(pairs), len(pairs[0]))
    )
    wp.launch(kernel, dim=len(pairs), inputs=[bodies, *inputs], device="cpu")
    return bodies.numpy().reshape(len(pairs), -1)


def momenta(found: np.ndarray) -> np.ndarray:
    """Linear and angular momentum of each pair, (pairs, 3)."""
    mass = 1 / found["inverse_mass"][..., None]
    turning = np.divide(
        1.0, found["inverse_inertia"], where=found["inverse_inertia"] > 0, out=np.zeros_like(found["inverse_inertia"])
    )
    linear = mass * found["velocity"]
    x = found["position"].astype(np.float64)
    v = linear.astype(np.float64)
    angular = x[..., 0] * v[..., 1] - x[..., 1] * v[..., 0] + turning * found["spin"]
    return np.concatenate([linear.sum(1), angular.sum(1)[:, None]], 1)


def meetings(kind: int, count: int = 200) -> list[tuple[Any, Any]]:
    """Bodies that fly at one another, off the middle and turned as chance has it."""
    rng = np.random.default_rng(kind)
    pairs = []
    for _ in range(count):
        where = rng.uniform(-0.4, 0.4, (2, 2))
        angles = rng.uniform(-3, 3, 2)
        masses = rng.uniform(0.5, 4, 2)
        a = body(
            where[0] - [1.5, 0], (3, rng.normal()), angles[0], rng.normal(), (0.5, 0.5), masses[0], turns=kind == BOX
        )
        half = (0.5, 0.5) if kind == DISC else (0.9, 0.6)
        b = body(where[1] + [1.5, 0], (-2, rng.normal()), angles[1], rng.normal(), half, masses[1], turns=kind == BOX)
        pairs.append((a, b))
    return pairs


@pytest.mark.parametrize("kind", [DISC, BOX], ids=["circles", "boxes"])
def test_a_collision_of_free_bodies_keeps_their_momentum_and_wins_no_energy(kind: int):
    before = run(collide, meetings(kind), kind, 0.5, 0)
    after = run(collide, meetings(kind), kind, 0.5, 60)
    assert (np.abs(after["velocity"] - before["velocity"]).max((1, 2)) > 0.1).mean() > 0.6  # most did meet
    np.testing.assert_allclose(momenta(after)[:, :2], momenta(before)[:, :2], atol=1e-4)

    def energy(found: np.ndarray) -> np.ndarray:
        inertia = np.where(found["inverse_inertia"] > 0, 1 / np.maximum(found["inverse_inertia"], 1e-9), 0)
        return ((found["velocity"] ** 2).sum(-1) / found["inverse_mass"] + inertia * found["spin"] ** 2).sum(1)

    assert (energy(after) <= energy(before) * 1.0001).all()


def test_one_impulse_between_boxes_keeps_their_angular_momentum_too():
    pairs = [(body((0, 0), (2, 0.5), 0.2, 1.0), body((1.0, 0.3), (-1, 0), 0.9, -0.5, (0.7, 0.4), 2.0))]
    before = run(collide, pairs, BOX, 0.5, 0)
    after = run(collide, pairs, BOX, 0.5, 1)
    after["position"] = before["position"]  # overlap is moved apart, and a tick has moved them on
    assert np.abs(after["velocity"] - before["velocity"]).max() > 0.1
    np.testing.assert_allclose(momenta(after), momenta(before), atol=1e-5)


def test_after_a_head_on_collision_equal_bodies_move_as_one():
    found = run(collide, [(body((-1.0, 0), (4, 0)), body((1.0, 0), (0, 0)))], BOX, 0.5, 30)[0]
    np.testing.assert_allclose(found["velocity"], [[2, 0], [2, 0]], atol=1e-5)
    np.testing.assert_allclose(found["spin"], 0, atol=1e-5)


def test_boxes_that_met_do_not_overlap():
    found = run(collide, [(body((0, 0), mass=1.0), body((0.8, 0.1), angle=0.3, half=(1.0, 0.5)))], BOX, 0.0, 10)[0]
    turn = found["angle"]
    gap = found["position"][1] - found["position"][0]
    reach = 0.5 + abs(math.cos(turn[1] - turn[0])) * 1.0 + abs(math.sin(turn[1] - turn[0])) * 0.5
    assert max(abs(gap)) > min(reach, 1.0) - 0.01


@pytest.mark.parametrize(("aside", "sense"), [(0.8, -1), (-0.8, 1), (0.0, 0)])
def test_a_box_that_is_pushed_off_its_middle_turns_the_right_way(aside: float, sense: int):
    pusher = body((-1.55, aside), (2, 0), mass=10.0, turns=False)
    found = run(collide, [(pusher, body(half=(1.0, 1.0)))], BOX, 0.3, 5)[0]
    assert found["velocity"][1][0] > 0.5
    assert found["spin"][1] * sense > 0.1 if sense else abs(found["spin"][1]) < 1e-4


@pytest.mark.parametrize(("speed", "friction"), [(4.0, 0.5), (2.0, 1.0), (6.0, 0.3)])
def test_friction_stops_a_sliding_box_after_v_squared_over_two_mu_g(speed: float, friction: float):
    found = run(slide, [(body(velocity=(speed, 0)),)], friction, friction, 0.0, 500)[0, 0]
    way = speed**2 / (2 * friction * 9.81)
    assert found["velocity"].tolist() == [0, 0]
    assert found["position"][0] == pytest.approx(way, abs=speed * 0.02)


def test_static_friction_holds_what_dynamic_friction_would_let_go():
    push = 0.6 * 9.81 * 0.02
    held = run(slide, [(body(),)], 0.7, 0.5, push, 50)[0, 0]
    sliding = run(slide, [(body(velocity=(0.5, 0)),)], 0.7, 0.5, push, 50)[0, 0]
    assert held["position"].tolist() == [0, 0]
    assert sliding["velocity"][0] == pytest.approx(0.5 + 50 * 0.1 * 9.81 * 0.02, abs=0.01)


def test_friction_stops_a_turning_box_and_nothing_else_does():
    assert run(slide, [(body(spin=3.0),)], 0.5, 0.5, 0.0, 200)[0, 0]["spin"] == 0
    assert run(slide, [(body(spin=3.0),)], 0.0, 0.0, 0.0, 200)[0, 0]["spin"] == 3


def test_boxes_never_leave_the_room():
    pairs = [(body((-4, -4)), body((-1.5, -3.0), half=(1.0, 1.0), mass=2.0)) for _ in range(64)]
    for ticks in (10, 300, 301, 2000):
        found = run(roam, pairs, 3, ticks)
        for k, half in enumerate((0.5, 1.0)):
            c = np.abs(np.cos(found[:, k]["angle"]))
            s = np.abs(np.sin(found[:, k]["angle"]))
            assert (np.abs(found[:, k]["position"]) + half * (c + s)[:, None]).max() <= 6.0 + 1e-4
    assert np.linalg.norm(found[:, 1]["position"] - [-1.5, -3.0], axis=1).max() > 1.0  # some was pushed about


def test_drag_takes_the_share_that_physx_takes():
    @wp.kernel(module="unique")
    def drag(bodies: wp.array2d(dtype=Body), rate: float):
        bodies[0, 0] = apply_drag(bodies[0, 0], rate, 2.0 * rate)

    found = run(drag, [(body(velocity=(1, 2), spin=3.0),)], 5.0)[0, 0]
    np.testing.assert_allclose([*found["velocity"], found["spin"]], [0.9, 1.8, 2.4], rtol=1e-6)
    assert run(drag, [(body(velocity=(1, 2)),)], 2000.0)[0, 0]["velocity"].tolist() == [0, 0]
