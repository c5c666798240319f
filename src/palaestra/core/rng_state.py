"""Saves and restores the state of NumPy generators, in types that every file format can store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def save_rng(generator: np.random.Generator) -> dict[str, Any]:
    """Returns the state of a PCG64 generator, with its 128-bit numbers as text."""
    state = generator.bit_generator.state
    return {**state, "state": {key: str(value) for key, value in state["state"].items()}}


def restore_rng(generator: np.random.Generator, position: Mapping[str, Any]) -> None:
    """Restores a generator to a state that `save_rng` returned."""
    generator.bit_generator.state = {**position, "state": {key: int(value) for key, value in position["state"].items()}}
