# pyright: reportArgumentType=false, reportInvalidTypeForm=false, reportIndexIssue=false
"""Pushes against momentum and friction worked by hand, with the agents and blocks of CooperativePushBlock."""

from __future__ import annotations

import math

import pytest
import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.pushblock_collab.env import CooperativePushBlock

SMALL, LARGE, HUGE = 3, 0, 1
AWAY = [(-11.0, 11.0), (0.0, 11.0), (11.0, 11.0)]
FORWARD = 1
# m/s that the floor takes from a sliding box in a tick, but for the share that drag takes of the fall
GRIP = 2 * 0.6 * 14.715 * 0.02
KEPT = {"agent": 1 - 4.0 * 0.02, "block": 1 - 0.5 * 0.02}


def laid(
    block: int | None = None,
    place: tuple[float, float] = (0.0, 0.0),
    *,
    agents: tuple[tuple[float, float], ...] = (),
    **columns: object,
):
    """An area with one block alone and agents that face the goal on the floor; those not named stand at the far
    wall.
    """
    env = CooperativePushBlock(1)
    env.reset(0)
    state = env.state_dict()
    state["gone"][:] = True
    state["body_height"][:] = state["body_rise"][:] = state["body_velocity"][:] = 0.0
    state["body_angle"][:, :3] = -math.pi / 2
    state["body_angle"][:, 3:] = 0.0
    state["body_position"][0, :3] = torch.tensor([*agents, *AWAY[len(agents) :]])
    if block is not None:
        state["gone"][0, block] = False
        state["body_position"][0, 3 + block] = torch.tensor(place)
    for name, value in columns.items():
        state[name][0, : len(value)] = torch.tensor(value)  # type: ignore[arg-type]
    env.load_state_dict(state)
    return env


def acted(env: CooperativePushBlock, *actions: int) -> dict[str, torch.Tensor]:
    chosen = torch.zeros(3, 1, dtype=torch.int64)
    chosen[: len(actions), 0] = torch.tensor(actions, dtype=torch.int64)
    env.step({env.behavior: Action(torch.zeros(3, 0), chosen)})
    return {name: column[0] for name, column in env.state_dict().items()}


def test_an_agent_speeds_up_against_drag_and_friction():
    speed = way = 0.0
    for _ in range(5):
        speed = (speed + 3.0) * KEPT["agent"] - GRIP * KEPT["agent"]
        way += speed * 0.02
    state = acted(laid(agents=((0.0, 5.0),)), FORWARD)
    assert state["body_velocity"][0].tolist() == pytest.approx([0.0, -speed], abs=1e-4)
    assert state["body_position"][0, 1].item() == pytest.approx(5.0 - way, abs=1e-4)


def test_an_agent_in_the_air_is_not_braked_by_the_floor_and_lands():
    env = laid(agents=((0.0, 5.0),), body_height=[0.5])
    speed = rise = 0.0
    height = 0.5
    for _ in range(5):
        speed = (speed + 3.0) * KEPT["agent"]
        rise = (rise - 14.715 * 0.02) * KEPT["agent"]
        height += rise * 0.02
    state = acted(env, FORWARD)
    assert state["body_velocity"][0, 1].item() == pytest.approx(-speed, abs=1e-4)
    assert state["body_height"][0].item() == pytest.approx(height, abs=1e-4)
    assert state["body_rise"][0].item() == pytest.approx(rise, abs=1e-4)
    for _ in range(3):
        state = acted(env)
    assert state["body_height"][0].item() == pytest.approx(0.0, abs=1e-4)
    assert state["body_rise"][0].item() == pytest.approx(0.0, abs=1e-4)


def test_a_landing_presses_on_the_floor_which_brakes_more():
    env = laid(agents=((0.0, 5.0),), body_height=[0.01], body_rise=[-5.0], body_velocity=[(0.0, -20.0)])
    speed = 20.0
    rise = -5.0
    height = 0.01
    for _ in range(5):
        climb = (rise - 14.715 * 0.02) * KEPT["agent"]
        rise = max(climb, -height / 0.02)
        speed = (speed + 3.0) * KEPT["agent"] - 1.2 * (rise - climb)
        height += rise * 0.02
    state = acted(env, FORWARD)
    assert state["body_velocity"][0, 1].item() == pytest.approx(-speed, abs=1e-3)


@pytest.mark.parametrize("block", [SMALL, LARGE, HUGE])
def test_a_block_slows_as_friction_and_drag_say(block: int):
    speed = 3.0
    for _ in range(5):
        speed = speed * KEPT["block"] - GRIP * KEPT["block"]
    velocity = [(0.0, 0.0)] * 3 + [(0.0, 0.0)] * block + [(3.0, 0.0)]
    state = acted(laid(block, body_velocity=velocity))
    assert state["body_velocity"][3 + block].tolist() == pytest.approx([speed, 0.0], abs=1e-3)


@pytest.mark.parametrize(
    ("block", "half", "mass", "needed"), [(SMALL, 0.5, 10.0, 1), (LARGE, 1.0, 100.0, 2), (HUGE, 1.5, 150.0, 3)]
)
def test_agents_that_push_together_move_a_block_by_their_common_momentum(
    block: int, half: float, mass: float, needed: int
):
    for pushers in range(max(needed - 1, 1), needed + 1):
        lanes = [(0.95 * (k - (pushers - 1) / 2), half + 0.5) for k in range(pushers)]
        speed = way = 0.0
        for _ in range(5):
            momentum = pushers * 10.0 * (speed + 3.0) * KEPT["agent"] + mass * speed * KEPT["block"]
            load = pushers * 10.0 * KEPT["agent"] + mass * KEPT["block"]
            speed = max((momentum - load * GRIP) / (10.0 * pushers + mass), 0.0)
            way += speed * 0.02
        state = acted(laid(block, agents=tuple(lanes)), *[FORWARD] * pushers)
        assert (speed > 0) == (pushers >= needed)
        assert state["body_velocity"][3 + block, 1].item() == pytest.approx(-speed, abs=0.02)
        assert state["body_position"][3 + block, 1].item() == pytest.approx(-way, abs=0.005)


def test_a_run_up_nudges_a_block_that_a_push_does_not_move():
    state = acted(laid(LARGE, agents=((0.0, 1.6),), body_velocity=[(0.0, -20.0)]), FORWARD)
    assert state["body_position"][3 + LARGE, 1].item() < -0.1


def test_a_push_beside_its_center_turns_a_block():
    state = acted(laid(SMALL, agents=((0.7, 1.0),)), FORWARD)
    assert state["body_angle"][3 + SMALL].item() < -0.02  # clockwise: its right side is pushed down
    mirrored = acted(laid(SMALL, agents=((-0.7, 1.0),)), FORWARD)
    assert mirrored["body_angle"][3 + SMALL].item() == pytest.approx(-state["body_angle"][3 + SMALL].item(), abs=0.02)


def test_walls_stop_what_runs_into_them():
    state = acted(laid(agents=((0.0, -11.9),), body_velocity=[(0.0, -20.0)]), FORWARD)
    assert state["body_position"][0, 1].item() == pytest.approx(-12.0, abs=0.005)
    assert state["body_velocity"][0, 1].item() == pytest.approx(0.0, abs=1e-3)


def test_bodies_that_overlap_part_without_gaining_speed():
    state = acted(laid(SMALL, agents=((0.0, 0.9),)))
    apart = state["body_position"][0, 1] - state["body_position"][3 + SMALL, 1]
    assert apart.item() == pytest.approx(1.0, abs=0.005)
    assert state["body_velocity"].abs().max() < 0.02
