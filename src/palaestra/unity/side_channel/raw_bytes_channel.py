"""Side channel of raw bytes."""

from __future__ import annotations

from uuid import UUID

from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage, message_of


class RawBytesChannel(SideChannel):
    """Sends raw bytes and keeps received ones until they are taken."""

    def __init__(self, channel_id: UUID) -> None:
        super().__init__(channel_id)
        self._received: list[bytes] = []

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Keeps a message."""
        self._received.append(msg.get_raw_bytes())

    def get_and_clear_received_messages(self) -> list[bytes]:
        """Returns all messages since the last call, in order."""
        received = self._received
        self._received = []
        return received

    def send_raw_data(self, data: bytes | bytearray) -> None:
        """Sends bytes with the next `reset` or `step`."""
        self.queue_message_to_send(message_of(bytes(data)))
