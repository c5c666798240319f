"""The observation `truth` for critics: the true state of an area, beyond what an agent observes.

A game lists the numbers in `WarpEnv.truth` and writes them (unless the column has width 0) when each of its agents
observes. Directions are given ahead of the agent and to its left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import warp as wp

from palaestra.core.specs import TRUTH, BehaviorSpec, ObsSpec

if TYPE_CHECKING:
    from palaestra.envs.builtin.base.env import WarpEnv


def set_truth(env: WarpEnv, state: bool) -> None:
    """Adds the observation `truth` to a new environment if `state` is set; otherwise the column is empty."""
    spec = env.spec
    assert isinstance(spec, BehaviorSpec)
    width = numbers_of(env.truth) if state else 0
    if width:
        env.spec = replace(spec, obs=(*spec.obs, ObsSpec(TRUTH, (width,))))
    env.sizes = env.sizes | dict.fromkeys(("obs_truth", "final_obs_truth"), width)


def numbers_of(parts: Sequence[tuple[str, int]]) -> int:
    """Returns the number of values in parts of an observation, each given by its description and its size."""
    return sum(size for _, size in parts)


@wp.func
def seen_from(ahead: wp.vec2, to: wp.vec2):
    """Returns a vector in the frame of an agent that looks in the unit direction `ahead`: ahead, and to its left."""
    return wp.vec2(wp.dot(ahead, to), ahead[0] * to[1] - ahead[1] * to[0])


@wp.func
def tell(truth: wp.array2d(dtype=wp.float32), row: int, at: int, pair: wp.vec2, unit: float):
    """Writes two numbers from column `at` on, in this unit; returns the next column."""
    truth[row, at] = pair[0] / unit
    truth[row, at + 1] = pair[1] / unit
    return at + 2


@wp.func
def tell_one(truth: wp.array2d(dtype=wp.float32), row: int, at: int, number: float):
    """Writes a number to column `at`; returns the next column."""
    truth[row, at] = number
    return at + 1


@wp.func
def tell_motion(
    truth: wp.array2d(dtype=wp.float32), row: int, place: wp.vec2, ahead: wp.vec2, velocity: wp.vec2, units: wp.vec2
):
    """Writes the first six numbers of every world except soccer: an agent's position, heading and velocity, in `units`
    of length and speed; returns the next column."""
    at = tell(truth, row, 0, place, units[0])
    at = tell(truth, row, at, ahead, 1.0)
    return tell(truth, row, at, seen_from(ahead, velocity), units[1])
