"""Fields of the original Python side 1.1.0 and of Unity's package 4.0.0, byte for byte."""

import struct
from uuid import NAMESPACE_URL, uuid5

import pytest

from palaestra.core.metrics import Measurement
from palaestra.envs.base import TrainingFacts, hashed
from palaestra.envs.unity.analytics import ANALYTICS, AnalyticsSender
from palaestra.wire.side_channels import SideChannel, SideChannels, pack, unpack
from palaestra.wire.unity_channels import STATS, Engine, EngineSender, FloatProperties, ParametersSender, StatsReceiver

ENGINE = """
    2c3451e97e4fea11b238784f4387d1f7 0c000000 00000000 54000000 54000000
    2c3451e97e4fea11b238784f4387d1f7 08000000 01000000 05000000
    2c3451e97e4fea11b238784f4387d1f7 08000000 02000000 0000a041
    2c3451e97e4fea11b238784f4387d1f7 08000000 03000000 ffffffff
    2c3451e97e4fea11b238784f4387d1f7 08000000 04000000 3c000000
"""
PARAMETERS = """
    07000000 67726176697479 00000000 00001c41
    04000000 6d617373 01000000 07000000 00000000 0000003f 00000040
    01000000 71 01000000 cf1a0000 01000000 0000803f 00000040
    04000000 77696e64 01000000 03000000 02000000 04000000 000000c0 000080bf 0000803f 00000040
"""
PROPERTY = "d0f7cc607e4fea11b238784f4387d1f7 0d000000 05000000 7370656564 0000c03f"
STATISTICS = """
    b7f7d8a1c8cef950b78bd3e165a78520 16000000 0a000000 47616d652f4672616d65 00004842 01000000
    b7f7d8a1c8cef950b78bd3e165a78520 15000000 09000000 47616d652f52616e64 87c5123f 00000000
    b7f7d8a1c8cef950b78bd3e165a78520 16000000 0a000000 47616d652f5469636b73 0000803f 02000000
    b7f7d8a1c8cef950b78bd3e165a78520 15000000 09000000 47616d652f48697374 afe7113f 03000000
"""
ENVIRONMENT_INITIALIZED = (
    b"\251\244d\266o\330_Z\225\313\3505:~\203Vt\000\000\000\nGtype.googleapis.com/communicator_objects.TrainingEnvironmentInitialized"
    b'\022)\n\006Custom\022\0051.1.0\032\0063.11.7"\007Unknown*\007Unknown'
)


def first_field(channel: SideChannel) -> bytes:
    hub = SideChannels([channel], 1, pytest.fail)
    hub.connected(0)
    return hub.outgoing(0)


def test_the_engine_settings_that_go_out_with_the_first_reset():
    assert first_field(EngineSender(Engine())) == bytes.fromhex(ENGINE)


def test_environment_parameters_of_every_kind():
    channel = ParametersSender(copies=1)
    channel.set("gravity", 9.75)
    channel.sample("mass", "uniform", (0.5, 2.0), seed=7)
    channel.sample("q", "gaussian", (1.0, 2.0), seed=0x1ACF)
    channel.sample("wind", "multirangeuniform", (-2.0, -1.0, 1.0, 2.0), seed=3)
    assert b"".join(payload for _, payload in unpack(first_field(channel))) == bytes.fromhex(PARAMETERS)


def test_a_float_property():
    channel = FloatProperties()
    channel.set("speed", 1.5)
    assert first_field(channel) == bytes.fromhex(PROPERTY)


def test_a_games_statistics_as_unitys_package_sends_them():
    channel = StatsReceiver(pytest.fail)
    raw = bytes.fromhex(STATISTICS)
    SideChannels([channel], 1, pytest.fail).incoming(0, raw)
    (rand,), (hist,) = struct.unpack("<f", bytes.fromhex("87c5123f")), struct.unpack("<f", bytes.fromhex("afe7113f"))
    assert channel.take() == [
        Measurement("Game/Frame", 50.0, "latest"),
        Measurement("Game/Rand", rand, "mean"),
        Measurement("Game/Ticks", 1.0, "total"),
        Measurement("Game/Hist", hist, "spread"),
    ]
    assert pack(unpack(raw)) == raw


def test_the_message_of_training_analytics_at_the_start():
    channel = AnalyticsSender()
    channel.wanted = True
    channel.training_starts(TrainingFacts("Custom", "1.1.0", "3.11.7", "Unknown", "Unknown", 0, 0, ""))
    assert first_field(channel) == ENVIRONMENT_INITIALIZED


def test_names_are_hashed_as_in_the_original():
    assert hashed("Ball") == "947ce76589beb8400939d9a2417d23beae61a90f8ed7eef4d326295a52ccde9c"


def test_the_ids_are_those_of_their_names():
    assert uuid5(NAMESPACE_URL, "com.unity.ml-agents/StatsSideChannel") == STATS
    assert uuid5(NAMESPACE_URL, "com.unity.ml-agents/TrainingAnalyticsSideChannel") == ANALYTICS
