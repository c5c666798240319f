"""Contract of communicators, which carry messages between this process and a game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from palaestra.wire.messages import message_class

UnityMessageProto = message_class("communicator_objects.UnityMessageProto")
UnityInputProto = message_class("communicator_objects.UnityInputProto")
UnityOutputProto = message_class("communicator_objects.UnityOutputProto")

PollCallback: TypeAlias = Callable[[], None]
"""Called while a communicator waits; raises to stop waiting."""


class Communicator:
    """Base class that does nothing; messages are UnityInputProto to the game and UnityOutputProto from it."""

    def __init__(self, worker_id: int = 0, base_port: int = 5005) -> None:
        """Takes the port as `base_port` + `worker_id`."""

    def initialize(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Waits for the game's first message, answers with `inputs`, and returns the message."""

    def exchange(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Sends a command and returns the game's next message; None: the game quit."""

    def close(self) -> None:
        """Asks the game to quit and closes the connection."""
