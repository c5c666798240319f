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
from numpy.typing import NDArray

from palaestra.core.errors import ConfigError, PluginError, RunError
from palaestra.core.files import explain, write_whole

if TYPE_CHECKING:
    from PIL import Image

GIF_BYTES = 2_000_000
"""Largest size of a GIF: many README pages and chats do not show larger ones."""
COLORS = 256
RARE = 0.5
"""Exponent of a color's frequency when the palette of a GIF is chosen: below 1, so that small things keep their
colors."""
LEAST_WIDTH = 96
"""Width in pixels below which no GIF is made smaller."""
CODECS = {
    ".mp4": ("libx264", ["-crf", "20", "-preset", "medium", "-movflags", "+faststart"]),
    ".webm": ("libvpx-vp9", ["-crf", "32", "-b:v", "0", "-row-mt", "1"]),
}
"""Codec and parameters of ffmpeg by the end of a video's name."""
MOST_FPS = {".gif": 50, ".mp4": 60, ".webm": 60}
"""Most pictures a second of each format; in a GIF, a picture's duration is counted in hundredths of a second."""


def check_format(file: Path, fps: float) -> None:
    """Raises ConfigError for a wrong suffix or rate, and PluginError if the extra `video` is not installed."""
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


def write_recording(file: Path, pictures: Iterable[Callable[[int], Image.Image]], width: int, fps: float) -> int:
    """Writes a recording in the format of its name, and returns the number of pictures. Each picture is made at the
    requested width.

    A GIF that would be larger than GIF_BYTES is made narrower, so its pictures are kept in memory; a video's pictures
    are written at once. Raises RunError or PluginError.
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


def write_video(file: Path, images: Iterable[Image.Image], fps: float) -> None:
    """Writes an MP4 or WebM video; the images have one size, and images of an odd size get a white edge. Readers see
    the complete file or no file.

    Raises PluginError or RunError, also if ffmpeg fails, and OSError.
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
        options: Any = {"fps": fps, "codec": codec, "quality": None, "macro_block_size": 1, "output_params": parameters}
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


def encode_video(images: Iterable[Image.Image], fps: float, suffix: str = ".mp4") -> bytes:
    """Returns a video as bytes, for a download in the browser. Raises PluginError or RunError."""
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


def encode_gif(pictures: Sequence[Callable[[int], Image.Image]], width: int, fps: float) -> bytes:
    """Encodes an endless GIF, `width` pixels wide, or less to stay within GIF_BYTES."""
    while True:
        content = _gif([make(width) for make in pictures], fps)
        if len(content) <= GIF_BYTES or width <= LEAST_WIDTH:
            return content
        # the size grows about as the number of pixels does
        width = max(LEAST_WIDTH, int(width * min(0.9, math.sqrt(GIF_BYTES / len(content)))))


def flattened(images: Sequence[Image.Image]) -> list[Image.Image]:
    """Returns images with one common palette, without dithering: things that do not move look the same in each image.

    The most frequent colors stay unchanged.
    """
    from PIL import Image

    pixels = [np.asarray(image.convert("RGB")) for image in images]
    often, rest = _palette(pixels[:: max(1, len(pixels) // 8)])
    palette = np.concatenate([often, rest])
    cells = [_cells(one) for one in pixels]
    nearest = np.zeros(1 << 18, np.uint8)
    for one in cells:
        nearest[one] = 1
    there = np.flatnonzero(nearest)
    middles = np.stack([there >> 12, there >> 6 & 63, there & 63], -1).astype(np.float32) * 4 + 2
    known = palette.astype(np.float32)
    nearest[there] = ((known**2).sum(-1) - 2 * middles @ known.T).argmin(-1)
    nearest[_cells(often[::-1])] = np.arange(len(often))[::-1]
    flat = [Image.fromarray(nearest[one]) for one in cells]
    for image in flat:
        image.putpalette(palette.tobytes())
    return flat


def _palette(pixels: Sequence[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Returns the most frequent colors of all pictures, and others for the rest, (n, 3) each."""
    from PIL import Image

    whole = np.concatenate([one.reshape(-1, 3) for one in pixels]).astype(np.int32)
    packed, counts = np.unique(whole @ np.array([65536, 256, 1], np.int32), return_counts=True)
    colors = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], -1).astype(np.uint8)
    often = colors[np.argsort(-counts)[: COLORS // 8]]
    near, which = np.unique(_cells(colors), return_inverse=True)
    row = np.repeat(near, np.ceil(np.bincount(which, counts) ** RARE).astype(int))
    middles = (np.stack([row >> 12, row >> 6 & 63, row & 63], -1) * 4 + 2).astype(np.uint8)
    rest = Image.fromarray(middles[None]).quantize(COLORS - len(often), Image.Quantize.MEDIANCUT)
    return often, np.array(rest.getpalette(), np.uint8).reshape(-1, 3)[: COLORS - len(often)]


def _cells(colors: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Returns in which of 64 x 64 x 64 cells colors (..., 3) are."""
    red, green, blue = (colors[..., channel].astype(np.int32) >> 2 for channel in range(3))
    return red << 12 | green << 6 | blue


def _gif(images: Sequence[Image.Image], fps: float) -> bytes:
    flat = flattened(images)
    buffer = BytesIO()
    flat[0].save(buffer, "GIF", save_all=True, append_images=flat[1:], duration=round(1000 / fps), loop=0, disposal=1)
    return buffer.getvalue()
