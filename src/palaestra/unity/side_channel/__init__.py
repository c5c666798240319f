"""What travels beside observations and actions."""

from palaestra.unity.side_channel.incoming_message import IncomingMessage
from palaestra.unity.side_channel.outgoing_message import OutgoingMessage
from palaestra.unity.side_channel.side_channel import SideChannel

__all__ = ["IncomingMessage", "OutgoingMessage", "SideChannel"]
