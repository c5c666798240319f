"""Facts that weights do not show, as the command line and Python give them: observations, actions, activation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from palaestra.core.errors import ConfigError

Shape = tuple[int, ...]
MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Facts about a policy that replace those found in its file."""

    obs: tuple[Shape, ...] | None = None
    """Shape of each observation, in the order in which Unity has the sensors: (n,), or (C, H, W) of an image."""
    continuous: int | None = None
    """Number of continuous actions."""
    branches: tuple[int, ...] | None = None
    """Number of choices of each discrete branch."""
    bounds: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Lower and upper bounds of the environment's continuous actions; a single number applies to all of them."""
    activation: str | None = None
    """Name of the activation between hidden layers."""
    normalizer: Path | str | None = None
    """File with statistics of observations: VecNormalize's .pkl, or an .npz with `mean` and `var`."""


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """Reads '8,3x84x84' as ((8,), (3, 84, 84)). Raises ConfigError."""
    shapes = []
    for part in text.split(","):
        sizes = part.strip().split("x")
        if len(sizes) not in (1, 3) or not all(
            re.fullmatch(r"[0-9]{1,7}", size) and 0 < int(size) <= MOST for size in sizes
        ):
            raise ConfigError(
                f"--obs-shape {text}: '{part.strip()}' is no shape; expected a length such as 8, or CxHxW of an image "
                "such as 3x84x84, with commas between observations"
            )
        shapes.append(tuple(int(size) for size in sizes))
    return tuple(shapes)


def parse_actions(text: str) -> tuple[int | None, tuple[int, ...] | None]:
    """Reads 'continuous:6' as (6, None) and 'discrete:3,2' as (None, (3, 2)). Raises ConfigError."""
    kind, _, numbers = text.partition(":")
    sizes = numbers.split(",")
    fits = all(re.fullmatch(r" *[0-9]{1,7} *", size) and 0 < int(size) <= MOST for size in sizes)
    if kind == "continuous" and fits and len(sizes) == 1:
        return int(numbers), None
    if kind == "discrete" and fits:
        return None, tuple(int(size) for size in sizes)
    raise ConfigError(
        f"--actions {text}: expected continuous:NUMBER or discrete:CHOICES,CHOICES,... such as continuous:6 or "
        "discrete:3,2"
    )


def parse_bounds(numbers: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Reads lower bounds and then as many upper ones: [-1, -2, 1, 2] as ((-1, -2), (1, 2)). Raises ConfigError."""
    half = len(numbers) // 2
    low = tuple(numbers[:half])
    high = tuple(numbers[half:])
    if len(low) != len(high) or not all(isfinite(a) and isfinite(b) and a < b for a, b in zip(low, high, strict=False)):
        given = " ".join(f"{number:g}" for number in numbers)
        raise ConfigError(
            f"--bounds {given}: expected LOW HIGH, or all lower bounds and then all upper ones, such as -2 2 or -1 0 "
            "1 0.5"
        )
    return low, high


def spread_bounds(
    bounds: tuple[Sequence[float], Sequence[float]], size: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns bounds for each of `size` actions. Raises ConfigError if another number of bounds is given."""
    low, high = (tuple(side) * (size if len(side) == 1 else 1) for side in bounds)
    if (len(low), len(high)) != (size, size):
        raise ConfigError(f"--bounds has {len(low)} numbers on a side; the policy has {size} continuous actions")
    return low, high
