import io
import struct
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from unity_infos import png

from palaestra.core.errors import ProtocolError
from palaestra.wire import images
from palaestra.wire.images import Picture, check_picture, picture_size, read_pictures

RGB = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10  # two rows, three columns
CHANNELS = RGB.transpose(2, 0, 1) / np.float32(255)


def of(data: bytes, *mapping: int) -> Picture:
    return Picture(data, mapping, "agent 1: observation 'camera'")


def one(data: bytes, channels: int, *mapping: int) -> NDArray[np.float32]:
    return read_pictures([of(data, *mapping)], (channels, 2, 3))[0]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_a_single_channel_is_the_mean_of_the_first_png() -> None:
    np.testing.assert_allclose(one(png(RGB) + png(RGB * 0), 1)[0], CHANNELS.mean(0), atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_grayscale_png_serves_for_one_channel_or_for_three(channels: int) -> None:
    np.testing.assert_array_equal(one(png(RGB[..., 0]), channels), np.stack([CHANNELS[0]] * channels))


def test_alpha_is_a_fourth_channel() -> None:
    alpha = np.dstack([RGB, RGB[..., 0]])
    np.testing.assert_array_equal(one(png(alpha), 4), np.concatenate([CHANNELS, CHANNELS[:1]]))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_every_kind_of_png_can_be_read_in_color(mode: str) -> None:
    white = one(png(np.full((2, 3, 3), 255), mode), 3)
    np.testing.assert_array_equal(white, np.ones((3, 2, 3), np.float32))


def test_sixteen_bit_grayscale_is_scaled() -> None:
    file = io.BytesIO()
    Image.fromarray(np.full((2, 3), 0x8080, np.uint16)).save(file, "png")
    np.testing.assert_allclose(one(file.getvalue(), 1), np.full((1, 2, 3), 128 / 255), atol=1e-6)


def test_metadata_of_a_png_is_ignored() -> None:
    plain = png(RGB)
    noted = plain[:33] + chunk(b"tEXt", b"Comment\0" + images.SIGNATURE) + chunk(b"acTL", b"\0" * 8) + plain[33:]
    np.testing.assert_array_equal(one(noted + noted, 6), np.concatenate([CHANNELS, CHANNELS]))


def test_many_large_pictures_are_read_by_several_threads_in_their_order() -> None:
    shades = [np.full((images.LARGE // 128, 128), shade, np.uint8) for shade in range(images.MANY)]
    read = read_pictures([of(png(shade)) for shade in shades], (1, images.LARGE // 128, 128))
    np.testing.assert_array_equal(read[:, 0] * 255, np.stack(shades).astype(np.float32))


def test_the_size_is_rows_and_columns() -> None:
    assert picture_size(of(png(RGB))) == (2, 3)


def bomb(width: int, height: int) -> bytes:
    return (
        images.SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("data", "channels", "mapping", "says"),
    [
        (b"", 3, (), "'camera': expected a PNG at byte 0 of its 0 bytes, received nothing"),
        (b"JFIF", 3, (), "'camera': expected a PNG at byte 0 of its 4 bytes, received 4a 46 49 46"),
        (png(RGB) + b"?", 3, (), "expected a PNG at byte .*, received 3f"),
        (png(RGB)[:-1], 3, (), "its PNG is cut off after"),
        (png(RGB)[:60], 3, (), "its PNG is cut off after 60 bytes"),
        (png(RGB)[:45] + b"\0" + png(RGB)[46:], 3, (), "its PNG is damaged"),
        (bomb(3, 2), 3, (), "its PNG is damaged"),
        (bomb(0, 2), 3, (), "damaged header: 2x0 pixels"),
        (bomb(1 << 20, 1 << 20), 3, (), "damaged header: 1048576x1048576 pixels"),
        (bomb(4000, 4000), 3, (), "a PNG of 4000x4000 pixels .*; expected 2x3"),
        (png(RGB) + png(RGB[:1]), 6, (), "a PNG of 1x3 pixels .*; expected 2x3"),
        (png(RGB), 4, (), "1 PNGs with 3 channels in total received; expected at least 4"),
        (png(RGB), 3, (0, 1), r"mapping \[0, 1\] is for 2 channels, but its PNGs have 3"),
        (png(RGB), 2, (0, 1, 2), r"mapping \[0, 1, 2\] does not name each of the channels 0 to 1 and no other"),
        (png(RGB), 3, (0, 0, 2), "does not name each of the channels 0 to 2"),
        (png(RGB), 1, (-1, -1, -1), "does not name each of the channels 0 to 0"),
    ],
)
def test_an_unreadable_picture_is_named(data: bytes, channels: int, mapping: tuple[int, ...], says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        one(data, channels, *mapping)


def test_a_check_finds_what_does_not_fit_without_reading_pixels() -> None:
    with pytest.raises(ProtocolError, match="expected at least 1000000000 channels"):
        check_picture(of(png(RGB)), (10**9, 2, 3))
