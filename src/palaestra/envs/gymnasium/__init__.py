"""Gymnasium environments and vector environments as an `Env`."""

from __future__ import annotations

from palaestra.envs.gymnasium.env import DEFAULT_AREAS, GymnasiumEnv
from palaestra.envs.gymnasium.ids import drawn_by

__all__ = ["DEFAULT_AREAS", "GymnasiumEnv", "drawn_by"]
