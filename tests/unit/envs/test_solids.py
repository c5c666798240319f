"""Descriptions of what an environment looks like."""

import numpy as np
import pytest

from palaestra.envs.solids import Drawing, on_plane, solids, upright


def test_arrays_are_broadcast_to_the_positions():
    group = solids("ball", "sphere", np.zeros((2, 3, 3)), 0.5, (1, 2, 3), agents=("Ball", [0, 1, -1]))
    assert group.size.shape == group.color.shape == (2, 3, 3)
    assert group.rotation.shape == (2, 3, 4)
    assert group.rotation[1, 2].tolist() == [0, 0, 0, 1]
    assert group.slot is not None
    assert group.slot[1].tolist() == [0, 1, -1]


def test_positions_without_areas_are_refused_with_the_name_of_their_solids():
    with pytest.raises(ValueError, match=r"solids 'ball': positions have shape \(3,\), expected \(areas, solids, 3\)"):
        solids("ball", "sphere", (0, 0, 0), 1, (0, 0, 0))


def test_an_unknown_shape_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="expected one of box, sphere, cylinder, cone"):
        solids("ball", "torus", np.zeros((1, 1, 3)), 1, (0, 0, 0))  # pyright: ignore[reportArgumentType]


def test_two_groups_cannot_have_one_name():
    ball = solids("ball", "sphere", np.zeros((1, 1, 3)), 1, (0, 0, 0))
    with pytest.raises(ValueError, match="these names were given: ball, ball"):
        Drawing((ball, ball), (1, 1, 1))


def test_a_point_of_the_plane_that_lies_up_is_farther_from_the_viewer():
    assert on_plane([[1.0, 2.0]], 0.5).tolist() == [[1.0, 0.5, -2.0]]


def test_a_quarter_turn_counterclockwise_takes_x_to_minus_z():
    x, y, z, w = upright(np.pi / 2).astype(float)
    axis = np.array([x, y, z])
    turned = np.array([1.0, 0, 0]) + 2 * np.cross(axis, np.cross(axis, [1.0, 0, 0]) + w * np.array([1.0, 0, 0]))
    np.testing.assert_allclose(turned, [0, 0, -1], atol=1e-6)  # in the plane: from (1, 0) to (0, 1)
