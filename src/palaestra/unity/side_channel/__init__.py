"""Side channels: messages between a game and Python other than observations and actions."""

from palaestra.unity.side_channel.default_training_analytics_side_channel import DefaultTrainingAnalyticsSideChannel
from palaestra.unity.side_channel.incoming_message import IncomingMessage
from palaestra.unity.side_channel.outgoing_message import OutgoingMessage
from palaestra.unity.side_channel.side_channel import SideChannel

__all__ = ["DefaultTrainingAnalyticsSideChannel", "IncomingMessage", "OutgoingMessage", "SideChannel"]
