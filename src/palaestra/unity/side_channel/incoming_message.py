"""Messages from a game, read value by value."""

from palaestra.wire.side_channels import IncomingMessage

__all__ = ["IncomingMessage"]
