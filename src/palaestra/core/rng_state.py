"""The position of a stream of random numbers, in types that every file format takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def save_rng(generator: np.random.Generator) -> dict[str, Any]:
    """Where a PCG64 generator is; its numbers of 128 bits as text."""
    state = generator.bit_generator.state
    return {**state, "state": {key: str(value) for key, value in state["state"].items()}}


def restore_rng(generator: np.random.Generator, position: Mapping[str, Any]) -> None:
    """Has a generator go on from there."""
    generator.bit_generator.state = {**position, "state": {key: int(value) for key, value in position["state"].items()}}
