"""The parameter `gravity` of most worlds: its default, when it takes hold, what it does."""

import math
from typing import Any

import pytest
import torch
from envs.builtin.worlds import nothing

from palaestra.core.errors import EnvError
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.creatures.anatomy import Creature
from palaestra.envs.builtin.creatures.crawler import Crawler
from palaestra.envs.builtin.creatures.walker import Walker
from palaestra.envs.builtin.creatures.worm import Worm
from palaestra.envs.builtin.dungeon.env import DungeonEscape
from palaestra.envs.builtin.hallway.env import Hallway
from palaestra.envs.builtin.pushblock_collab.env import CooperativePushBlock
from palaestra.envs.builtin.soccer.env import SoccerTwos
from palaestra.envs.builtin.soccer.strikers import StrikersVsGoalie
from palaestra.envs.builtin.sorter.env import Sorter

CREATURES = (Crawler, Walker, Worm)
SOCCER = (SoccerTwos, StrikersVsGoalie)
PUSHERS = (CooperativePushBlock, DungeonEscape)
FALLING = {**dict.fromkeys((*CREATURES, *PUSHERS), 14.715), Sorter: 24.525, Hallway: 19.62}
OWN = {**FALLING, **dict.fromkeys(SOCCER, 9.81)}
TICK, CREATURES_TICK = 0.02, 0.01333


def under(kind: type[WarpEnv], *gravities: float, **columns: Any) -> WarpEnv:
    """An area for each gravity, in the same state; with columns changed."""
    env = kind(len(gravities))  # type: ignore[call-arg]
    env.set_parameters({"gravity": torch.tensor(gravities)})
    env.reset(0)
    state = env.state_dict()
    for name, column in state.items():
        if name not in ("pending", "pull"):
            each = len(column) // len(gravities)
            column.copy_(column[:each].repeat(len(gravities), *[1] * (column.ndim - 1)))
    for name, value in columns.items():
        state[name][:] = torch.as_tensor(value)
    env.load_state_dict(state)
    return env


def glides(speed: float, gravity: float, ticks: int, *, drag: float) -> float:
    """Speed of a box after some ticks on the floor, whose friction takes 1.2 of what gravity adds in a tick and drag
    leaves of it.
    """
    kept = 1 - drag * TICK
    for _ in range(ticks):
        speed = max(speed * kept - 1.2 * gravity * TICK * kept, 0.0)
    return speed


@pytest.mark.parametrize(("kind", "gravity"), OWN.items())
def test_gravity_is_the_scenes_own_unless_it_is_set(kind: type[WarpEnv], gravity: float):
    assert kind.parameter_ranges["gravity"] == (gravity, 1.0, 100.0)
    usual = kind(2)  # type: ignore[call-arg]
    usual.reset(0)
    if kind in FALLING:
        assert usual.state_dict()["pull"].tolist() == pytest.approx(
            [gravity * (CREATURES_TICK if kind in CREATURES else TICK)] * 2
        )
    with pytest.raises(EnvError, match=r"'gravity' is 0\.5, expected a number within 1\.\.100"):
        usual.set_parameters({"gravity": torch.tensor([9.81, 0.5])})


@pytest.mark.parametrize("kind", FALLING)
def test_gravity_takes_hold_with_an_areas_next_episode(kind: type[WarpEnv]):
    env = kind(2)  # type: ignore[call-arg]
    env.reset(0)
    assert kind.most_decisions is not None
    state = env.state_dict()
    before = env.state_dict()["pull"]
    state["age"][0] = (kind.most_decisions - 1) * kind.age_per_decision
    env.load_state_dict(state)
    env.set_parameters({"gravity": torch.full((2,), 50.0)})
    env.step(nothing(env))
    seconds = CREATURES_TICK if kind in CREATURES else TICK
    assert env.state_dict()["pull"].tolist() == pytest.approx([50.0 * seconds, before[1].item()])
    assert env.episodes.tolist() == [2, 1]


@pytest.mark.parametrize("kind", CREATURES)
def test_a_creature_in_the_air_gains_what_gravity_says(kind: type[Crawler] | type[Walker] | type[Worm]):
    gravities = (1.4715, 14.715, 100.0)
    env = under(kind, *gravities)
    state = env.state_dict()
    state["position"][..., 1] += 50.0
    state["block"][:, 1] = 60.0
    env.load_state_dict(state)
    env.step(nothing(env))
    creature: Creature = env.creature  # type: ignore[attr-defined]
    mass = torch.tensor([part.mass + sum(extra for extra, _ in part.extras) for part in creature.parts])
    after = env.state_dict()
    speed, fall = (
        (mass[:, None] * column[:, :, 1].T).sum(0) / mass.sum()
        for column in (after["velocity"], state["position"] - after["position"])
    )
    kept = 1 - creature.drag * CREATURES_TICK
    for area, gravity in enumerate(gravities):
        gained = [sum(gravity * CREATURES_TICK * kept**k for k in range(1, ticks + 1)) for ticks in range(1, 6)]
        assert speed[area].item() == pytest.approx(-gained[-1], rel=1e-3)
        assert fall[area].item() == pytest.approx(CREATURES_TICK * sum(gained), rel=1e-3)
        # nothing slows the block: 1 + 2 + 3 + 4 + 5 times what a tick adds
        assert after["block"][area, 1].item() == pytest.approx(60 - 15 * gravity * CREATURES_TICK**2, abs=1e-4)


def test_a_creature_on_the_ground_slides_half_as_far_where_gravity_doubles():
    gravities = (7.5, 15.0, 30.0)
    env = under(Worm, *gravities)
    for _ in range(60):
        env.step(nothing(env))
    state = env.state_dict()
    for name in ("position", "rotation", "velocity", "spin", "held", "held_point", "held_place", "held_up", "touches"):
        state[name][:] = state[name][1].clone()
    # along its axis, so that it does not roll
    along = state["position"][0, 0] - state["position"][0, 3]
    along[1] = 0.0
    state["velocity"][:] = 3.0 * along / along.norm()
    state["spin"][:] = 0.0
    env.load_state_dict(state)
    start = state["position"].mean(1)
    for _ in range(8):
        env.step(nothing(env))
    way = (env.state_dict()["position"].mean(1) - start)[:, [0, 2]].norm(dim=1)
    # friction takes 0.6 of the load at each of two points: 3 * 3 / (2 * 1.2 * gravity) is 0.5, 0.25 and 0.125 m
    assert way.tolist() == pytest.approx([0.5, 0.25, 0.125], abs=0.02)  # 3 m/s for half a tick


@pytest.mark.parametrize("kind", PUSHERS)
def test_agents_glide_and_fall_as_gravity_says(kind: type[WarpEnv]):
    gravities = (1.4715, 14.715, 29.43)
    env = under(kind, *gravities, body_height=0.0, body_angle=math.pi / 2)
    state = env.state_dict()
    apart = torch.tensor([[-4.0, 4.0], [0.0, 4.0], [4.0, 4.0]])
    state["body_position"][:, :3] = apart
    state["body_position"][:, 3:] = 100.0
    state["body_velocity"][:, 0] = torch.tensor([4.0, 0.0])
    state["body_velocity"][:, 0, 0] = 2.0
    state["body_height"][:, 1] = 2.0
    env.load_state_dict(state)
    env.step(nothing(env))
    after = env.state_dict()
    for area, gravity in enumerate(gravities):
        assert after["body_velocity"][area, 0, 0].item() == pytest.approx(glides(2.0, gravity, 5, drag=4.0), abs=1e-3)
        rise = 0.0
        for _ in range(5):
            rise = (rise - gravity * TICK) * 0.92
        assert after["body_rise"][area, 1].item() == pytest.approx(rise, rel=1e-4)


def test_a_block_stops_in_half_the_ticks_where_gravity_doubles():
    env = under(CooperativePushBlock, 7.5, 15.0, gone=True, body_height=0.0, body_angle=0.0)
    state = env.state_dict()
    state["body_position"][:, :3] = torch.tensor([[-11.0, 11.0], [0.0, 11.0], [11.0, 11.0]])
    state["gone"][:, 3] = False
    state["body_position"][:, 6] = torch.zeros(2)
    state["body_velocity"][:, 6] = torch.tensor([3.6, 0.0])
    env.load_state_dict(state)
    speeds = []
    for _ in range(4):
        env.step(nothing(env))
        speeds.append(env.state_dict()["body_velocity"][:, 6, 0].tolist())
    for decisions, pair in enumerate(speeds, 1):
        expected = [glides(3.6, gravity, 5 * decisions, drag=0.5) for gravity in (7.5, 15.0)]
        assert pair == pytest.approx(expected, abs=4e-3)
    assert speeds[2][0] > 0.5  # 3.6 m/s less 0.18 a tick would last 20 ticks, less 0.36 only 10; drag takes a little
    assert abs(speeds[1][1]) < 4e-3


def test_hallways_agent_glides_and_falls_as_gravity_says():
    gravities = (1.962, 19.62, 39.24)
    env = under(
        Hallway,
        *gravities,
        place=(0.0, -15.0),
        symbol_place=(0.0, 5.0),
        velocity=(0.0, 3.0),
        angle=math.pi / 2,
        height=0.5,
    )
    env.step(nothing(env))
    speeds = env.state_dict()["velocity"][:, 1].tolist()
    expected = [glides(3.0, gravity, 6, drag=2.0) for gravity in gravities]
    assert speeds == pytest.approx(expected, abs=1e-3)
    assert expected[2] == 0  # 0.9 m/s a tick
    env = under(Hallway, *gravities, place=(0.0, -15.0), symbol_place=(0.0, 5.0), height=20.0)
    env.step(nothing(env))
    for rise, gravity in zip(env.state_dict()["rise"].tolist(), gravities, strict=True):
        assert rise == pytest.approx(-gravity * TICK * sum(0.96**k for k in range(1, 7)), rel=1e-4)
