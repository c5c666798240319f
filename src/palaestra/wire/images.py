"""Decodes observations sent as one PNG or several PNGs back to back, whose channels are kept, averaged or dropped."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from palaestra.core.errors import ProtocolError
from palaestra.core.processes import usable_cores

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_PIXELS = 1 << 26
"""Most pixels that an image may have to be decoded, 8192 x 8192."""
MAX_AVERAGED = 4
"""Most PNG channels for each channel of an observation: a grayscale image comes as three or four."""
MANY = 8
LARGE = 128 * 128
"""Number of images in a message, and of pixels in each, from which several threads are faster than one."""
# by the header's color type: gray, RGB, palette, gray and alpha (dropped), RGBA
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 1, 6: 4}
_PIXELS = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
_PLAIN = {"1": "L", "P": "RGB", "LA": "L"}

# source channels of each of ours, number of channels of each PNG
_Plan = tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Picture:
    """One visual observation as an agent sent it."""

    data: bytes
    mapping: tuple[int, ...]  # target of each channel of all PNGs, -1: dropped; empty: no mapping was sent
    where: str  # behavior, agent and observation, for error messages


@dataclass(frozen=True, slots=True)
class _Png:
    data: bytes
    height: int
    width: int
    channels: int


def picture_size(picture: Picture) -> tuple[int, int]:
    """Returns height and width from the first PNG's header. Raises ProtocolError for bytes that are not PNGs."""
    first = _split(picture)[0]
    return first.height, first.width


def check_picture(picture: Picture, shape: tuple[int, ...]) -> None:
    """Raises ProtocolError if the PNGs' headers and the mapping do not fit `shape`, (C, H, W). Decodes no pixels."""
    _checked(picture, shape)


def read_pictures(pictures: Sequence[Picture], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Decodes N pictures into an array (N, C, H, W) within 0..1, for `shape` (C, H, W).

    A channel with several sources is their mean. Without a mapping, a single channel is the mean of the first PNG's
    channels, and several channels are the first ones of all PNGs. Raises ProtocolError for a picture that is damaged or
    does not fit.
    """
    out = np.empty((len(pictures), *shape), np.float32)

    def read(rows: range) -> None:
        for row in rows:
            _read(pictures[row], out[row])

    cores = usable_cores()
    if len(pictures) < MANY or shape[1] * shape[2] < LARGE or cores == 1:
        read(range(len(pictures)))
    else:
        step = -(-len(pictures) // (4 * cores))
        for _ in _threads().map(
            read, [range(begin, min(begin + step, len(pictures))) for begin in range(0, len(pictures), step)]
        ):
            pass
    return out


def encode_pictures(images: NDArray[np.float32], level: int = -1) -> list[bytes]:
    """Encodes images (N, C, H, W) within 0..1 as PNGs of three channels back to back; one channel becomes gray."""
    pixels = np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)
    count, channels, *size = pixels.shape
    if channels == 1:
        pixels = np.repeat(pixels, 3, 1)
    elif channels % 3:
        pixels = np.pad(pixels, ((0, 0), (0, -channels % 3), (0, 0), (0, 0)))
    layers = np.ascontiguousarray(pixels.reshape(count, -1, 3, *size).transpose(0, 1, 3, 4, 2))
    return [b"".join(_png(each, level) for each in image) for image in layers]


def _png(pixels: NDArray[np.uint8], level: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=level)
    return file.getvalue()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(8, usable_cores()), thread_name_prefix="palaestra-png")


def _read(picture: Picture, out: NDArray[np.float32]) -> None:
    pngs, (sources, widths) = _checked(picture, out.shape)
    needed = max(max(source) for source in sources) + 1
    layers: list[NDArray[Any]] = []
    for png, width in zip(pngs, widths, strict=True):
        if len(layers) >= needed:
            break
        pixels = _pixels(png, picture.where)
        layers += [pixels[..., channel % pixels.shape[-1]] for channel in range(width)]
    for target, source in zip(out, sources, strict=True):
        if len(source) == 1:
            np.divide(layers[source[0]], np.float32(255), out=target)
        else:
            np.divide(
                np.sum([layers[i] for i in source], axis=0, dtype=np.float32), np.float32(255 * len(source)), out=target
            )


def _checked(picture: Picture, shape: tuple[int, ...]) -> tuple[list[_Png], _Plan]:
    """Returns the picture's PNGs, checked against `shape` (C, H, W), and how their channels combine into it."""
    pngs = _split(picture)
    for png in pngs:
        if (png.height, png.width) != shape[1:]:
            raise ProtocolError(
                f"{picture.where}: received a PNG of {png.height}x{png.width} pixels (height x width); expected "
                f"{shape[1]}x{shape[2]}"
            )
    try:
        sources, widths = _plan(tuple(png.channels for png in pngs), picture.mapping, shape[0])
        if (needed := max(map(max, sources)) + 1) > MAX_AVERAGED * shape[0] + 3:
            raise ValueError(
                f"its {len(pngs)} PNGs have {needed} channels for {shape[0]}; expected at most {MAX_AVERAGED} for "
                "each and 3 more"
            )
        return pngs, (sources, widths)
    except ValueError as error:
        raise ProtocolError(f"{picture.where}: {error}") from None


@lru_cache(maxsize=256)
def _plan(channels: tuple[int, ...], mapping: tuple[int, ...], needed: int) -> _Plan:
    """Assigns source channels to `needed` channels. A gray PNG counts as three where one would be too few."""
    colors = tuple(3 if count == 1 else count for count in channels)
    if not mapping:
        if needed == 1:
            return (tuple(range(channels[0])),), channels
        widths = channels if sum(channels) >= needed else colors
        if sum(widths) < needed:
            raise ValueError(
                f"{len(channels)} PNGs with {sum(widths)} channels in total received; expected at least {needed} "
                f"channels"
            )
        return tuple((channel,) for channel in range(needed)), widths
    widths = channels if sum(channels) == len(mapping) else colors
    if sum(widths) != len(mapping):
        raise ValueError(
            f"its channel mapping {list(mapping)} is for {len(mapping)} channels, but its PNGs have {sum(widths)}"
        )
    targets = {target for target in mapping if target >= 0}
    if len(targets) != needed or max(targets) != needed - 1:
        raise ValueError(
            f"its channel mapping {list(mapping)} does not name each of the channels 0 to {needed - 1} and no other"
        )
    return tuple(tuple(i for i, to in enumerate(mapping) if to == target) for target in range(needed)), widths


def _split(picture: Picture) -> list[_Png]:
    data = picture.data
    pngs = []
    begin = 0
    while begin < len(data) or not pngs:
        if data[begin : begin + 8] != SIGNATURE or data[begin + 12 : begin + 16] != b"IHDR" or len(data) < begin + 33:
            came = data[begin : begin + 8].hex(" ") or "nothing"
            raise ProtocolError(
                f"{picture.where}: expected a PNG at byte {begin} of its {len(data)} bytes, received {came}"
            )
        width, height, _, color = struct.unpack_from(">IIBB", data, begin + 16)
        if color not in _CHANNELS or not 0 < width * height <= MAX_PIXELS:
            raise ProtocolError(
                f"{picture.where}: its PNG has a damaged header: {height}x{width} pixels, color type {color}"
            )
        png, end = _one(data, begin, picture.where)
        if not end:
            raise ProtocolError(f"{picture.where}: its PNG is cut off after {len(data) - begin} bytes")
        pngs.append(_Png(png, height, width, _CHANNELS[color]))
        begin = end
    return pngs


def _one(data: bytes, begin: int, where: str) -> tuple[bytes, int]:
    """Returns the PNG that begins at `begin`, reduced to the chunks of its pixels, and its end; 0: it is cut off.

    Walks the chunks, because pixel data may contain anything, even a signature. Raises ProtocolError for a second
    header, which a decoder would use although it was not checked.
    """
    kept = [SIGNATURE]
    at = begin + 8
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if kind == b"IHDR" and len(kept) > 1:
            raise ProtocolError(f"{where}: its PNG has a second header at byte {at} of {len(data)}; expected one")
        if kind in _PIXELS:
            kept.append(data[at:end])
        if kind == b"IEND":
            return b"".join(kept), end if end <= len(data) else 0
        at = end
    return b"", 0


def _pixels(png: _Png, where: str) -> NDArray[Any]:
    try:
        image = PngImageFile(io.BytesIO(png.data))  # reads the header alone
        if image.size != (png.width, png.height):
            raise ValueError(
                f"its decoder takes it for {image.height}x{image.width} pixels, its header says "
                f"{png.height}x{png.width}"
            )
        plain = _PLAIN.get(image.mode)
        pixels = np.asarray(image.convert(plain) if plain else image)
    except Exception as error:  # the decoder may raise anything for damaged bytes
        raise ProtocolError(f"{where}: its PNG is damaged ({type(error).__name__}: {error})") from error
    if pixels.dtype != np.uint8:  # 16-bit grayscale
        pixels = pixels.astype(np.float32) / np.float32(257)
    return pixels.reshape(png.height, png.width, -1)
