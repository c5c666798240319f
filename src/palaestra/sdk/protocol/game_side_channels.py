"""Game side of side channels, which carry messages between the code of a game and of a trainer."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from uuid import UUID

from palaestra.core.errors import EnvError, ProtocolError, exception_summary
from palaestra.wire.side_channels import IncomingMessage, OutgoingMessage, pack, unpack

__all__ = ["GameSideChannels", "IncomingMessage", "OutgoingMessage", "SideChannel"]

KEPT = 10_000
"""Most messages of a channel that wait to be sent; if there are more, the oldest are dropped."""


class SideChannel:
    """Side channel under one id. Subclass it and override `on_message_received` to receive messages."""

    def __init__(self, channel_id: UUID | str) -> None:
        self.channel_id = channel_id if isinstance(channel_id, UUID) else UUID(channel_id)
        self._sent: deque[bytes] = deque(maxlen=KEPT)

    def on_message_received(self, message: IncomingMessage) -> None:
        """Handles a message of the trainer, before agents receive the actions of the same message."""
        raise ProtocolError(
            "the channel only sends, and the trainer sent a message on it; override `on_message_received` to take it"
        )

    def send(self, message: OutgoingMessage) -> None:
        """Sends a message with the next outputs of agents; it is dropped if the game runs in the trainer's process or
        without a trainer."""
        self._sent.append(bytes(message.buffer))

    def take_sent(self) -> list[bytes]:
        """Returns the messages sent since the last call."""
        return [self._sent.popleft() for _ in range(len(self._sent))]


class GameSideChannels:
    """All side channels of a game. Channels with the same id, such as one for each area, all receive its messages."""

    def __init__(self, channels: Iterable[SideChannel], warn: Callable[[str], None]) -> None:
        """Adds the channels. Calls `warn` once for each id that is received and has no channel."""
        self._channels: defaultdict[UUID, list[SideChannel]] = defaultdict(list)
        self._warn = warn
        self._unknown = set[UUID]()
        for channel in channels:
            self.add(channel)

    def add(self, channel: SideChannel) -> None:
        """Adds a channel. Raises EnvError for a channel without an id."""
        if not hasattr(channel, "_sent"):
            raise EnvError(
                f"the side channel {type(channel).__name__} has no id: its __init__ must call "
                "super().__init__('...'), with a UUID"
            )
        if channel not in self._channels[channel.channel_id]:
            self._channels[channel.channel_id].append(channel)

    def receive(self, raw: bytes) -> None:
        """Hands received messages to their channels. Raises EnvError for an error in a channel."""
        for id, payload in unpack(raw) if raw else ():
            if id not in self._channels and id not in self._unknown:
                self._unknown.add(id)
                self._warn(
                    f"the trainer sends on side channel {id}, for which the game has none: its messages are ignored"
                )
            for channel in self._channels.get(id, ()):
                try:
                    channel.on_message_received(IncomingMessage(payload))
                except Exception as error:  # any error of a user's channel
                    raise EnvError(
                        f"the side channel {type(channel).__name__} ({id}): its on_message_received failed: "
                        f"{exception_summary(error)}"
                    ) from error

    def take(self) -> bytes:
        """Returns the encoded messages to send: channel by channel, in the order in which they were sent."""
        return pack(
            (id, payload)
            for id, channels in self._channels.items()
            for channel in channels
            for payload in channel.take_sent()
        )
