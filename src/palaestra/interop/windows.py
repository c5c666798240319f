"""Pictures of an environment for Gymnasium's and PettingZoo's render modes, and a window for people."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.interop.opened_env import OpenedEnv

ARRAY, HUMAN = "rgb_array", "human"


def render_modes(env: OpenedEnv) -> list[str]:
    """Returns the render modes of an environment. A game in a separate process draws in its own window."""
    return [HUMAN, ARRAY] if env.can_draw else [HUMAN]


class Window:
    """Shows the pictures of an environment: in a window at the environment's own speed, or as arrays."""

    def __init__(self, env: OpenedEnv) -> None:
        self._env = env
        self._image: Any = None
        self._next_at = 0.0

    @classmethod
    def for_mode(cls, mode: str | None, env: OpenedEnv) -> Window:
        """Makes a window for a render mode. Raises EnvError for a mode that the environment does not have."""
        known = render_modes(env)
        if mode is not None and mode not in known:
            raise EnvError(f"{env.name} has no render mode '{mode}'{nearest(mode, known)} (it has: {', '.join(known)})")
        return cls(env)

    def picture(self, mode: str | None) -> np.ndarray | None:
        """Returns the picture that `render` returns in a mode: None in other modes than `rgb_array`."""
        if mode is None:
            warnings.warn(
                "render() without a render mode: make the environment with render_mode='rgb_array' or 'human'",
                stacklevel=3,
            )
        return self._env.render() if mode == ARRAY else None

    def show(self, mode: str | None) -> None:
        """Shows the current state of the environment in mode `human`; waits so that it runs at its own speed."""
        if mode != HUMAN or not self._env.can_draw:
            return
        from matplotlib import pyplot

        picture = self._env.render()
        if self._image is None:
            if pyplot.get_backend().lower() == "agg":
                warnings.warn(
                    "render_mode='human' shows nothing: there is no display (render_mode='rgb_array' returns pictures)",
                    stacklevel=4,
                )
            figure = pyplot.figure(self._env.name)
            self._image = figure.add_axes((0.0, 0.0, 1.0, 1.0)).imshow(picture)
        self._image.set_data(picture)
        figure = self._image.figure
        figure.canvas.draw_idle()
        figure.canvas.flush_events()
        seconds = self._env.env.tick_seconds or 0.0
        time.sleep(max(0.0, min(self._next_at - time.monotonic(), seconds)))
        self._next_at = time.monotonic() + seconds

    def close(self) -> None:
        """Closes the window."""
        if self._image is not None:
            from matplotlib import pyplot

            pyplot.close(self._image.figure)
            self._image = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_image": None}
