"""Messages beside those of the agents: their bytes, and the channels they travel on.

The field `side_channel` of a message is a row of records: the channel's id (16 bytes, the first three groups of the UUID little-endian),
the payload's length (int32) and the payload. All numbers are little-endian, text is a length and ASCII.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from palaestra.core.errors import EnvError, ProtocolError, exception_summary

MAX_UNKNOWN = 100
"""Channels that the game alone has of which people are told."""
_HEADER = struct.Struct("<16si")
_BOOL, _INT32, _FLOAT32 = struct.Struct("<?"), struct.Struct("<i"), struct.Struct("<f")


def pack(messages: Iterable[tuple[UUID, bytes]]) -> bytes:
    """Messages, each with its channel's id, as one field."""
    return b"".join(_HEADER.pack(channel.bytes_le, len(payload)) + payload for channel, payload in messages)


def unpack(raw: bytes) -> list[tuple[UUID, bytes]]:
    """The messages of a field. Raises ProtocolError where a record does not fit into it."""
    messages, at = [], 0
    while at < len(raw):
        if len(raw) - at < _HEADER.size:
            raise ProtocolError(
                f"side channel bytes end inside a header: {_HEADER.size} bytes were expected at byte {at}, {len(raw) - at} are left"
            )
        channel, length = _HEADER.unpack_from(raw, at)
        begin = at + _HEADER.size
        if not 0 <= length <= len(raw) - begin:
            raise ProtocolError(
                f"side channel bytes are cut short or garbled: the record at byte {at}, of channel {UUID(bytes_le=channel)}, "
                f"announces {length} bytes, {len(raw) - begin} are left"
            )
        messages.append((UUID(bytes_le=channel), bytes(raw[begin : begin + length])))
        at = begin + length
    return messages


class OutgoingMessage:
    """A message to be written value by value, in the order in which the game reads it."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def write_bool(self, b: bool) -> None:
        """One byte."""
        self.buffer += _BOOL.pack(b)

    def write_int32(self, i: int) -> None:
        """Raises EnvError for what is no whole number of 32 bits."""
        self.buffer += _packed(_INT32, i, "a whole number of 32 bits")

    def write_float32(self, f: float) -> None:
        """Raises EnvError for what is no number, or beyond the range of 32 bits."""
        self.buffer += _packed(_FLOAT32, f, "a number in the range of 32-bit floats")

    def write_float32_list(self, float_list: Sequence[float]) -> None:
        """Their count, then the numbers."""
        self.write_int32(len(float_list))
        for number in float_list:
            self.write_float32(number)

    def write_string(self, s: str) -> None:
        """Raises EnvError for text beyond ASCII, which Unity would read as question marks."""
        if not s.isascii():
            raise EnvError(f"a side channel cannot carry the text {s!r}: Unity reads ASCII; write it without {_foreign(s)}")
        self.write_int32(len(s))
        self.buffer += s.encode("ascii")

    def set_raw_bytes(self, buffer: bytes | bytearray) -> None:
        """These bytes, in place of all that was written."""
        self.buffer = bytearray(buffer)


class IncomingMessage:
    """A message to be read value by value, in the order in which the game wrote it.

    At its end each method gives `default_value`. A value that the message ends in the middle of raises ProtocolError.
    """

    def __init__(self, buffer: bytes, offset: int = 0) -> None:
        self.buffer, self.offset = buffer, offset

    def read_bool(self, default_value: bool = False) -> bool:
        """One byte."""
        return default_value if self._at_end() else self._number(_BOOL, "a bool")

    def read_int32(self, default_value: int = 0) -> int:
        """Four bytes."""
        return default_value if self._at_end() else self._number(_INT32, "an int32")

    def read_float32(self, default_value: float = 0.0) -> float:
        """Four bytes."""
        return default_value if self._at_end() else self._number(_FLOAT32, "a float32")

    def read_float32_list(self, default_value: list[float] | None = None) -> list[float]:
        """A count, then the numbers; an empty list is the default's default."""
        if self._at_end():
            return [] if default_value is None else default_value
        count = self._count("a list's count")
        return list(struct.unpack(f"<{count}f", self._take(4 * count, f"a list of {count} float32")))

    def read_string(self, default_value: str = "") -> str:
        """ASCII; what else a game sends is read as UTF-8."""
        if self._at_end():
            return default_value
        length = self._count("a text's length")
        return self._take(length, f"a text of {length} bytes").decode("utf-8", "replace")

    def get_raw_bytes(self) -> bytes:
        """The whole message, read or not."""
        return bytes(self.buffer)

    def _at_end(self) -> bool:
        return self.offset >= len(self.buffer)

    def _number(self, form: struct.Struct, what: str) -> Any:
        return form.unpack(self._take(form.size, what))[0]

    def _count(self, what: str) -> int:
        count = self._number(_INT32, what)
        if count < 0:
            raise ProtocolError(f"{what} is {count} at byte {self.offset - _INT32.size} of a side channel message; expected 0 or more")
        return count

    def _take(self, size: int, what: str) -> bytes:
        left = len(self.buffer) - self.offset
        if size > left:
            raise ProtocolError(
                f"a side channel message of {len(self.buffer)} bytes ends inside {what}: at byte {self.offset}, {size} bytes were expected "
                f"and {left} are left; does the game write what is read here, in the same order?"
            )
        self.offset += size
        return bytes(self.buffer[self.offset - size : self.offset])


class SideChannel:
    """What a game's C# code and code on this side say to each other under one id. Subclass it, and override `receive`."""

    restates = False
    """`on_connect` says everything anew: what was queued for that copy before is dropped."""

    def __init__(self, channel_id: UUID) -> None:
        self.channel_id = channel_id
        self._sent: deque[tuple[int | None, bytes]] = deque()  # to which copy, None: to all

    def receive(self, message: IncomingMessage, copy: int) -> None:
        """A message of one copy of the game. Whatever this raises ends the run with an error that names the line."""
        raise ProtocolError("the channel is send-only, and the game sent a message on it; override `receive` to take it")

    def send(self, message: OutgoingMessage, copy: int | None = None) -> None:
        """Goes out with the next actions of that copy, or of each copy. What a crash leaves unsent, the copy's next start does not get."""
        self._sent.append((copy, bytes(message.buffer)))

    def on_connect(self, copy: int) -> None:
        """A copy of the game has connected, for the first time or again after a crash; what is sent here goes out before its first tick."""

    def take_sent(self) -> list[tuple[int | None, bytes]]:
        """What `send` was given since the last call. Other threads may go on sending."""
        return [self._sent.popleft() for _ in range(len(self._sent))]


class SideChannels:
    """All channels of one environment, over its copies."""

    def __init__(self, channels: Sequence[SideChannel], copies: int, warn: Callable[[str], None]) -> None:
        """`warn` is told once of each id that no channel has. Raises EnvError where two channels have one id, or one has none."""
        self._channels: dict[UUID, SideChannel] = {}
        for channel in channels:
            if not isinstance(getattr(channel, "channel_id", None), UUID) or not hasattr(channel, "_sent"):
                raise EnvError(
                    f"the side channel {type(channel).__name__} has no id: its __init__ must call super().__init__(UUID(...)), "
                    f"with the id that the game's class has"
                )
            other = self._channels.setdefault(channel.channel_id, channel)
            if other is not channel:
                raise EnvError(
                    f"the {_title(channel)} has the id of another, {type(other).__name__}; give it one of its own (uuid.uuid4())"
                )
        self._queues: list[dict[UUID, list[bytes]]] = [{id: [] for id in self._channels} for _ in range(copies)]
        self._warn, self._unknown = warn, set[UUID]()
        self._connected: set[int] = set()

    def connected(self, copy: int) -> None:
        """A copy of the game is there, for the first time or again: to be called before its first `outgoing`.

        What was left for the game it takes the place of is dropped, and channels say again what it has to know.
        """
        self._collect()
        for id, channel in self._channels.items():
            if channel.restates or copy in self._connected:
                self._queues[copy][id].clear()
            _call(channel, "on_connect", lambda channel=channel: channel.on_connect(copy))
        self._connected.add(copy)

    def outgoing(self, copy: int) -> bytes:
        """The field for a copy's next message: channel by channel, each one's messages in the order in which they were sent."""
        self._collect()
        queues = self._queues[copy]
        if not any(queues.values()):
            return b""
        raw = pack((id, payload) for id, queue in queues.items() for payload in queue)
        for queue in queues.values():
            queue.clear()
        return raw

    def incoming(self, copy: int, raw: bytes) -> None:
        """Hands the messages of a copy's field to their channels. Raises ProtocolError, or EnvError for what a channel raises."""
        for id, payload in unpack(raw):
            if id in self._channels:
                channel, message = self._channels[id], IncomingMessage(payload)
                _call(channel, "receive", lambda channel=channel, message=message: channel.receive(message, copy))
            elif id not in self._unknown and len(self._unknown) < MAX_UNKNOWN:
                self._unknown.add(id)
                self._warn(
                    f"the game sends on side channel {id}, for which there is none here: its messages are passed over "
                    f"(name the channel's class in env_settings: side_channels to receive them)"
                )

    def _collect(self) -> None:
        for id, channel in self._channels.items():
            for copy, payload in channel.take_sent():
                if copy is not None and not 0 <= copy < len(self._queues):
                    raise EnvError(f"the {_title(channel)} sent to copy {copy}; there are copies 0 to {len(self._queues) - 1}")
                for queues in self._queues if copy is None else (self._queues[copy],):
                    queues[id].append(payload)


def _call(channel: SideChannel, method: str, call: Callable[[], None]) -> None:
    try:
        call()
    except ProtocolError as error:
        raise ProtocolError(f"the {_title(channel)}: {error}") from error
    except Exception as error:  # whatever a user's channel does
        raise EnvError(f"the {_title(channel)}: its {method} failed: {exception_summary(error)}") from error


def _title(channel: SideChannel) -> str:
    return f"side channel {type(channel).__name__} ({channel.channel_id})"


def _packed(form: struct.Struct, value: Any, expected: str) -> bytes:
    try:
        return form.pack(value)
    except (struct.error, OverflowError, TypeError) as error:
        raise EnvError(f"a side channel cannot carry {value!r}; expected {expected}") from error


def _foreign(text: str) -> str:
    return ", ".join(dict.fromkeys(repr(letter) for letter in text if not letter.isascii()))
