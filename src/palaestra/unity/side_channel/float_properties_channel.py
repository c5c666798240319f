"""Side channel of named numbers that both sides read and set."""

from __future__ import annotations

from uuid import UUID

from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage, message_of
from palaestra.wire.unity_channels import FLOAT_PROPERTIES


class FloatPropertiesChannel(SideChannel):
    """Named numbers, each with the value last set by either side."""

    def __init__(self, channel_id: UUID | None = None) -> None:
        """Takes an id; None: the id of Unity's FloatPropertiesChannel."""
        super().__init__(FLOAT_PROPERTIES if channel_id is None else channel_id)
        self._properties: dict[str, float] = {}

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Stores a value from the game."""
        key = msg.read_string()
        self._properties[key] = msg.read_float32()

    def set_property(self, key: str, value: float) -> None:
        """Sets a value and sends it with the next `reset` or `step`."""
        self._properties[key] = value
        self.queue_message_to_send(message_of(key, float(value)))

    def get_property(self, key: str) -> float | None:
        """Returns a value; None if neither side has set it."""
        return self._properties.get(key)

    def list_properties(self) -> list[str]:
        """Returns the names of all values."""
        return list(self._properties)

    def get_property_dict_copy(self) -> dict[str, float]:
        """Returns all values by name."""
        return dict(self._properties)
