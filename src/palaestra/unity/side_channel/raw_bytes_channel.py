"""Bytes, as they are."""

from __future__ import annotations

from uuid import UUID

from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage, OutgoingMessage


class RawBytesChannel(SideChannel):
    """Keeps what came until it is asked for."""

    def __init__(self, channel_id: UUID) -> None:
        super().__init__(channel_id)
        self._received: list[bytes] = []

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Keeps it."""
        self._received.append(msg.get_raw_bytes())

    def get_and_clear_received_messages(self) -> list[bytes]:
        """All since the last call, in their order."""
        received, self._received = self._received, []
        return received

    def send_raw_data(self, data: bytes | bytearray) -> None:
        """Goes out with the next `reset` or `step`."""
        message = OutgoingMessage()
        message.set_raw_bytes(data)
        self.queue_message_to_send(message)
