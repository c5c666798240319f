"""Side channels: messages between a game and Python code that do not belong to agents.

The field `side_channel` of a message is a sequence of records: the channel's id (16 bytes, the first three groups of
the UUID little-endian), the payload's length (int32) and the payload. Numbers are little-endian; a text is its length,
then its ASCII bytes.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from palaestra.core.errors import EnvError, ProtocolError, exception_summary

MAX_UNKNOWN = 100
"""Number of channels without a Python side about which users are warned."""
_HEADER = struct.Struct("<16si")
_BOOL = struct.Struct("<?")
_INT32 = struct.Struct("<i")
_FLOAT32 = struct.Struct("<f")


def pack(messages: Iterable[tuple[UUID, bytes]]) -> bytes:
    """Encodes messages, each with its channel's id, as one field."""
    return b"".join(_HEADER.pack(channel.bytes_le, len(payload)) + payload for channel, payload in messages)


def unpack(raw: bytes) -> list[tuple[UUID, bytes]]:
    """Decodes the messages of a field. Raises ProtocolError for an incomplete record."""
    messages = []
    at = 0
    while at < len(raw):
        if len(raw) - at < _HEADER.size:
            raise ProtocolError(
                f"side channel bytes end inside a header: {_HEADER.size} bytes were expected at byte {at}, "
                f"{len(raw) - at} are left"
            )
        channel, length = _HEADER.unpack_from(raw, at)
        begin = at + _HEADER.size
        if not 0 <= length <= len(raw) - begin:
            raise ProtocolError(
                f"side channel bytes are cut short or garbled: the record at byte {at}, of channel "
                f"{UUID(bytes_le=channel)}, announces {length} bytes, {len(raw) - begin} are left"
            )
        messages.append((UUID(bytes_le=channel), bytes(raw[begin : begin + length])))
        at = begin + length
    return messages


class OutgoingMessage:
    """A message to write value by value, in the order in which the game reads it."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def write_bool(self, b: bool) -> None:
        """Writes one byte."""
        self.buffer += _BOOL.pack(b)

    def write_int32(self, i: int) -> None:
        """Writes four bytes. Raises EnvError for anything but a 32-bit integer."""
        self.buffer += _packed(_INT32, i, "a whole number of 32 bits")

    def write_float32(self, f: float) -> None:
        """Writes four bytes. Raises EnvError for anything but a number in the range of 32-bit floats."""
        self.buffer += _packed(_FLOAT32, f, "a number in the range of 32-bit floats")

    def write_float32_list(self, float_list: Sequence[float]) -> None:
        """Writes the length of the list, then its numbers."""
        self.write_int32(len(float_list))
        for number in float_list:
            self.write_float32(number)

    def write_string(self, s: str) -> None:
        """Writes the text's length, then the text. Raises EnvError if the text is not ASCII, because Unity cannot read
        other text."""
        if not s.isascii():
            foreign = ", ".join(dict.fromkeys(repr(letter) for letter in s if not letter.isascii()))
            raise EnvError(f"a side channel cannot carry the text {s!r}: Unity reads ASCII; write it without {foreign}")
        self.write_int32(len(s))
        self.buffer += s.encode("ascii")

    def set_raw_bytes(self, buffer: bytes | bytearray) -> None:
        """Replaces everything written so far by these bytes."""
        self.buffer = bytearray(buffer)


def message_of(*values: str | float | bytes | Sequence[float]) -> OutgoingMessage:
    """Writes texts, whole numbers as int32, floats as float32, lists of float32, and bytes as they are."""
    message = OutgoingMessage()
    for value in values:
        match value:
            case str():
                message.write_string(value)
            case int():
                message.write_int32(value)
            case float():
                message.write_float32(value)
            case bytes():
                message.buffer += value
            case _:
                message.write_float32_list(value)
    return message


class IncomingMessage:
    """A message to read value by value; at the end of the message each method returns `default_value`. Raises
    ProtocolError."""

    def __init__(self, buffer: bytes, offset: int = 0) -> None:
        self.buffer = buffer
        self.offset = offset

    def read_bool(self, default_value: bool = False) -> bool:
        """Reads one byte."""
        return default_value if self._at_end() else self._number(_BOOL, "a bool")

    def read_int32(self, default_value: int = 0) -> int:
        """Reads four bytes."""
        return default_value if self._at_end() else self._number(_INT32, "an int32")

    def read_float32(self, default_value: float = 0.0) -> float:
        """Reads four bytes."""
        return default_value if self._at_end() else self._number(_FLOAT32, "a float32")

    def read_float32_list(self, default_value: list[float] | None = None) -> list[float]:
        """Reads the length of a list, then its numbers. Without `default_value`, the default is an empty list."""
        if self._at_end():
            return [] if default_value is None else default_value
        count = self._count("a list's count")
        return list(struct.unpack(f"<{count}f", self._take(4 * count, f"a list of {count} float32")))

    def read_string(self, default_value: str = "") -> str:
        """Reads a text as UTF-8, which includes the ASCII that games write."""
        if self._at_end():
            return default_value
        length = self._count("a text's length")
        return self._take(length, f"a text of {length} bytes").decode("utf-8", "replace")

    def get_raw_bytes(self) -> bytes:
        """Returns the whole message, including the part already read."""
        return bytes(self.buffer)

    def _at_end(self) -> bool:
        return self.offset >= len(self.buffer)

    def _number(self, form: struct.Struct, what: str) -> Any:
        return form.unpack(self._take(form.size, what))[0]

    def _count(self, what: str) -> int:
        count = self._number(_INT32, what)
        if count < 0:
            raise ProtocolError(
                f"{what} is {count} at byte {self.offset - _INT32.size} of a side channel message; expected 0 or more"
            )
        return count

    def _take(self, size: int, what: str) -> bytes:
        left = len(self.buffer) - self.offset
        if size > left:
            raise ProtocolError(
                f"a side channel message of {len(self.buffer)} bytes ends inside {what}: at byte {self.offset}, "
                f"{size} bytes were expected and {left} are left; does the game write what is read here, in the same "
                "order?"
            )
        self.offset += size
        return bytes(self.buffer[self.offset - size : self.offset])


class SideChannel:
    """A channel between a game's C# code and Python, with one id on both sides. Subclass it, override `receive`."""

    restates = False
    """Whether `on_connect` sends all state again, so that messages queued for that game instance before are dropped."""

    def __init__(self, channel_id: UUID) -> None:
        self.channel_id = channel_id
        self._sent: deque[tuple[int | None, bytes]] = deque()  # for which copy; None: for all

    def receive(self, message: IncomingMessage, copy: int) -> None:
        """Handles a message from one copy of the game. An exception ends the run with an error that names it."""
        raise ProtocolError(
            "the channel is send-only, and the game sent a message on it; override `receive` to take it"
        )

    def send(self, message: OutgoingMessage, copy: int | None = None) -> None:
        """Sends a message with the next actions to one copy of the game, or to all. If the game crashes, unsent
        messages are lost."""
        self._sent.append((copy, bytes(message.buffer)))

    def on_connect(self, copy: int) -> None:
        """Called when a copy connects, also after a crash; messages sent in this method arrive before the copy's first
        tick."""

    def take_sent(self) -> list[tuple[int | None, bytes]]:
        """Returns and removes the messages sent since the last call. Other threads may keep sending."""
        return [self._sent.popleft() for _ in range(len(self._sent))]


class SideChannels:
    """All channels of one environment, for all of its copies of the game."""

    def __init__(self, channels: Sequence[SideChannel], copies: int, warn: Callable[[str], None]) -> None:
        """`warn` is called once for each unknown id. Raises EnvError for a channel without its own id."""
        self._channels: dict[UUID, SideChannel] = {}
        for channel in channels:
            if not isinstance(getattr(channel, "channel_id", None), UUID) or not hasattr(channel, "_sent"):
                raise EnvError(
                    f"the side channel {type(channel).__name__} has no id: its __init__ must call "
                    "super().__init__(UUID(...)), with the id that the game's class has"
                )
            other = self._channels.setdefault(channel.channel_id, channel)
            if other is not channel:
                raise EnvError(
                    f"the {_title(channel)} has the id of another, {type(other).__name__}; give it one of its own "
                    "(uuid.uuid4())"
                )
        self._queues: list[dict[UUID, list[bytes]]] = [{id: [] for id in self._channels} for _ in range(copies)]
        self._warn = warn
        self._unknown = set[UUID]()
        self._connected: set[int] = set()

    def connected(self, copy: int) -> None:
        """Call it whenever a copy of the game connects: drops messages that waited for the earlier instance."""
        self._collect()
        for id, channel in self._channels.items():
            if channel.restates or copy in self._connected:
                self._queues[copy][id].clear()
            _call(channel, "on_connect", lambda channel=channel: channel.on_connect(copy))
        self._connected.add(copy)

    def outgoing(self, copy: int) -> bytes:
        """Returns the field for a copy's next message: channel by channel, in the order of sending."""
        self._collect()
        queues = self._queues[copy]
        if not any(queues.values()):
            return b""
        raw = pack((id, payload) for id, queue in queues.items() for payload in queue)
        for queue in queues.values():
            queue.clear()
        return raw

    def incoming(self, copy: int, raw: bytes) -> None:
        """Passes a copy's messages to their channels. Raises ProtocolError, or EnvError if a channel fails."""
        for id, payload in unpack(raw):
            if id in self._channels:
                channel = self._channels[id]
                message = IncomingMessage(payload)
                _call(channel, "receive", lambda channel=channel, message=message: channel.receive(message, copy))
            elif id not in self._unknown and len(self._unknown) < MAX_UNKNOWN:
                self._unknown.add(id)
                self._warn(
                    f"the game sends on side channel {id}, which has no Python class here: its messages are ignored "
                    f"(name the channel's class in env_settings: side_channels to receive them)"
                )

    def _collect(self) -> None:
        for id, channel in self._channels.items():
            for copy, payload in channel.take_sent():
                if copy is not None and not 0 <= copy < len(self._queues):
                    raise EnvError(
                        f"the {_title(channel)} sent to copy {copy}; there are copies 0 to {len(self._queues) - 1}"
                    )
                for queues in self._queues if copy is None else (self._queues[copy],):
                    queues[id].append(payload)


def _call(channel: SideChannel, method: str, call: Callable[[], None]) -> None:
    try:
        call()
    except ProtocolError as error:
        raise ProtocolError(f"the {_title(channel)}: {error}") from error
    except (Exception, SystemExit) as error:  # a user's channel may raise anything
        raise EnvError(f"the {_title(channel)}: its {method} failed: {exception_summary(error)}") from error


def _title(channel: SideChannel) -> str:
    return f"side channel {type(channel).__name__} ({channel.channel_id})"


def _packed(form: struct.Struct, value: Any, expected: str) -> bytes:
    try:
        return form.pack(value)
    except (struct.error, OverflowError, TypeError) as error:
        raise EnvError(f"a side channel cannot carry {value!r}; expected {expected}") from error
