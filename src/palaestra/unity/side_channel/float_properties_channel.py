"""Numbers by name that both sides read and set."""

from __future__ import annotations

from uuid import UUID

from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage, OutgoingMessage
from palaestra.wire.unity_channels import FLOAT_PROPERTIES


class FloatPropertiesChannel(SideChannel):
    """Keeps what either side set last."""

    def __init__(self, channel_id: UUID | None = None) -> None:
        """Without an id: the one that Unity's own class has."""
        super().__init__(FLOAT_PROPERTIES if channel_id is None else channel_id)
        self._properties: dict[str, float] = {}

    def on_message_received(self, msg: IncomingMessage) -> None:
        """A property that the game set."""
        key = msg.read_string()
        self._properties[key] = msg.read_float32()

    def set_property(self, key: str, value: float) -> None:
        """Here at once, in the game with the next `reset` or `step`."""
        self._properties[key] = value
        message = OutgoingMessage()
        message.write_string(key)
        message.write_float32(value)
        self.queue_message_to_send(message)

    def get_property(self, key: str) -> float | None:
        """None: neither side has set it."""
        return self._properties.get(key)

    def list_properties(self) -> list[str]:
        """The names of all."""
        return list(self._properties)

    def get_property_dict_copy(self) -> dict[str, float]:
        """All of them."""
        return dict(self._properties)
