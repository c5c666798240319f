"""Rays in observations, as the page shows them."""

import math

import numpy as np
import pytest
import torch

import palaestra
from palaestra.envs.ray_fans import RayFan, unity_order
from palaestra.envs.solids import Drawing
from palaestra.runtime.playback.annotations import HIT_COLORS, with_rays
from palaestra.runtime.playback.played_env import PlayedEnv


def test_rays_are_in_the_order_of_unity():
    assert unity_order(5, 0.5) == (0.0, -0.5, 0.5, -1.0, 1.0)
    assert unity_order(1, 0.5, ahead=2.0) == (2.0,)


def test_numbers_of_a_ray_are_a_tag_a_flag_and_a_share_of_the_length():
    fan = RayFan("rays", (0.0, -0.5, 0.5), 20.0, ("ball", "wall"), first=1)
    first, second, third = fan.hits(np.array([9, 0, 1, 0, 0.25, 0, 0, 1, 1, 0, 0, 0, 0.5], np.float32))
    assert (first.tag, first.distance, first.hit) == (1, 5.0, True)
    assert (second.tag, second.distance, second.hit) == (None, 20.0, False)
    assert (third.tag, third.distance, third.hit) == (None, 10.0, True)  # something without a tag
    assert [first.angle, second.angle, third.angle] == [0.0, -0.5, 0.5]


def started(name: str, areas: int, seed: int) -> PlayedEnv:
    game = PlayedEnv(palaestra.make(name, areas=areas), lambda behavior, team: pytest.fail("nobody acts"), 0)
    game.restart(seed)
    return game


def drawn_ends(
    name: str, slot: int, areas: int = 3, seed: int = 5
) -> tuple[Drawing, list[tuple[str, np.ndarray]], int]:
    """Returns the drawing, and what each ray that hit has hit, with the place in the scene where it ends."""
    game = started(name, areas, seed)
    acting = (name for name, step in game.steps.items() if slot < len(step.acting) and bool(step.acting[slot]))
    behavior = next(acting)
    fans = game.rays(behavior, slot)
    drawing = with_rays(game.env.drawing(np.arange(areas)), (behavior, slot), fans)
    ends = next(group for group in drawing.solids if group.name == "ray ends")
    (area,) = np.flatnonzero(ends.size.any((1, 2)))
    hits = [(fan, hit) for fan, values in fans for hit in fan.hits(values)]
    found = [
        ("" if hit.tag is None else fan.tags[hit.tag], ends.position[area, k])
        for k, (fan, hit) in enumerate(hits)
        if hit.hit
    ]
    game.env.close()
    assert found
    return drawing, found, int(area)


# a ball of 0.5 m ends that far from the wall
@pytest.mark.parametrize(("name", "half"), [("PushBlock", (12.0, 12.0)), ("Hallway", (9.0, 24.25))])
def test_rays_that_hit_the_wall_end_at_it(name: str, half: tuple[float, float]):
    _, found, _ = drawn_ends(name, 1)
    walls = np.array([place for tag, place in found if tag == "wall"])
    assert len(walls) > 1
    gap = np.minimum(np.abs(np.abs(walls[:, 0]) - half[0]), np.abs(np.abs(walls[:, 2]) - half[1]))
    assert gap.max() < 1e-3


# a ray ends where its sphere touches the thing: SoccerTwos' is half a meter above the ball and of radius 0.5
@pytest.mark.parametrize(
    ("name", "tag", "solid", "reach"), [("SoccerTwos", "ball", "ball", math.sqrt(1.1242**2 - 0.25))]
)
def test_rays_end_at_the_thing_that_they_report(name: str, tag: str, solid: str, reach: float):
    seen = 0
    for slot in range(6):
        drawing, found, area = drawn_ends(name, slot, areas=4)
        thing = next(group for group in drawing.solids if group.name == solid).position[area, 0]
        for place in (place for what, place in found if what == tag):
            seen += 1
            assert math.dist(place[[0, 2]], thing[[0, 2]]) == pytest.approx(reach, abs=1e-3)
    assert seen > 3


def test_rays_end_half_a_meter_from_the_box_that_they_report():
    seen = 0
    for slot in range(12):
        drawing, found, area = drawn_ends("DungeonEscape", slot, areas=4)
        dragon = next(group for group in drawing.solids if group.name == "dragon's body")
        turn = np.array(turned_x(dragon.rotation[area, 0]))
        for place in (np.asarray(place) for what, place in found if what == "dragon"):
            to = (place - dragon.position[area, 0])[[0, 2]]
            along = abs(to @ turn[[0, 2]])
            across = abs(to @ np.array([-turn[2], turn[0]]))
            seen += 1
            assert math.hypot(max(along - 0.75, 0), max(across - 0.75, 0)) == pytest.approx(0.5, abs=1e-3)
    assert seen > 3


def test_the_rays_of_an_agent_are_drawn_in_its_own_area_alone():
    drawing, found, area = drawn_ends("PushBlock", 2)
    lines = next(group for group in drawing.solids if group.name == "rays")
    assert area == 2
    assert not lines.size[:2].any()
    assert lines.position.shape[1] == 14
    assert "wall" in [tag for tag, _ in found]
    assert HIT_COLORS[2] in [tuple(color) for color in lines.color[2]]


@pytest.mark.parametrize(
    "name", ["PushBlock", "Hallway", "SoccerTwos", "StrikersVsGoalie", "Pyramids", "WallJump", "DungeonEscape"]
)
def test_a_line_runs_from_the_agent_to_the_end_of_its_ray(name: str):
    game = started(name, 2, 3)
    for behavior, step in game.steps.items():
        for slot in torch.nonzero(step.acting)[:, 0].tolist():
            drawing = with_rays(game.env.drawing(np.arange(2)), (behavior, slot), game.rays(behavior, slot))
            lines, ends = (
                next(group for group in drawing.solids if group.name == part) for part in ("rays", "ray ends")
            )
            area = int(np.flatnonzero(lines.size.any((1, 2)))[0])
            axis = np.array([turned_x(turn) for turn in lines.rotation[area]])
            half = lines.size[area, :, :1] / 2
            np.testing.assert_allclose(lines.position[area] + axis * half, ends.position[area], atol=1e-4)
    game.env.close()


def turned_x(turn: np.ndarray) -> list[float]:
    """Where the x axis goes under a quaternion (x, y, z, w)."""
    x, y, z, w = turn.tolist()
    return [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
