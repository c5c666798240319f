"""Adapts the Arcade Learning Environment's own vector environment, and adds pictures, which it does not draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from palaestra.core.errors import EnvError
from palaestra.envs.gymnasium.single_envs import Start, Tick
from palaestra.envs.gymnasium.vector_envs import SameStep

WHOLE_SCREEN = {"grayscale": False, "img_height": 210, "img_width": 160, "stack_num": 1, "maxpool": False}
"""Options that give the console's screen as it is."""


def is_atari(creator: Callable[..., Any]) -> bool:
    """Whether a `vector_entry_point` makes the Arcade Learning Environment's vector environment."""
    return getattr(creator, "__module__", "") == "ale_py.vector_env"


class DrawnAtari(SameStep):
    """Atari games with pictures, from a second vector environment that plays the same games: same seeds, same actions, whole screens."""

    def __init__(self, envs: VectorEnv, screens: VectorEnv, name: str) -> None:
        """`screens`: the same games with `WHOLE_SCREEN`."""
        super().__init__(envs, name)
        self._screens = screens
        self._newest: np.ndarray | None = None

    def reset(self, seed: int) -> Start:
        """Resets every game."""
        self._newest, _ = self._screens.reset(seed=seed)
        return super().reset(seed)

    def step(self, actions: Any) -> Tick:
        """Simulates one tick."""
        self._newest = self._screens.step(actions)[0]
        return super().step(actions)

    def render(self, area: int) -> np.ndarray:
        """Returns the screen of one game. Raises EnvError before the first reset."""
        if self._newest is None:
            raise EnvError("a game has no screen before its first reset")
        return np.array(self._newest[area][0], np.uint8)

    def close(self) -> None:
        """Closes both vector environments."""
        self._screens.close()
        super().close()
