"""Messages between a game and its trainer beside those of the agents, on the game's side: a trainer's own code has the other end."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from uuid import UUID

from palaestra.core.errors import EnvError, ProtocolError, exception_summary
from palaestra.wire.side_channels import IncomingMessage, OutgoingMessage, pack, unpack

__all__ = ["GameSideChannels", "IncomingMessage", "OutgoingMessage", "SideChannel"]

KEPT = 10_000
"""Messages of a channel that wait for a trainer; the oldest go, as where there is none."""


class SideChannel:
    """What a game's code and a trainer's say to each other under one id. Subclass it, and override `on_message_received`."""

    def __init__(self, channel_id: UUID | str) -> None:
        self.channel_id = channel_id if isinstance(channel_id, UUID) else UUID(channel_id)
        self._sent: deque[bytes] = deque(maxlen=KEPT)

    def on_message_received(self, message: IncomingMessage) -> None:
        """A message of the trainer's, before the agents hear of the tick that it came with."""
        raise ProtocolError("the channel only sends, and the trainer sent a message on it; override `on_message_received` to take it")

    def send(self, message: OutgoingMessage) -> None:
        """Goes out with what the agents say next; in process, or without a trainer, to nobody."""
        self._sent.append(bytes(message.buffer))

    def take_sent(self) -> list[bytes]:
        """What `send` was given since the last call."""
        return [self._sent.popleft() for _ in range(len(self._sent))]


class GameSideChannels:
    """All channels of a game. Several may have one id, as where each area has made its own: each hears what comes."""

    def __init__(self, channels: Iterable[SideChannel], warn: Callable[[str], None]) -> None:
        """`warn` is told once of each id that the game has no channel for."""
        self._channels: defaultdict[UUID, list[SideChannel]] = defaultdict(list)
        self._warn, self._unknown = warn, set[UUID]()
        for channel in channels:
            self.add(channel)

    def add(self, channel: SideChannel) -> None:
        """Listens from now on. Raises EnvError for one that has no id."""
        if not hasattr(channel, "_sent"):
            raise EnvError(
                f"the side channel {type(channel).__name__} has no id: its __init__ must call super().__init__('...'), with a UUID"
            )
        if channel not in self._channels[channel.channel_id]:
            self._channels[channel.channel_id].append(channel)

    def receive(self, raw: bytes) -> None:
        """Hands the messages of a field to their channels. Raises EnvError for what a channel raises."""
        for id, payload in unpack(raw) if raw else ():
            if id not in self._channels and id not in self._unknown:
                self._unknown.add(id)
                self._warn(f"the trainer sends on side channel {id}, for which the game has none: its messages are passed over")
            for channel in self._channels.get(id, ()):
                try:
                    channel.on_message_received(IncomingMessage(payload))
                except Exception as error:  # whatever a user's channel does
                    raise EnvError(
                        f"the side channel {type(channel).__name__} ({id}): its on_message_received failed: {exception_summary(error)}"
                    ) from error

    def take(self) -> bytes:
        """The field for the next message: channel by channel, each one's messages in the order in which they were sent."""
        return pack((id, payload) for id, channels in self._channels.items() for channel in channels for payload in channel.take_sent())
