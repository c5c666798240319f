"""Messages of a game, read value by value."""

from palaestra.envs.unity.side_channels import IncomingMessage

__all__ = ["IncomingMessage"]
