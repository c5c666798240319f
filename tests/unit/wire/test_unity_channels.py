import math
from uuid import UUID, uuid4

import pytest

from palaestra.core.errors import ProtocolError
from palaestra.core.metrics import Measurement
from palaestra.wire import unity_channels
from palaestra.wire.side_channels import IncomingMessage, SideChannel, SideChannels, message_of, pack, unpack
from palaestra.wire.unity_channels import (
    Engine,
    EngineSender,
    FloatProperties,
    ParametersSender,
    RawBytes,
    StatsReceiver,
)


def hub_of(channel: SideChannel, copies: int = 1) -> SideChannels:
    warnings: list[str] = []
    hub = SideChannels([channel], copies, warnings.append)
    for copy in range(copies):
        hub.connected(copy)
    return hub


def sent(hub: SideChannels, copy: int = 0) -> list[IncomingMessage]:
    return [IncomingMessage(payload) for _, payload in unpack(hub.outgoing(copy))]


def floats(hub: SideChannels, copy: int = 0) -> list[tuple[str, float]]:
    return [(message.read_string(), message.read_float32()) for message in sent(hub, copy)]


def parameters(hub: SideChannels, copy: int = 0) -> list[tuple[str, int, float]]:
    return [(message.read_string(), message.read_int32(), message.read_float32()) for message in sent(hub, copy)]


def stat(name: str, value: float, kind: int) -> bytes:
    return pack([(unity_channels.STATS, bytes(message_of(name, float(value), kind).buffer))])


def prop(name: str, value: float, id: UUID = unity_channels.FLOAT_PROPERTIES) -> bytes:
    return pack([(id, bytes(message_of(name, value).buffer))])


def test_each_copy_gets_the_engine_settings_whenever_it_connects():
    hub = hub_of(
        EngineSender(Engine(width=640, height=480, quality_level=1, time_scale=2.5, target_frame_rate=30)), copies=2
    )
    for copy in (0, 1):
        size, quality, scale, target, capture = sent(hub, copy)
        assert [size.read_int32() for _ in range(3)] == [0, 640, 480]
        assert (quality.read_int32(), quality.read_int32()) == (1, 1)
        assert (scale.read_int32(), scale.read_float32()) == (2, 2.5)
        assert (target.read_int32(), target.read_int32()) == (3, 30)
        assert (capture.read_int32(), capture.read_int32()) == (4, 60)
    assert sent(hub) == []
    hub.connected(1)
    assert (len(sent(hub, 0)), len(sent(hub, 1))) == (0, 5)


def test_another_time_scale_reaches_every_copy_and_those_that_connect_later():
    engine = EngineSender(Engine(time_scale=1))
    hub = hub_of(engine, copies=2)
    for copy in (0, 1):
        sent(hub, copy)
    engine.set_time_scale(5)
    for copy in (0, 1):
        (scale,) = sent(hub, copy)
        assert (scale.read_int32(), scale.read_float32()) == (2, 5)
    hub.connected(1)
    scale = sent(hub, 1)[2]
    assert (scale.read_int32(), scale.read_float32()) == (2, 5)


def test_a_parameter_is_sent_where_it_changes():
    channel = ParametersSender(copies=2)
    hub = hub_of(channel, copies=2)
    channel.set("gravity", 9.75)
    channel.set("mass", 1.0, 1)
    assert (parameters(hub, 0), parameters(hub, 1)) == (
        [("gravity", 0, 9.75)],
        [("gravity", 0, 9.75), ("mass", 0, 1.0)],
    )
    channel.set("gravity", 9.75)
    channel.set("gravity", 2.0, 0)
    assert (parameters(hub, 0), parameters(hub, 1)) == ([("gravity", 0, 2.0)], [])
    channel.set("gravity", 9.75)
    assert (parameters(hub, 0), parameters(hub, 1)) == ([("gravity", 0, 9.75)], [])


def test_a_distribution_is_sent_again_only_where_it_changes_so_that_its_numbers_go_on():
    channel = ParametersSender(copies=1)
    hub = hub_of(channel)
    for seed in (5, 5, 6):
        channel.sample("mass", "uniform", (0.5, 2.0), seed)
        channel.sample("scale", "gaussian", (1.0, 0.25), seed)
        channel.sample("wind", "multirangeuniform", (-2.0, -1.0, 1.0, 2.0), seed)
    first = sent(hub)
    assert len(first) == 6
    assert [[m.read_string(), *(m.read_int32() for _ in range(3))] for m in first[:3]] == [
        ["mass", 1, 5, 0],
        ["scale", 1, 5, 1],
        ["wind", 1, 5, 2],
    ]
    assert [first[0].read_float32(), first[0].read_float32()] == [0.5, 2.0]
    assert first[2].read_float32_list() == [-2.0, -1.0, 1.0, 2.0]


def test_a_restarted_copy_gets_all_current_parameters():
    channel = ParametersSender(copies=2)
    channel.set("gravity", 1.0)
    hub = hub_of(channel, copies=2)
    assert parameters(hub, 1) == [("gravity", 0, 1.0)]
    channel.set("mass", 3.0)
    channel.set("gravity", 2.0)
    hub.connected(1)
    assert parameters(hub, 1) == [("gravity", 0, 2.0), ("mass", 0, 3.0)]
    assert parameters(hub, 0) == [("gravity", 0, 1.0), ("mass", 0, 3.0), ("gravity", 0, 2.0)]


def test_a_restarted_copy_gets_its_distributions_with_other_seeds_and_new_ones_too():
    channel = ParametersSender(copies=2)
    hub = hub_of(channel, copies=2)
    channel.set("gravity", 1.0)
    channel.sample("mass", "uniform", (0.5, 2.0), 5)
    channel.sample("wind", "multirangeuniform", (-2.0, -1.0), 2**31 - 1)
    before = sent(hub, 0), sent(hub, 1)
    channel.shift_seeds(1, 3)
    hub.connected(1)
    gravity, mass, wind = sent(hub, 1)
    assert gravity.buffer == before[1][0].buffer
    assert [mass.read_string(), *(mass.read_int32() for _ in range(3)), mass.read_float32()] == ["mass", 1, 8, 0, 0.5]
    assert [wind.read_string(), *(wind.read_int32() for _ in range(3)), wind.read_float32_list()] == [
        "wind",
        1,
        2,
        2,
        [-2.0, -1.0],
    ]
    channel.sample("mass", "uniform", (0.5, 2.0), 5)  # no other than before, so its numbers go on
    assert sent(hub, 1) == []
    channel.sample("mass", "uniform", (1.0, 3.0), 6)
    seeds = [
        (message.read_string(), message.read_int32(), message.read_int32())
        for copy in (0, 1)
        for message in sent(hub, copy)
    ]
    assert seeds == [("mass", 1, 6), ("mass", 1, 9)]


def test_statistics_are_taken_in_their_order_and_once():
    channel = StatsReceiver(pytest.fail)
    hub = hub_of(channel, copies=2)
    for kind in range(4):
        hub.incoming(0, stat("Game/Score", kind + 0.5, kind))
    assert channel.take() == [
        Measurement("Game/Score", kind + 0.5, name) for kind, name in enumerate(("mean", "latest", "total", "spread"))
    ]
    assert channel.take() == []


def test_the_latest_value_is_that_of_the_first_copy():
    channel = StatsReceiver(pytest.fail)
    hub = hub_of(channel, copies=2)
    for copy in (0, 1):
        hub.incoming(copy, stat("Level", copy, 1) + stat("Deaths", copy, 2))
    assert channel.take() == [
        Measurement("Level", 0.0, "latest"),
        Measurement("Deaths", 0.0, "total"),
        Measurement("Deaths", 1.0, "total"),
    ]


def test_a_statistic_of_an_unknown_kind_is_an_error():
    hub = hub_of(StatsReceiver(pytest.fail))
    with pytest.raises(ProtocolError, match="the statistic 'Score' is to be aggregated by method 4; expected 0 to 3"):
        hub.incoming(0, stat("Score", 1.0, 4))


def test_a_statistic_that_is_not_finite_is_ignored_with_one_warning():
    warnings: list[str] = []
    channel = StatsReceiver(warnings.append)
    hub = hub_of(channel, copies=2)
    for value in (math.nan, math.inf, -math.inf):
        hub.incoming(1, stat("Ratio", value, 0))
    hub.incoming(1, stat("Ratio", 0.5, 0))
    assert channel.take() == [Measurement("Ratio", 0.5, "mean")]
    assert warnings == ["the game's statistic 'Ratio' is nan (copy 1); such values are ignored"]


def test_statistics_that_are_never_taken_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unity_channels, "MAX_MEASUREMENTS", 3)
    channel = StatsReceiver(pytest.fail)
    hub = hub_of(channel)
    for value in range(10):
        hub.incoming(0, stat("Tick", value, 0))
    assert [value for _, value, _ in channel.take()] == [7.0, 8.0, 9.0]


def test_the_last_value_of_a_float_property_counts():
    channel = FloatProperties()
    hub = hub_of(channel, copies=2)
    assert (channel.get("speed"), channel.names()) == (None, [])
    channel.set("speed", 1.0)
    hub.incoming(1, prop("speed", 2.0) + prop("lives", 3.0))
    assert (channel.get("speed", 0), channel.get("speed", 1), channel.names(1)) == (1.0, 2.0, ["speed", "lives"])
    channel.set("speed", 4.0, 1)
    assert (channel.get("speed", 0), channel.get("speed", 1)) == (1.0, 4.0)
    channel.set("speed", 5.0)
    assert (channel.get("speed", 0), channel.get("speed", 1)) == (5.0, 5.0)
    assert floats(hub, 0) == [("speed", 1.0), ("speed", 5.0)]
    assert floats(hub, 1) == [("speed", 1.0), ("speed", 4.0), ("speed", 5.0)]


def test_a_restarted_game_gets_its_float_properties():
    channel = FloatProperties(uuid4())
    channel.set("speed", 1.0)
    hub = hub_of(channel, copies=2)
    channel.set("size", 0.5, 1)
    assert floats(hub, 1) == [("speed", 1.0), ("size", 0.5)]
    hub.incoming(1, prop("speed", 9.0, channel.channel_id) + prop("lives", 3.0, channel.channel_id))
    hub.connected(1)
    assert (floats(hub, 1), channel.names(1)) == ([("speed", 1.0), ("size", 0.5)], ["speed", "size"])


def test_raw_bytes_go_both_ways_unchanged():
    channel = RawBytes(uuid4())
    hub = hub_of(channel, copies=2)
    channel.send_raw_data(b"\0\xff")
    channel.send_raw_data(bytearray(b"x"), 1)
    assert [message.get_raw_bytes() for message in sent(hub, 1)] == [b"\0\xff", b"x"]
    hub.incoming(1, pack([(channel.channel_id, b"a"), (channel.channel_id, b"")]))
    assert (channel.take(0), channel.take(1), channel.take(1)) == ([], [b"a", b""], [])
