"""Messages to a game, written value by value."""

from palaestra.wire.side_channels import OutgoingMessage

__all__ = ["OutgoingMessage"]
