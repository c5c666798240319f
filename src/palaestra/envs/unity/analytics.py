"""Sends facts about the training to a game's analytics, in the first copy, if the game asked for them."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from palaestra.envs.base import BehaviorFacts, TrainingFacts
from palaestra.wire.messages import Any_, message_class
from palaestra.wire.side_channels import SideChannel, message_of

ANALYTICS = UUID("b664a4a9-d86f-5a5f-95cb-e8353a7e8356")
_PACKAGE = "communicator_objects"


class AnalyticsSender(SideChannel):
    """Side channel that sends one message about the run and one for each behavior, and sends them again after a game's
    restart."""

    restates = True

    def __init__(self) -> None:
        super().__init__(ANALYTICS)
        self.wanted = False
        """True if the game has the capability trainingAnalytics; set before it counts as connected."""
        self._payloads: dict[str, bytes] = {}  # by behavior, '' for the run itself

    def training_starts(self, facts: TrainingFacts) -> None:
        """Queues the message about the run, sent with the first reset."""
        self._announce("", "TrainingEnvironmentInitialized", facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Queues the message about a behavior, sent once, with the next actions."""
        self._announce(facts.behavior_name, "TrainingBehaviorInitialized", facts)

    def on_connect(self, copy: int) -> None:
        """Sends all earlier messages to a game that has started."""
        if copy == 0 and self.wanted:
            for payload in self._payloads.values():
                self._send(payload)

    def _announce(self, behavior: str, name: str, facts: TrainingFacts | BehaviorFacts) -> None:
        if behavior in self._payloads:
            return
        message = message_class(f"{_PACKAGE}.{name}")(**asdict(facts))
        wrapped = Any_(type_url=f"type.googleapis.com/{_PACKAGE}.{name}", value=message.SerializeToString())
        self._payloads[behavior] = wrapped.SerializeToString()
        if self.wanted:
            self._send(self._payloads[behavior])

    def _send(self, payload: bytes) -> None:
        self.send(message_of(payload), 0)
