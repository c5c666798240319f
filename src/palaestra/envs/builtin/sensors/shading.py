"""The brightness of a surface in Unity's example scenes: one lamp, even light from all around, and a sky that surfaces
mirror.

Formulas are those of Unity's Standard shader in gamma space, but without its correction of scattered light at flat
angles. The reflected sky is one average color. Axes are Unity's: x to the right, y up, z ahead.
"""

from __future__ import annotations

import math

import warp as wp

LAMP_LIGHT, AMBIENT_LIGHT, SKY_LIGHT = (0.7, 0.69699, 0.6888), 0.8, (0.4497, 0.4998, 0.5756)
# sine of the 40 degrees by which its light falls; it comes from the right, in front, by 45 degrees
LAMP_HEIGHT = 0.64279
LAMP_WAY = wp.constant(wp.vec3(0.54168, LAMP_HEIGHT, -0.54168))  # the direction to the lamp
LAMP = wp.constant(wp.vec3(*LAMP_LIGHT))
SKY = wp.constant(wp.vec3(*SKY_LIGHT))
AROUND = wp.constant(AMBIENT_LIGHT)
IN_SHADOW = wp.constant(0.2)  # share of the lamp's light that reaches a place in a shadow
# share of light that a surface mirrors, in the shader's two setups
PLAIN = wp.constant(0.2209)
SPECULAR = wp.constant(0.2)
# share of it that shows on a half smooth surface, and on one without smoothness
GLOSS = wp.constant(0.965)
DULL_GLOSS = wp.constant(0.72)


def from_above(color: tuple[float, float, float], mirrors: float) -> tuple[float, ...]:
    """Returns the result of `lit` for a surface in the light that faces up, with the camera above.

    It is written in Python because the colors are constants of a kernel: calling a Warp function would start Warp at
    import.
    """
    parts = zip(color, LAMP_LIGHT, SKY_LIGHT, strict=True)
    return tuple(
        min((1.0 - mirrors) * part * (AMBIENT_LIGHT + LAMP_HEIGHT * lamp) + GLOSS * mirrors * sky, 1.0)
        for part, lamp, sky in parts
    )


def dull_from_above(color: tuple[float, float, float], sun: float) -> tuple[float, ...]:
    """Returns the result of `lit_dull` for a surface that faces up, with the camera above."""
    highlight = PLAIN * LAMP_HEIGHT * math.sqrt(0.5 / (LAMP_HEIGHT + 1.0))
    parts = zip(color, LAMP_LIGHT, SKY_LIGHT, strict=True)
    return tuple(
        (1.0 - PLAIN) * part * (AMBIENT_LIGHT + sun * LAMP_HEIGHT * lamp)
        + DULL_GLOSS * PLAIN * sky
        + sun * highlight * lamp
        for part, lamp, sky in parts
    )


@wp.func
def fresnel(mirrors: float, edge: float, facing: float):
    """Returns the share of light that a surface mirrors: `mirrors` seen frontally, `edge` seen from the side; `facing`:
    the cosine of the angle."""
    flat = 1.0 - facing
    return mirrors + (edge - mirrors) * flat * flat * flat * flat * flat


@wp.func
def lit(color: wp.vec3, mirrors: float, normal: wp.vec3, to_eye: wp.vec3, sun: float):
    """Returns the color of a half smooth surface without highlights; `sun` is the share of the lamp's light that
    reaches it.

    `normal` and `to_eye`, the direction to the camera, are unit vectors.
    """
    faces_lamp = wp.max(wp.dot(normal, LAMP_WAY), 0.0)
    light = wp.vec3(AROUND, AROUND, AROUND) + sun * faces_lamp * LAMP
    mirrored = GLOSS * fresnel(mirrors, 0.5 + mirrors, wp.max(wp.dot(normal, to_eye), 0.0))
    return wp.min((1.0 - mirrors) * wp.cw_mul(color, light) + mirrored * SKY, wp.vec3(1.0, 1.0, 1.0))


@wp.func
def lit_dull(color: wp.vec3, normal: wp.vec3, to_eye: wp.vec3, sun: float):
    """Returns the color of a rough surface with highlights, in the simple setup; the arguments are those of `lit`."""
    faces_lamp = wp.max(wp.dot(normal, LAMP_WAY), 0.0)
    faces_eye = wp.max(wp.dot(normal, to_eye), 0.0)
    light = wp.vec3(AROUND, AROUND, AROUND) + sun * faces_lamp * LAMP
    highlight = PLAIN * faces_lamp * wp.sqrt(0.5 / wp.max(faces_lamp + faces_eye, 1.0e-3))
    scattered = (1.0 - PLAIN) * wp.cw_mul(color, light)
    return wp.min(scattered + DULL_GLOSS * PLAIN * SKY + sun * highlight * LAMP, wp.vec3(1.0, 1.0, 1.0))
