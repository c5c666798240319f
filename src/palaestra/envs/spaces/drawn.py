"""Pictures that environments of Gymnasium and PettingZoo draw: sets their render mode, and checks what `render`
returns."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

import numpy as np

from palaestra.core.errors import EnvError

MODE = "rgb_array"
METHOD = (
    "`render(self)`, which returns an array (height, width, 3) of whole numbers from 0 to 255, and "
    "metadata = {'render_modes': ['rgb_array']}"
)


def prepare_drawing(env: Any, bases: Collection[type], name: str) -> None:
    """Sets the render mode rgb_array in an environment without one, since a user's class need not have this argument.

    `bases`: classes whose `render` draws nothing. Raises EnvError for a class without its own `render`, and for another
    render mode.
    """
    inner = env.unwrapped
    render = getattr(type(inner), "render", None)
    if render is None or any(render is getattr(base, "render", None) for base in bases):
        raise EnvError(f"{name} cannot be drawn: its class {type(inner).__name__} has no `render`; add {METHOD}")
    mode = getattr(env, "render_mode", None)
    if mode is None:
        with suppress(Exception):  # a class of one's own may forbid it
            inner.render_mode = MODE
    elif not str(mode).startswith(MODE):
        raise EnvError(
            f"{name} cannot be drawn as a picture: its render_mode is {mode!r}; leave out the option render_mode, or "
            f"give {MODE!r}"
        )


def picture(drawn: Any, name: str) -> np.ndarray:
    """Returns what `render` returned as a picture (height, width, 3), uint8. Raises EnvError if it is no picture."""
    if isinstance(drawn, list) and drawn and isinstance(drawn[-1], np.ndarray):
        drawn = drawn[-1]  # of the mode rgb_array_list: all since the last call
    shown = drawn if isinstance(drawn, np.ndarray) else np.zeros(0)
    if shown.ndim == 2:
        shown = shown[:, :, None]
    is_picture = shown.ndim == 3 and shown.shape[-1] in (1, 3, 4) and shown.size and shown.dtype.kind in "buif"
    if not is_picture:
        what = f"an array {drawn.shape} of {drawn.dtype}" if isinstance(drawn, np.ndarray) else f"{drawn!r:.60}"
        raise EnvError(
            f"{name} cannot be drawn: its `render` returned {what}; expected an array (height, width, 3) of whole "
            f"numbers from 0 to 255, where self.render_mode is '{MODE}'"
        )
    if shown.dtype.kind in "bf" and shown.max() <= 1:
        shown = shown * 255.0
    return np.broadcast_to(shown[:, :, :3], (*shown.shape[:2], 3)).clip(0, 255).astype(np.uint8)
