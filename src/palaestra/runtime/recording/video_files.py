"""Writes pictures as GIFs, and as MP4 and WebM videos through the ffmpeg of imageio-ffmpeg (extra `video`)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.errors import ConfigError, PluginError, RunError
from palaestra.core.files import explain, write_whole

if TYPE_CHECKING:
    from PIL import Image

GIF_BYTES = 2_000_000
"""Largest size of a GIF: many README pages and chats do not show larger ones."""
COLORS = 256
RARE = 0.5
"""Exponent of a color's frequency when the palette of a GIF is chosen: below 1, small things keep their colors."""
LEAST_WIDTH = 96
"""Width in pixels below which no GIF is made smaller."""
CODECS = {
    ".mp4": ("libx264", ["-crf", "20", "-preset", "medium", "-movflags", "+faststart"]),
    ".webm": ("libvpx-vp9", ["-crf", "32", "-b:v", "0", "-row-mt", "1"]),
}
"""Codec and parameters of ffmpeg by the end of a video's name."""
MOST_FPS = {".gif": 50, ".mp4": 60, ".webm": 60}
"""Greatest rate of each format; a GIF's pictures last hundredths of a second."""


def check_format(file: Path, fps: int) -> None:
    """Raises ConfigError for a wrong suffix or rate, and PluginError where the extra `video` is missing."""
    suffix = file.suffix.lower()
    if suffix not in MOST_FPS:
        names = " or ".join(file.with_suffix(end).name for end in MOST_FPS)
        raise ConfigError(f"--out is {file}; recordings are GIFs, MP4 or WebM videos: name it {names}")
    if not 1 <= fps <= MOST_FPS[suffix]:
        raise ConfigError(f"--fps is {fps}; expected 1 to {MOST_FPS[suffix]} for {suffix}")
    if suffix != ".gif":
        require_video()


def require_video() -> None:
    """Raises PluginError with the pip command if ffmpeg is not installed."""
    if find_spec("imageio_ffmpeg") is None:
        raise PluginError("videos need imageio-ffmpeg, which is not installed: pip install 'palaestra[video]'")


def write_recording(file: Path, pictures: Iterable[Callable[[int], Image.Image]], width: int, fps: int) -> int:
    """Writes a recording in the format of its name, and returns the number of pictures. Each is made at the width it is
    asked for.

    A GIF that would be larger than GIF_BYTES is made less wide, for which its pictures are kept; those of a video are
    written as they come. Raises RunError or PluginError.
    """
    count = 0

    def counted() -> Iterator[Callable[[int], Image.Image]]:
        nonlocal count
        for make in pictures:
            count += 1
            yield make

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix.lower() == ".gif":
            write_whole(file, encode_gif(list(counted()), width, fps))
        else:
            write_video(file, (make(width) for make in counted()), fps)
        return count
    except OSError as error:
        raise RunError(f"{file} cannot be written: {explain(error)}") from error


def write_video(file: Path, images: Iterable[Image.Image], fps: int) -> None:
    """Writes an MP4 or WebM video; the images have one size, and odd ones get a white edge. Readers see a whole file or
    none.

    Raises PluginError or RunError, also where ffmpeg fails, and OSError.
    """
    require_video()
    import imageio_ffmpeg

    codec, parameters = CODECS[file.suffix.lower()]
    frames = _even(images)
    first = next(frames)
    beside = file.with_name(f".{file.stem}.tmp-{os.getpid()}{file.suffix.lower()}")
    try:
        imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        raise PluginError(
            f"imageio-ffmpeg has no ffmpeg for this machine: set IMAGEIO_FFMPEG_EXE to one ({error})"
        ) from error
    try:
        beside.unlink(missing_ok=True)  # of a process that was killed, or a link that leads elsewhere
        beside.touch(exist_ok=False)  # says at once, and by the system's own reason, if the folder cannot be written to
        options: dict[str, Any] = {
            "fps": fps,
            "codec": codec,
            "quality": None,
            "macro_block_size": 1,
            "output_params": parameters,
        }
        writer = imageio_ffmpeg.write_frames(str(beside), first.size, ffmpeg_log_level="error", **options)
        writer.send(None)
        try:
            writer.send(first.tobytes())
            for image in frames:
                writer.send(image.tobytes())
        finally:
            writer.close()
        if not beside.stat().st_size:
            raise RunError(f"ffmpeg wrote nothing to {file}: the disk may be full, or it lacks the codec {codec}")
        os.replace(beside, file)
    except OSError as error:
        if error.errno is not None:
            raise
        lines = str(error).strip().splitlines()
        raise RunError(f"ffmpeg could not write {file}: {lines[-1] if lines else 'it ended'}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def encode_video(images: Iterable[Image.Image], fps: int, suffix: str = ".mp4") -> bytes:
    """Returns a video as bytes, such as a browser downloads. Raises PluginError or RunError."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"recording{suffix}"
        write_video(file, images, fps)
        return file.read_bytes()


def _even(images: Iterable[Image.Image]) -> Iterator[Image.Image]:
    """Yields images with even width and height, which these codecs need."""
    from PIL import Image

    for image in images:
        width, height = image.size
        if width % 2 or height % 2:
            wider = Image.new("RGB", (width + width % 2, height + height % 2), "white")
            wider.paste(image)
            yield wider
        else:
            yield image


def encode_gif(pictures: Sequence[Callable[[int], Image.Image]], width: int, fps: int) -> bytes:
    """Encodes an endless GIF, `width` pixels wide, or less to stay within GIF_BYTES."""
    while True:
        content = _gif([make(width) for make in pictures], fps)
        if len(content) <= GIF_BYTES or width <= LEAST_WIDTH:
            return content
        # the size grows about as the number of pixels does
        width = max(LEAST_WIDTH, int(width * min(0.9, math.sqrt(GIF_BYTES / len(content)))))


def _palette(images: Sequence[Image.Image]) -> Image.Image:
    """Returns an image with a palette for all of these."""
    from PIL import Image

    packed = [np.asarray(image.convert("RGB"), np.uint32) @ np.array([65536, 256, 1], np.uint32) for image in images]
    colors, counts = np.unique(np.concatenate([one.ravel() for one in packed]) & 0xFCFCFC, return_counts=True)
    row = np.repeat(colors, np.ceil(counts**RARE).astype(int))
    pixels = np.stack([row >> 16, row >> 8 & 255, row & 255], -1).astype(np.uint8)
    pixels |= pixels >> 6  # white stays white
    return Image.fromarray(pixels[None]).quantize(COLORS, Image.Quantize.MEDIANCUT)


def _gif(images: Sequence[Image.Image], fps: int) -> bytes:
    from PIL import Image

    palette = _palette(images[:: max(1, len(images) // 8)])
    # one palette and no dithering: what does not move is the same in every picture, and costs nothing
    flat = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    buffer = BytesIO()
    flat[0].save(buffer, "GIF", save_all=True, append_images=flat[1:], duration=round(1000 / fps), loop=0, disposal=1)
    return buffer.getvalue()
