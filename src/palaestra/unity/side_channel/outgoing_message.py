"""Messages to a game, written value by value."""

from palaestra.envs.unity.side_channels import OutgoingMessage

__all__ = ["OutgoingMessage"]
