import random
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from palaestra.core.errors import EnvError, ProtocolError
from palaestra.wire.side_channels import (
    IncomingMessage,
    OutgoingMessage,
    SideChannel,
    SideChannels,
    message_of,
    pack,
    unpack,
)

ONE = UUID("00000000-0000-0000-0000-000000000001")
TWO = UUID("00000000-0000-0000-0000-000000000002")


class Echo(SideChannel):
    """Stores received messages, and sends numbers."""

    def __init__(self, channel_id: UUID = ONE) -> None:
        super().__init__(channel_id)
        self.heard: list[tuple[int, int]] = []
        self.connected: list[int] = []

    def receive(self, message: IncomingMessage, copy: int) -> None:
        self.heard.append((copy, message.read_int32()))

    def on_connect(self, copy: int) -> None:
        self.connected.append(copy)

    def say(self, number: int, copy: int | None = None) -> None:
        self.send(message_of(number), copy)


class Greeter(Echo):
    """Sends its state at each connection."""

    restates = True

    def on_connect(self, copy: int) -> None:
        self.say(100 + copy, copy)


def numbers(raw: bytes) -> list[int]:
    return [IncomingMessage(payload).read_int32() for _, payload in unpack(raw)]


def hub_of(*channels: SideChannel, copies: int = 1) -> tuple[SideChannels, list[str]]:
    warnings: list[str] = []
    return SideChannels(channels, copies, warnings.append), warnings


def test_values_are_read_as_they_were_written():
    message = OutgoingMessage()
    message.write_bool(True)
    message.buffer += message_of(-7, 0.25, [1.0, -2.5], "lava level", "", []).buffer
    read = IncomingMessage(bytes(message.buffer))
    assert (read.read_bool(), read.read_int32(), read.read_float32()) == (True, -7, 0.25)
    assert (read.read_float32_list(), read.read_string(), read.read_string(), read.read_float32_list()) == (
        [1.0, -2.5],
        "lava level",
        "",
        [],
    )
    assert read.get_raw_bytes() == message.buffer


def test_beyond_the_end_of_a_message_readers_give_their_defaults():
    read = IncomingMessage(b"")
    assert (read.read_bool(), read.read_int32(), read.read_float32(), read.read_float32_list(), read.read_string()) == (
        False,
        0,
        0.0,
        [],
        "",
    )
    assert (read.read_bool(True), read.read_int32(3), read.read_float32(0.5)) == (True, 3, 0.5)
    assert (read.read_float32_list([1.0]), read.read_string("none")) == ([1.0], "none")


@pytest.mark.parametrize(
    ("raw", "read", "says"),
    [
        (
            b"\1\0",
            IncomingMessage.read_int32,
            "of 2 bytes ends inside an int32: at byte 0, 4 bytes were expected and 2 are left",
        ),
        (b"\1\0\0", IncomingMessage.read_float32, "inside a float32"),
        (b"\2\0\0\0\0\0\0\0", IncomingMessage.read_float32_list, "inside a list of 2 float32: at byte 4, 8 bytes"),
        (b"\5\0\0\0abc", IncomingMessage.read_string, "inside a text of 5 bytes"),
        (b"\xff\xff\xff\xff", IncomingMessage.read_string, "a text's length is -1 at byte 0"),
        (b"\xfe\xff\xff\xff", IncomingMessage.read_float32_list, "a list's count is -2"),
    ],
)
def test_a_value_that_is_cut_off_is_an_error_that_says_where(
    raw: bytes, read: Callable[[IncomingMessage], object], says: str
):
    with pytest.raises(ProtocolError, match=says):
        read(IncomingMessage(raw))


def test_text_beyond_ascii_is_refused_in_sending_and_read_in_receiving():
    with pytest.raises(EnvError, match="Unity reads ASCII; write it without 'é', 'ß'"):
        OutgoingMessage().write_string("élan, großes élan")
    text = "Höhe".encode()
    assert IncomingMessage(bytes([len(text), 0, 0, 0]) + text).read_string() == "Höhe"
    assert IncomingMessage(b"\2\0\0\0\xffa").read_string() == "\ufffda"


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda m: m.write_int32(2**31), "cannot carry 2147483648; expected a whole number of 32 bits"),
        (lambda m: m.write_int32(1.5), "cannot carry 1.5"),
        (lambda m: m.write_float32(1e39), "range of 32-bit floats"),
        (lambda m: m.write_float32("1"), "cannot carry '1'"),
    ],
)
def test_a_number_out_of_range_is_refused(write: Callable[[OutgoingMessage], None], says: str):
    with pytest.raises(EnvError, match=says):
        write(OutgoingMessage())


def test_raw_bytes_replace_what_was_written():
    message = message_of(1)
    message.set_raw_bytes(b"xyz")
    assert message.buffer == b"xyz"


def test_messages_are_unpacked_as_they_were_packed():
    chance = random.Random(0)
    messages = [(uuid4(), chance.randbytes(chance.randrange(30))) for _ in range(20)]
    assert unpack(pack(messages)) == messages
    assert unpack(b"") == []


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (pack([(ONE, b"ab")]) + b"short", "end inside a header: 20 bytes were expected at byte 22, 5 are left"),
        (pack([(ONE, b"ab")])[:-1], f"the record at byte 0, of channel {ONE}, announces 2 bytes, 1 are left"),
        (pack([(TWO, b"")])[:16] + b"\xff\xff\xff\xff", "announces -1 bytes, 0 are left"),
    ],
)
def test_a_field_that_is_cut_off_is_an_error_that_says_where(raw: bytes, says: str):
    with pytest.raises(ProtocolError, match=says):
        unpack(raw)


def test_garbled_bytes_are_read_or_refused_and_nothing_else():
    chance = random.Random(1)
    good = pack([(ONE, b"12345678"), (TWO, b""), (ONE, b"\0" * 40)])
    read = 0
    for _ in range(2000):
        raw = bytearray(good[: chance.randrange(len(good) + 1)])
        for _ in range(chance.randrange(4)):
            if raw:
                raw[chance.randrange(len(raw))] = chance.randrange(256)
        try:
            read += len(unpack(bytes(raw)))
        except ProtocolError:
            continue
    assert read > 0


def test_messages_leave_by_channel_and_in_their_order():
    first = Echo(ONE)
    second = Echo(TWO)
    hub, _ = hub_of(first, second, copies=2)
    second.say(1)
    first.say(2, 0)
    second.say(3, 0)
    first.say(4)
    assert [(id, numbers(pack([(id, payload)]))) for id, payload in unpack(hub.outgoing(0))] == [
        (ONE, [2]),
        (ONE, [4]),
        (TWO, [1]),
        (TWO, [3]),
    ]
    assert numbers(hub.outgoing(1)) == [4, 1]
    assert hub.outgoing(0) == hub.outgoing(1) == b""


def test_messages_reach_their_channel_with_the_copy_they_come_from():
    first = Echo(ONE)
    second = Echo(TWO)
    hub, warnings = hub_of(first, second, copies=3)
    hub.incoming(2, pack([(TWO, b"\5\0\0\0"), (ONE, b"\6\0\0\0"), (TWO, b"")]))
    hub.incoming(0, b"")
    assert (first.heard, second.heard, warnings) == ([(2, 6)], [(2, 5), (2, 0)], [])


def test_what_was_sent_before_the_first_connection_goes_out_with_it():
    channel = Echo()
    channel.say(1)
    hub, _ = hub_of(channel, copies=2)
    channel.say(2, 1)
    hub.connected(0)
    hub.connected(1)
    assert (numbers(hub.outgoing(0)), numbers(hub.outgoing(1)), channel.connected) == ([1], [1, 2], [0, 1])


def test_a_restarted_copy_gets_no_messages_meant_for_its_predecessor():
    channel = Echo()
    hub, _ = hub_of(channel, copies=2)
    for copy in (0, 1):
        hub.connected(copy)
    channel.say(1)
    hub.connected(1)
    channel.say(2)
    assert (numbers(hub.outgoing(0)), numbers(hub.outgoing(1))) == ([1, 2], [2])


def test_a_channel_that_restates_sends_its_state_once_per_connection():
    channel = Greeter()
    channel.say(1)
    hub, _ = hub_of(channel, copies=2)
    hub.connected(1)
    assert numbers(hub.outgoing(1)) == [101]
    hub.connected(1)
    assert numbers(hub.outgoing(1)) == [101]


def test_an_unknown_channel_is_ignored_with_one_warning():
    channel = Echo()
    hub, warnings = hub_of(channel)
    for _ in range(3):
        hub.incoming(0, pack([(TWO, b"?"), (ONE, b"\1\0\0\0")]))
    assert channel.heard == [(0, 1)] * 3
    assert len(warnings) == 1
    assert str(TWO) in warnings[0]


def test_two_channels_with_one_id_are_refused():
    with pytest.raises(EnvError, match=f"Greeter .{ONE}. has the id of another, Echo"):
        hub_of(Echo(), Greeter())


def test_a_channel_whose_constructor_forgot_its_base_is_refused():
    class Forgetful(SideChannel):
        def __init__(self) -> None:
            self.channel_id = ONE

    with pytest.raises(EnvError, match=r"Forgetful has no id: its __init__ must call super\(\).__init__"):
        hub_of(Forgetful())


def test_what_a_users_channel_raises_names_channel_and_line():
    class Faulty(Echo):
        def receive(self, message: IncomingMessage, copy: int) -> None:
            raise ZeroDivisionError("no such thing")

        def on_connect(self, copy: int) -> None:
            raise KeyError("score")

    hub, _ = hub_of(Faulty(), copies=2)
    place = r"test_side_channels\.py, line \d+"
    with pytest.raises(
        EnvError, match=rf"side channel Faulty .*: its receive failed: ZeroDivisionError: no such thing \(.*{place}"
    ):
        hub.incoming(1, pack([(ONE, b"")]))
    with pytest.raises(EnvError, match=r"its on_connect failed: KeyError: 'score'"):
        hub.connected(0)


def test_a_message_that_ends_inside_a_value_is_the_games_error():
    hub, _ = hub_of(Echo())
    with pytest.raises(
        ProtocolError, match=r"side channel Echo .*: a side channel message of 2 bytes ends inside an int32"
    ):
        hub.incoming(0, pack([(ONE, b"\1\0")]))


def test_a_message_to_a_channel_that_only_sends_is_an_error():
    hub, _ = hub_of(SideChannel(ONE))
    with pytest.raises(ProtocolError, match="the channel is send-only"):
        hub.incoming(0, pack([(ONE, b"")]))


def test_sending_to_a_copy_that_is_not_there_is_an_error():
    channel = Echo()
    hub, _ = hub_of(channel, copies=2)
    channel.say(1, 2)
    with pytest.raises(EnvError, match=r"Echo .* sent to copy 2; there are copies 0 to 1"):
        hub.outgoing(0)
