"""Images of agents as PNGs, laid out as Unity does: three channels a file, files back to back."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

COLORS = 3
"""Channels of a PNG: trainers read RGB."""
DROPPED = -1
"""Where a channel that only fills up its file is mapped to."""


def mapping(channels: int) -> tuple[int, ...]:
    """Which of the image's channels each channel of its files is; empty where a trainer knows that without being told."""
    if channels == 1 or channels % COLORS == 0:
        return ()
    return (*range(channels), *[DROPPED] * (-channels % COLORS))


def encode(column: NDArray[np.float32]) -> list[bytes]:
    """The files of each row of (N, C, H, W), its numbers within 0..1 rounded to 255ths. A single channel is grey: red, green and blue."""
    pixels = np.rint(np.clip(column, 0, 1) * 255).astype(np.uint8)
    channels = pixels.shape[1]
    if channels == 1:
        pixels = np.repeat(pixels, COLORS, 1)
    elif channels % COLORS:
        pixels = np.pad(pixels, ((0, 0), (0, -channels % COLORS), (0, 0), (0, 0)))
    files = np.ascontiguousarray(pixels.reshape(len(pixels), -1, COLORS, *pixels.shape[2:]).transpose(0, 1, 3, 4, 2))
    return [b"".join(_png(file) for file in row) for row in files]


def _png(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png", compress_level=1)  # what speed loses to a higher level, a loopback does not give back
    return file.getvalue()
