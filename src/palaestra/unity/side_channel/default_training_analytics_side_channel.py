"""Side channel of Unity's analytics: tells that the game runs with a custom Python program."""

from __future__ import annotations

import platform

from palaestra.envs.unity.analytics import ANALYTICS
from palaestra.unity.exception import UnityCommunicationException
from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.encode import PACKAGE
from palaestra.wire.messages import Any_, message_class
from palaestra.wire.side_channels import IncomingMessage, message_of

_MESSAGE = "communicator_objects.TrainingEnvironmentInitialized"


class DefaultTrainingAnalyticsSideChannel(SideChannel):
    """Analytics channel that every UnityEnvironment has, unless it is given a channel with this id."""

    CHANNEL_ID = ANALYTICS

    def __init__(self) -> None:
        super().__init__(ANALYTICS)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Raises UnityCommunicationException: games send nothing on this channel."""
        raise UnityCommunicationException(
            "the game sent on the channel of training analytics, which only sends; do two channels share an id?"
        )

    def environment_initialized(self) -> None:
        """Queues the versions of this program, sent with the first `reset`."""
        facts = message_class(_MESSAGE)(
            mlagents_version="Custom",
            mlagents_envs_version=PACKAGE,
            python_version=platform.python_version(),
            torch_version="Unknown",
            torch_device_type="Unknown",
            num_envs=0,
            num_environment_parameters=0,
        )
        wrapped = Any_(type_url=f"type.googleapis.com/{_MESSAGE}", value=facts.SerializeToString())
        self.queue_message_to_send(message_of(wrapped.SerializeToString()))
