"""Encodes and decodes the messages of all side channels of an environment."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from palaestra.core.errors import ProtocolError
from palaestra.unity.exception import UnityEnvironmentException
from palaestra.unity.logging_util import get_logger
from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage, pack, unpack


class SideChannelManager:
    """Hands received messages to channels by id, and collects queued messages."""

    def __init__(self, side_channels: Sequence[SideChannel] | None = None) -> None:
        """Takes the channels. Raises UnityEnvironmentException if two have the same id."""
        self.channels: dict[UUID, SideChannel] = {}
        self._unknown: set[UUID] = set()
        for channel in side_channels or ():
            other = self.channels.get(channel.channel_id)
            if other is not None:
                raise UnityEnvironmentException(
                    f"two side channels, {type(other).__name__} and {type(channel).__name__}, have one id, "
                    f"{channel.channel_id}; give each its own"
                )
            self.channels[channel.channel_id] = channel

    def process_side_channel_message(self, data: bytes) -> None:
        """Hands messages to channels; warns once about an id that no channel has. Raises UnityEnvironmentException."""
        try:
            messages = unpack(data)
        except ProtocolError as error:
            raise UnityEnvironmentException(str(error)) from error
        for id, payload in messages:
            if id in self.channels:
                self.channels[id].on_message_received(IncomingMessage(payload))
            elif id not in self._unknown:
                self._unknown.add(id)
                get_logger(__name__).warning(
                    f"the game sent {len(payload)} bytes on side channel {id}, for which there is none here; "
                    f"pass one with this id in side_channels to receive them"
                )

    def generate_side_channel_messages(self) -> bytearray:
        """Returns all queued messages, channel by channel, and empties the queues."""
        queued = [(id, bytes(message)) for id, channel in self.channels.items() for message in channel.message_queue]
        for channel in self.channels.values():
            channel.message_queue = []
        return bytearray(pack(queued))
