"""The scene of a played environment: the solids of its areas, or pictures of the areas or of agents' cameras."""

from __future__ import annotations

import time
from collections.abc import Sequence
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import PalaestraError
from palaestra.envs.solids import Drawing
from palaestra.runtime.play.assigned_brains import AgentKey
from palaestra.runtime.playback.annotations import with_arrows, with_rays
from palaestra.runtime.playback.cameras import camera_pictures
from palaestra.runtime.playback.played_env import PlayedEnv

WANTED = 2.0
"""Seconds after a request for which drawings and pictures are made."""
FRAME = 1 / 60
"""Least seconds between two drawings."""
PICTURE = 1 / 25
"""Least seconds between two pictures, which take longer than drawings."""
SCENE = 1.5
"""Width of the page's scene, as a share of its height."""

Picture = NDArray[np.uint8]
"""A picture, (H, W, 3)."""


class Display:
    """The newest drawing or picture, made by the playing thread for other threads."""

    def __init__(self) -> None:
        self._drawing: Drawing | None = None
        self._picture: bytes | None = None
        self._draws: bool | None = None  # unknown before the first attempt
        self._looked: AgentKey | None = None  # whose rays are in the drawing
        self._asked = 0.0
        self._tick = -1
        self._made = 0.0
        self._lasts = 0.0
        self._past: Drawing | None = None

    def ticks(self) -> tuple[int, float, float]:
        """Returns the number of the tick that is shown, the time when it was made, and its duration in seconds at this
        speed."""
        self._asked = time.monotonic()
        return self._tick, self._made, self._lasts

    def drawing(self) -> Drawing | None:
        """Returns the newest drawing; None if the environment describes no solids, or if there is no drawing yet."""
        self._asked = time.monotonic()
        return self._drawing

    def picture(self) -> bytes | None:
        """Returns the newest picture of the areas or of agents' cameras as a JPEG; None if there is none."""
        return self._picture

    @property
    def has_shown(self) -> bool:
        """Whether there has been a drawing or a picture."""
        return self._drawing is not None or self._picture is not None

    @property
    def draws(self) -> bool:
        """Whether the environment draws its areas, as far as this is known yet."""
        return self._draws is not False

    def look_back(self, drawing: Drawing | None) -> None:
        """Shows an earlier drawing from now on; None: shows the current play again."""
        self._past = drawing
        if drawing is not None:
            self._drawing = drawing
            self._looked = None
        else:
            self._tick = -1  # so that the present is drawn again

    def draw(self, game: PlayedEnv, lasts: float) -> None:
        """Draws the newest tick if a person watches, and if enough time has passed since the last drawing.

        `lasts`: duration of a tick in seconds at this speed; 0 if the playback is paused.
        """
        self._lasts = lasts
        now = time.monotonic()
        looked = game.looked
        if self._past is not None:
            return
        wanted = self._draws is None or now - self._asked <= WANTED
        if not wanted or (self._tick == game.tick and self._looked == looked):
            return
        drawn = game.env.traits.draws
        if lasts and now - self._made < (FRAME if drawn else PICTURE):
            return
        if drawn:
            drawing = with_arrows(game.env.drawing(np.arange(game.env.num_areas)), game.brains.taken)
            self._drawing = drawing if looked is None else with_rays(drawing, looked, game.rays(*looked))
            self._draws = True
        else:
            picture = self.render(game)
            self._picture = None if picture is None else as_jpeg(picture)
        self._tick = game.tick
        self._made = game.made
        self._looked = looked

    def render(self, game: PlayedEnv) -> Picture | None:
        """Returns the pictures of up to four areas, or of agents' cameras; None if there are neither."""
        try:
            pictures = [game.env.render(area) for area in range(min(game.env.num_areas, 4))]
        except PalaestraError:
            self._draws = False
            agents = sorted(game.brains.taken) or ([game.looked] if game.looked else [])
            return camera_pictures(game.env.behaviors, game.steps, agents)
        self._draws = True
        return in_rows(pictures)


def in_rows(pictures: Sequence[Picture]) -> Picture:
    """Returns pictures of one size as one picture, with the number of columns that fits the page's scene best."""
    height, width, _ = pictures[0].shape

    def scale(columns: int) -> float:
        return min(SCENE / (columns * width), 1 / (-(-len(pictures) // columns) * height))

    columns = max(range(1, len(pictures) + 1), key=lambda columns: (round(scale(columns), 9), -columns))
    filled = [*pictures, *[np.full_like(pictures[0], 255)] * (-len(pictures) % columns)]
    return np.concatenate([np.concatenate(filled[at : at + columns], axis=1) for at in range(0, len(filled), columns)])


def as_jpeg(picture: Picture) -> bytes:
    """Returns a picture as a JPEG."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=88)
    return file.getvalue()


def as_gif(pictures: Sequence[Picture], rate: int) -> bytes:
    """Returns pictures as an endless GIF."""
    from PIL import Image

    first, *others = [Image.fromarray(picture).quantize(64) for picture in pictures]
    file = BytesIO()
    first.save(file, "GIF", save_all=True, append_images=others, duration=round(1000 / rate), loop=0)
    return file.getvalue()
