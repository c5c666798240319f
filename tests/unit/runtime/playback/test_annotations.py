"""Solids that the page adds to a drawing, and pictures of several areas."""

import numpy as np
import pytest

from palaestra.envs.solids import Drawing, Solids, solids
from palaestra.runtime.playback.annotations import with_arrows
from palaestra.runtime.playback.scene_display import in_rows


def drawing(*places: tuple[float, float, float], size: float = 1.0) -> Drawing:
    slots = [list(range(len(places)))]
    return Drawing(
        (solids("agent", "box", [list(places)], size, (1, 2, 3), agents=("Runner", slots)),), (10.0, 2.0, 10.0)
    )


def arrow(drawn: Drawing) -> Solids | None:
    return next((group for group in drawn.solids if group.name == "arrows"), None)


def test_an_arrow_points_at_the_agent_of_a_person_from_above():
    found = arrow(with_arrows(drawing((1, 0, 2), (5, 0, 5)), {("Runner", 0)}))
    assert found.position[0, 0, [0, 2]].tolist() == [1, 2]
    assert found.position[0, 0, 1] - found.size[0, 0, 1] / 2 > 0.5  # above the agent's top, which it never cuts


def test_an_arrow_keeps_its_distance_to_an_agent_that_falls():
    high, low = (arrow(with_arrows(drawing((0, y, 0), (5, 0, 5)), {("Runner", 0)})) for y in (0.0, -30.0))
    # else it stays where it was between two ticks
    assert high.position[0, 0, 1] - low.position[0, 0, 1] == pytest.approx(30)


def test_an_agent_that_is_alone_or_hidden_has_no_arrow():
    assert arrow(with_arrows(drawing((0, 0, 0)), {("Runner", 0)})) is None
    hidden = arrow(with_arrows(drawing((0, 0, 0), (5, 0, 5), size=0.0), {("Runner", 0)}))
    assert not hidden.size.any()


@pytest.mark.parametrize(
    ("count", "shape", "whole"),
    [(4, (40, 60), (80, 120)), (1, (40, 60), (40, 60)), (2, (10, 60), (20, 60)), (3, (30, 30), (60, 60))],
)
def test_pictures_of_several_areas_fill_the_scene(count: int, shape: tuple[int, int], whole: tuple[int, int]):
    assert in_rows([np.zeros((*shape, 3), np.uint8)] * count).shape == (*whole, 3)
