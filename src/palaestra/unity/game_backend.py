"""Plays one game over any kind of connection: decodes its messages to steps, and encodes actions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from palaestra.core import specs
from palaestra.core.errors import EnvError
from palaestra.unity.base_env import ActionSpec, ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from palaestra.unity.exception import UnityEnvironmentException
from palaestra.unity.logging_util import get_logger
from palaestra.unity.reading import TensorReader
from palaestra.wire import encode
from palaestra.wire.decode import GameMessage
from palaestra.wire.handshake import read_game_version
from palaestra.wire.messages import message_class
from palaestra.wire.readers import read_action

Steps = tuple[DecisionSteps, TerminalSteps]


@dataclass(frozen=True, slots=True)
class StepResult:
    """Answer of an environment to a command."""

    steps: Mapping[str, Steps]  # by behavior key; behaviors without agents may be missing
    side_channel: bytes = b""


class GameBackend(ABC):
    """Base class of connections to a game, which answers each message. `specs` grows with the game's behaviors."""

    def __init__(self) -> None:
        self.specs: dict[str, BehaviorSpec] = {}
        self.capabilities: Any = None
        """UnityRLCapabilitiesProto of the game, once it is connected."""
        self._readers: dict[str, TensorReader] = {}
        self._brains: dict[str, Any] = {}
        self._writers: dict[str, encode.ActionWriter] = {}
        self._package: re.Match[str] | None = None

    def reset(self, side_channel: bytes) -> StepResult:
        """Begins new episodes for all agents."""
        return self._exchange(encode.reset(side_channel))

    def step(self, actions: Mapping[str, ActionTuple], side_channel: bytes) -> StepResult:
        """Sends actions by behavior key and returns the next steps."""
        written = {key: self._write(key, action) for key, action in actions.items()}
        return self._exchange(encode.step(written, side_channel))

    @abstractmethod
    def close(self) -> None:
        """Ends the game."""

    @abstractmethod
    def _receive_after(self, raw: bytes) -> GameMessage:
        """Sends an encoded message and returns the game's next one."""

    def _exchange(self, raw: bytes) -> StepResult:
        incoming = self._receive_after(raw)
        return StepResult(self._read(incoming), incoming.side_channel)

    def _greet(self, incoming: GameMessage) -> None:
        """Handles the first message of a game. Raises UnityEnvironmentException for another protocol version."""
        hello = incoming.hello
        if hello is None:
            raise UnityEnvironmentException(
                "the first message does not introduce a game: it continues with another trainer, or is no game"
            )
        try:
            game = read_game_version(hello)
        except EnvError as error:
            raise UnityEnvironmentException(f"cannot talk to this game: {error}") from error
        logger = get_logger(__name__)
        logger.info(f"connected to a Unity game with {game.line()}")
        if "baseRLCapabilities" not in game.capabilities:
            logger.warning(
                "the game does not have the capabilities of package 1.0; some functions of this API may not work with "
                "it"
            )
        self._package = re.match(r"\d{1,9}", game.package, re.ASCII)
        self.capabilities = hello.capabilities
        self._read(incoming)

    def _read(self, incoming: GameMessage) -> dict[str, Steps]:
        """Decodes the agents of a message to steps, by behavior key."""
        announced = [] if incoming.hello is None else list(incoming.hello.brain_parameters)
        for brain in announced:
            self._brains[brain.brain_name] = brain
        again = {brain.brain_name for brain in announced}
        order = [key for key in self._brains if key in incoming.infos]
        for key in order:
            if key in again or key not in self._readers:
                self._add_reader(key, incoming)
        for key in incoming.infos.keys() - self._brains.keys():
            get_logger(__name__).warning(
                f"the game sent agents of behavior '{key}' but never described it; they are ignored"
            )
        return {key: self._readers[key].read(incoming.infos[key]) for key in order}

    def _add_reader(self, key: str, incoming: GameMessage) -> None:
        major = int(self._package[0]) if self._package else None
        reader = TensorReader(key, ActionSpec(*read_action(self._brains[key])), incoming.infos[key], major)
        self._readers[key] = reader
        self.specs[key] = reader.spec
        self._writers.pop(key, None)
        get_logger(__name__).info(f"connected a new behavior: {key}")

    def _write(self, key: str, action: ActionTuple) -> bytes:
        """Encodes the actions of all agents of a behavior key that request decisions."""
        spec = self.specs[key].action_spec
        if (spec.continuous_size or spec.discrete_size) and _within(action, spec):
            if key not in self._writers:
                self._writers[key] = encode.ActionWriter(
                    specs.ActionSpec(spec.continuous_size, tuple(spec.discrete_branches))
                )
            return self._writers[key].write(action.continuous, action.discrete.astype("int64"))
        rows = zip(action.continuous.tolist(), action.discrete.tolist(), strict=True)
        message = _Actions(
            value=[
                {
                    "vector_actions_deprecated": [*numbers, *choices],
                    "continuous_actions": numbers,
                    "discrete_actions": choices,
                }
                for numbers, choices in rows
            ]
        )
        return message.SerializeToString()


_Actions = message_class("communicator_objects.UnityRLInputProto.ListAgentActionProto")


def _within(action: ActionTuple, spec: ActionSpec) -> bool:
    """Whether all choices are valid; only then are the encoded rows equally long."""
    return bool(((action.discrete >= 0) & (action.discrete < spec.discrete_branches)).all())
