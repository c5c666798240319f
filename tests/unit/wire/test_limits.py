"""A few bytes of a game or file cannot use up the memory, and errors name the cause."""

import struct
import zlib
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import demo_files
import grpc
import numpy as np
import pytest
from unity_client import _METHOD, hello
from unity_games import make_build
from unity_infos import agent, floats, infos, picture, png, reader
from unity_play import opened

from palaestra.core.errors import DemoError, EnvError, ProtocolError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import read_demo
from palaestra.wire import images
from palaestra.wire.images import SIGNATURE, Picture, read_pictures
from palaestra.wire.limits import max_bytes
from palaestra.wire.messages import Observation, message_class, varint
from palaestra.wire.readers import check_tick
from palaestra.wire.server import Inbox, Server

Pair = message_class("communicator_objects.AgentInfoActionPairProto")
PIXELS = np.zeros((20, 30, 3), np.uint8)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def headed(width: int, height: int) -> bytes:
    """A PNG's header."""
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def only_a_header(width: int, height: int) -> bytes:
    return SIGNATURE + headed(width, height) + chunk(b"IEND", b"")


def test_a_second_header_which_asks_for_more_pixels_is_refused_before_any_is_decoded():
    data = (
        SIGNATURE
        + headed(30, 20)
        + headed(30000, 20000)
        + chunk(b"IDAT", zlib.compress(bytes(9)))
        + chunk(b"IEND", b"")
    )
    with pytest.raises(ProtocolError, match=r"'camera': its PNG has a second header at byte 33 of \d+; expected one"):
        read_pictures([Picture(data, (), "'camera'")], (3, 20, 30))


def test_the_decoder_must_agree_with_the_checked_header(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        images, "PngImageFile", lambda file: SimpleNamespace(size=(4000, 4000), height=4000, width=4000)
    )
    with pytest.raises(ProtocolError, match="its decoder takes it for 4000x4000 pixels, its header says 20x30"):
        read_pictures([Picture(png(PIXELS), (), "'camera'")], (3, 20, 30))


def test_one_channel_cannot_be_made_of_any_number_of_pngs():
    mapping = (0,) * 30
    with pytest.raises(
        ProtocolError, match="its 10 PNGs have 30 channels for 1; expected at most 4 for each and 3 more"
    ):
        read_pictures([Picture(png(PIXELS) * 10, mapping, "'camera'")], (1, 20, 30))


def test_an_agent_that_announces_too_many_numbers_is_refused():
    with pytest.raises(
        ProtocolError,
        match=r"behavior 'Ball', agent 4: observation 'camera' has shape \(3, 5000, 5000\), and all .* 75,000,000 "
        r"numbers; expected",
    ):
        reader(agent(4, picture((3, 5000, 5000), only_a_header(5000, 5000), name="camera")))
    halves = [picture((3, 4000, 3000), only_a_header(3000, 4000), name=name) for name in ("left", "right")]
    with pytest.raises(ProtocolError, match=r"observation 'left' .* and all observations 72,000,000 numbers"):
        reader(agent(4, *halves))


@pytest.mark.parametrize("size", [1, 8])
def test_an_observation_that_is_far_larger_than_its_shape_is_named(size: int):
    usual = floats([0.5] * size, name="eyes")
    padded = floats([0.5] * size, name="eyes")
    padded.compressed_channel_mapping.extend([1] * max_bytes((size,)))
    here = reader(agent(0, usual))
    says = (
        r"behavior 'Ball', agent 9: observation 'eyes' came in [\d,]+ bytes; expected at most [\d,]+ for its "
        rf"shape \({size},\)"
    )
    with pytest.raises(ProtocolError, match=says):
        here.observations(infos(agent(1, usual), agent(9, padded)))
    with pytest.raises(ProtocolError, match=says):
        reader(agent(9, padded))


def test_a_shape_of_many_dimensions_is_counted_and_not_listed():
    with pytest.raises(ProtocolError, match=r"observation 'obs_0' has 100000 dimensions; expected at most 3$"):
        reader(agent(0, Observation(shape=[1] * 100_000)))


def test_the_largest_pngs_that_cameras_send_are_read():
    noise = np.random.default_rng(0).integers(0, 256, (84, 84, 4), np.uint8)
    grey = picture((1, 84, 84), png(noise), name="camera", mapping=(0, 0, 0, -1))
    assert reader(agent(0, grey)).observations(infos(agent(0, grey)))[0].shape == (1, 1, 84, 84)


def behavior(count: int, *shape: int) -> tuple[SimpleNamespace, int, int]:
    return SimpleNamespace(name="Ball", sensors=[SimpleNamespace(name="camera", sent=shape)]), count, 3


def test_a_message_is_limited_in_encoded_and_decoded_size():
    check_tick(10**9, [behavior(12_000, 3, 84, 84)], 1024.0)
    check_tick(10**12, [behavior(10**9, 3, 84, 84)], None)
    with pytest.raises(
        ProtocolError,
        match=r"a message of 2,000.0 MB is too large; expected at most 1,024 MB .* env_settings.max_message_mb",
    ):
        check_tick(2 * 10**9, [], 1024.0)
    with pytest.raises(ProtocolError) as error:
        check_tick(10**6, [behavior(400, 3, 1000, 1000), behavior(1, 8)], 1024.0)
    assert str(error.value).startswith(
        "behavior 'Ball', agent 3: observation 'camera' of shape (3, 1000, 1000) takes 4,800.0 MB as numbers for the "
        "400 agents"
    )


def test_a_game_whose_messages_are_too_large_is_refused_and_its_setting_named(tmp_path: Path):
    build = make_build(tmp_path, "Ball", agents=4)
    with (
        opened(executable=str(build), max_message_mb=1e-5, logs=tmp_path) as game,
        pytest.raises(EnvError, match=r"expected at most 1e-05 MB a message, which env_settings.max_message_mb sets"),
    ):
        game.reset(0)
    with opened(executable=str(build), max_message_mb=None, logs=tmp_path) as game:
        assert len(game.reset(0)["Ball"].reward) == 4


def test_a_message_that_is_compressed_on_the_wire_is_not_inflated():
    inbox: Inbox = SimpleQueue()
    server = Server(0, inbox, None)
    channel = grpc.insecure_channel(f"127.0.0.1:{server.port}", compression=grpc.Compression.Gzip)
    try:
        with pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(_METHOD)(hello().SerializeToString() * 1000, timeout=180, wait_for_ready=True)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]
        assert inbox.empty()
    finally:
        channel.close()
        server.close()


def test_a_demonstration_with_pictures_that_no_agent_has_is_refused_by_name(tmp_path: Path):
    spec = BehaviorSpec((ObsSpec("camera", (3, 20, 30)),), ActionSpec(1))
    path = demo_files.write(tmp_path / "x.demo", demo_files.episodes(3, spec=spec), spec, images=("camera",))
    demo = read_demo(path)
    pairs = []
    for raw in demo.file.raw(len(demo)):
        pair = Pair.FromString(raw)
        pair.agent_info.observations[0].CopyFrom(picture((3, 6000, 6000), only_a_header(6000, 6000), name="camera"))
        pairs.append(pair.SerializeToString())
    head = path.read_bytes()[: demo.file.start]
    path.write_bytes(head + b"".join(varint(len(pair)) + pair for pair in pairs) + demo.meta.to_bytes())
    with pytest.raises(
        DemoError, match=r"x\.demo: behavior 'Thing', agent 0: observation 'camera' has shape \(3, 6000, 6000\)"
    ):
        read_demo(path)
