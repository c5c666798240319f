"""Colors of lit surfaces, with numbers worked by hand."""

import numpy as np
import pytest
import warp as wp

from palaestra.envs.builtin.sensors.shading import PLAIN, SPECULAR, dull_from_above, from_above, lit, lit_dull

BLUE, DARK = (0.129, 0.588, 0.953), (0.116, 0.116, 0.116)
UP = (0.0, 1.0, 0.0)


@wp.kernel
def shade(
    color: wp.vec3,
    mirrors: float,
    normal: wp.vec3,
    to_eye: wp.vec3,
    sun: float,
    is_dull: bool,
    seen: wp.array(dtype=wp.vec3),
):
    if is_dull:
        seen[0] = lit_dull(color, normal, to_eye, sun)
    else:
        seen[0] = lit(color, mirrors, normal, to_eye, sun)


def shaded(
    color: tuple[float, ...],
    mirrors: float,
    normal: tuple[float, ...],
    to_eye: tuple[float, ...],
    sun: float = 1.0,
    dull: bool = False,
) -> list[float]:
    seen = wp.zeros(1, dtype=wp.vec3, device="cpu")
    vectors = [wp.vec3(*vector) for vector in (color, normal, to_eye)]
    wp.launch(shade, dim=1, inputs=[vectors[0], mirrors, vectors[1], vectors[2], sun, dull, seen], device="cpu")
    return seen.numpy()[0].tolist()


def test_a_side_in_the_light_scatters_and_mirrors():
    # red: 0.8 * 0.129 * (0.8 + 0.54168 * 0.7) + 0.965 * 0.2 * 0.4497 = 0.1217 + 0.0868
    # green: 0.8 * 0.588 * (0.8 + 0.54168 * 0.69699) + 0.965 * 0.2 * 0.4998 = 0.5539 + 0.0965; blue is more than 1
    assert shaded(BLUE, float(SPECULAR), (0.0, 0.0, -1.0), (0.0, 0.0, -1.0)) == pytest.approx(
        [0.2085, 0.6504, 1.0], abs=1e-3
    )


def test_a_shadow_and_a_side_that_turns_from_the_lamp_show_the_light_around():
    # red in the shadow: 0.7791 * 0.116 * (0.8 + 0.2 * 0.64279 * 0.7) + 0.965 * 0.2209 * 0.4497
    in_shadow = shaded(DARK, float(PLAIN), UP, UP, sun=0.2)
    assert in_shadow[0] == pytest.approx(0.7791 * 0.116 * 0.89 + 0.0959, abs=1e-3)
    away = shaded(DARK, float(PLAIN), (-1.0, 0.0, 0.0), (-1.0, 0.0, 0.0))
    assert away[0] == pytest.approx(0.7791 * 0.116 * 0.8 + 0.0959, abs=1e-3)


def test_what_is_seen_from_the_side_mirrors_more():
    # facing 0.1: 0.9 ** 5 = 0.59049 of the way from 0.2 to 0.7, 0.49525
    way = (0.0, 0.1, float(np.sqrt(0.99)))
    frontal = shaded((0.0, 0.0, 0.0), float(SPECULAR), UP, UP)
    flat = shaded((0.0, 0.0, 0.0), float(SPECULAR), UP, way)
    assert flat[0] == pytest.approx(0.965 * 0.49525 * 0.4497, abs=1e-4)
    assert frontal[0] == pytest.approx(0.965 * 0.2 * 0.4497, abs=1e-4)


@pytest.mark.parametrize("sun", [1.0, 0.2])
def test_views_from_above_agree_with_those_in_kernels(sun: float):
    assert shaded(BLUE, float(SPECULAR), UP, UP) == pytest.approx(list(from_above(BLUE, float(SPECULAR))), abs=1e-5)
    assert shaded(DARK, float(PLAIN), UP, UP, sun, dull=True) == pytest.approx(
        list(dull_from_above(DARK, sun)), abs=1e-5
    )
