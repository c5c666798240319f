"""Tells a game's own analytics about the training: the first copy, and only where the game asked for it."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from palaestra.envs.base import BehaviorFacts, TrainingFacts
from palaestra.wire.messages import Any_, message_class
from palaestra.wire.side_channels import OutgoingMessage, SideChannel

ANALYTICS = UUID("b664a4a9-d86f-5a5f-95cb-e8353a7e8356")
_PACKAGE = "communicator_objects"


class AnalyticsSender(SideChannel):
    """One message of the run, one of each behavior; all of them again for a game that starts again."""

    restates = True

    def __init__(self) -> None:
        super().__init__(ANALYTICS)
        self.wanted = False
        """The game has the capability trainingAnalytics; to be set before it counts as connected."""
        self._said: dict[str, bytes] = {}  # by behavior, '' for the run itself

    def training_starts(self, facts: TrainingFacts) -> None:
        """To be said with the first reset."""
        self._say("", "TrainingEnvironmentInitialized", facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """To be said with the next actions, once a behavior."""
        self._say(facts.behavior_name, "TrainingBehaviorInitialized", facts)

    def on_connect(self, copy: int) -> None:
        """All that was said before."""
        if copy == 0 and self.wanted:
            for payload in self._said.values():
                self._send(payload)

    def _say(self, behavior: str, name: str, facts: TrainingFacts | BehaviorFacts) -> None:
        if behavior in self._said:
            return
        message = message_class(f"{_PACKAGE}.{name}")(**asdict(facts))
        wrapped = Any_(type_url=f"type.googleapis.com/{_PACKAGE}.{name}", value=message.SerializeToString())
        self._said[behavior] = wrapped.SerializeToString()
        if self.wanted:
            self._send(self._said[behavior])

    def _send(self, payload: bytes) -> None:
        message = OutgoingMessage()
        message.set_raw_bytes(payload)
        self.send(message, 0)
