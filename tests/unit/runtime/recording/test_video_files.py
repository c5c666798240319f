import io
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from palaestra.core.errors import ConfigError, PluginError, RunError
from palaestra.runtime.recording.video_files import (
    GIF_BYTES,
    check_format,
    encode_gif,
    encode_video,
    write_recording,
    write_video,
)


def decoded(file):
    """The pictures of a video, (frames, H, W, 3), and what ffmpeg says of its stream."""
    ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
    done = subprocess.run(
        [ffmpeg, "-i", file, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, check=True
    )
    stream = next(line for line in done.stderr.decode().splitlines() if "Video:" in line)
    width, height = map(int, re.search(r" ([1-9]\d+)x(\d+)", stream).groups())
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3), stream


def shades(count, width=32, height=24):
    return [Image.new("RGB", (width, height), (20 * i, 0, 0)) for i in range(count)]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_half_written_video_replaces_a_link(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / f".film.tmp-{os.getpid()}.mp4").symlink_to(tmp_path / "precious")
    write_video(tmp_path / "film.mp4", shades(2), fps=12)
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize(("suffix", "codec"), [(".mp4", "h264"), (".webm", "vp9")])
@pytest.mark.parametrize(("width", "height"), [(32, 24), (33, 25), (65, 24)])
def test_a_video_plays_with_its_pictures_its_rate_and_even_sizes(tmp_path, suffix, codec, width, height):
    file = tmp_path / f"film{suffix}"
    write_video(file, shades(6, width, height), fps=12)
    pictures, facts = decoded(file)
    assert pictures.shape == (6, height + height % 2, width + width % 2, 3)
    assert f"Video: {codec}" in facts
    assert "yuv420p" in facts
    assert " 12 fps" in facts
    assert imageio_ffmpeg.count_frames_and_secs(str(file)) == (6, 0.5)
    np.testing.assert_allclose(pictures[:, 4:12, 4:12, 0].mean((1, 2)), [20 * i for i in range(6)], atol=8)
    assert list(tmp_path.iterdir()) == [file]


def test_a_video_may_have_a_single_picture(tmp_path):
    write_video(tmp_path / "one.mp4", shades(1), fps=10)
    assert len(decoded(tmp_path / "one.mp4")[0]) == 1


def test_a_video_for_a_download_is_one_as_well(tmp_path):
    (tmp_path / "page.mp4").write_bytes(encode_video(shades(3), 10))
    assert len(decoded(tmp_path / "page.mp4")[0]) == 3


def test_pictures_that_fail_leave_the_old_video_as_it_was(tmp_path):
    def broken():
        yield shades(1)[0]
        raise KeyboardInterrupt

    file = tmp_path / "film.mp4"
    file.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_video(file, broken(), fps=10)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_cannot_be_written_to_is_an_error_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="a file stands where a folder is needed"):
        write_recording(tmp_path / "file" / "x.mp4", [lambda width: shades(1)[0]], 32, 10)


def test_a_recording_is_counted_and_made_at_its_width(tmp_path):
    pictures = [partial(lambda shade, width: Image.new("RGB", (width, 20), (shade, 0, 0)), 20 * i) for i in range(4)]
    assert write_recording(tmp_path / "a" / "x.gif", pictures, 50, 10) == 4
    with Image.open(tmp_path / "a" / "x.gif") as gif:
        assert gif.size == (50, 20)
        assert gif.info["duration"] == 100
    assert write_recording(tmp_path / "x.mp4", iter(pictures), 50, 10) == 4


def test_small_things_keep_their_colors_in_a_gif():
    picture = np.full((120, 160, 3), 255, np.uint8)
    picture[:, 40:] = np.linspace(190, 240, 120).astype(np.uint8)[:, None, None]  # many grays
    picture[50:54, 60:64] = (220, 30, 30)
    with Image.open(io.BytesIO(encode_gif([lambda width: Image.fromarray(picture)] * 2, 160, 10))) as gif:
        shown = np.asarray(gif.convert("RGB")).astype(int)
    assert np.abs(shown - picture).max() <= 6
    assert (shown[0, 0] == 255).all()


@pytest.mark.slow
def test_a_gif_that_would_be_too_large_is_made_smaller():
    noise = [
        Image.fromarray(np.random.default_rng(i).integers(0, 255, (240, 320, 3), dtype=np.uint8)) for i in range(60)
    ]
    content = encode_gif([lambda width, image=image: image.resize((width, width * 3 // 4)) for image in noise], 320, 10)
    assert 100_000 < len(content) <= GIF_BYTES


def test_names_and_rates_that_no_format_has_are_refused(monkeypatch):
    check_format(Path("X.MP4"), 60)
    with pytest.raises(ConfigError, match=r"name it x\.gif or x\.mp4 or x\.webm"):
        check_format(Path("x.mov"), 10)
    with pytest.raises(ConfigError, match="expected 1 to 50"):
        check_format(Path("x.gif"), 60)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr("palaestra.runtime.recording.video_files.find_spec", lambda name: None)
    with pytest.raises(PluginError, match=r"pip install 'palaestra\[video\]'"):
        check_format(Path("x.webm"), 10)
