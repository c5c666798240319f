"""The base of all side channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from uuid import UUID

from palaestra.wire.side_channels import IncomingMessage, OutgoingMessage


class SideChannel(ABC):
    """What a game and code on this side say to each other under one id, beside observations and actions."""

    def __init__(self, channel_id: UUID) -> None:
        """`channel_id`: the one that the game's own channel has."""
        self._channel_id = channel_id
        self.message_queue: list[bytearray] = []
        """Goes out with the next `reset` or `step`."""

    @property
    def channel_id(self) -> UUID:
        """What its messages go under."""
        return self._channel_id

    def queue_message_to_send(self, msg: OutgoingMessage) -> None:
        """Goes out with the next `reset` or `step`, after those queued before."""
        self.message_queue.append(msg.buffer)

    @abstractmethod
    def on_message_received(self, msg: IncomingMessage) -> None:
        """Called for each message of the game, within `reset` or `step`; what it raises comes out of those."""
