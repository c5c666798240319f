"""Makes the picture at the top of README, `docs/images/overview.webp`: `python docs/make_hero.py`.

It shows the sheet of worlds while they are played, then the page. `docs/make_pictures.py` and `docs/page_pictures.py`
make these.
"""

from __future__ import annotations

from itertools import pairwise

from make_pictures import FPS, IMAGES, save_webp
from PIL import Image, ImageSequence

STILLS = ("page-learns", "page-watch", "page-play")
STILL_SECONDS = 2.2
FADE = 10
"""Pictures from one scene to the next."""


def fitted(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Returns the upper part of a picture, as wide and as high as asked for."""
    width, height = size
    full = (width, round(picture.height * width / picture.width))
    scaled = picture.convert("RGB").resize(full, Image.Resampling.LANCZOS)
    canvas = Image.new("RGB", size, scaled.getpixel((2, scaled.height - 3)))
    canvas.paste(scaled.crop((0, 0, width, min(height, scaled.height))))
    return canvas


def scenes() -> list[list[Image.Image]]:
    """Returns the pictures of each scene: the worlds, then each still of the page."""
    with Image.open(IMAGES / "worlds.webp") as sheet:
        worlds = [frame.convert("RGB") for frame in ImageSequence.Iterator(sheet)]
    found = [worlds[: round(5 * FPS)]]
    for name in STILLS:
        with Image.open(IMAGES / f"{name}.png") as still:
            found.append([fitted(still, worlds[0].size)] * round(STILL_SECONDS * FPS))
    return found


def faded(parts: list[list[Image.Image]]) -> list[Image.Image]:
    """Returns the scenes one after the other, the first again at the end, each fading into the next."""
    frames = list[Image.Image]()
    for part, after in pairwise([*parts, parts[0]]):
        frames += part
        frames += [Image.blend(part[-1], after[0], (i + 1) / (FADE + 1)) for i in range(FADE)]
    return frames


if __name__ == "__main__":
    save_webp(faded(scenes()), IMAGES / "overview.webp", quality=60)
