"""What carries messages between this process and a game, for programs that bring a way of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from palaestra.wire.messages import message_class

UnityMessageProto = message_class("communicator_objects.UnityMessageProto")
UnityInputProto = message_class("communicator_objects.UnityInputProto")
UnityOutputProto = message_class("communicator_objects.UnityOutputProto")

PollCallback: TypeAlias = Callable[[], None]
"""Called while a communicator waits; raises where there is nothing to wait for any more."""


class Communicator:
    """The contract, which does nothing by itself. A UnityEnvironment uses the one that its `_get_communicator` gives.

    Messages are UnityInputProto to the game and UnityOutputProto from it.
    """

    def __init__(self, worker_id: int = 0, base_port: int = 5005) -> None:
        """The port is `base_port` + `worker_id`."""

    def initialize(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Waits for what the game says of itself, answers with `inputs`, and returns what it said."""

    def exchange(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Sends a command and returns what the game says next; None: it said goodbye."""

    def close(self) -> None:
        """Tells the game to end, and closes the connection."""
