"""Base class of side channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from uuid import UUID

from palaestra.wire.side_channels import IncomingMessage, OutgoingMessage


class SideChannel(ABC):
    """Side channel: messages between a game and Python code under one id."""

    def __init__(self, channel_id: UUID) -> None:
        """Takes the id of the game's channel."""
        self._channel_id = channel_id
        self.message_queue: list[bytearray] = []
        """Messages to send with the next `reset` or `step`."""

    @property
    def channel_id(self) -> UUID:
        """Id of the channel."""
        return self._channel_id

    def queue_message_to_send(self, msg: OutgoingMessage) -> None:
        """Queues a message, sent with the next `reset` or `step`."""
        self.message_queue.append(msg.buffer)

    @abstractmethod
    def on_message_received(self, msg: IncomingMessage) -> None:
        """Handles a message of the game. Called in `reset` or `step`, which raise its errors."""
