"""Encodes a trainer's messages to a game. The actions of many agents are written at once, from a template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.specs import ActionSpec
from palaestra.wire.messages import ShallowMessage, message_class, varint

COMMUNICATION = "1.5.0"
"""Version of the protocol that Palaestra implements."""
PACKAGE = "1.1.0"
"""Release of ML-Agents' Python package that Palaestra reports to games."""
OK, GOODBYE = 200, 400
RESET = 1

Capabilities = message_class("communicator_objects.UnityRLCapabilitiesProto")
CAPABILITIES: tuple[str, ...] = tuple(field.name for field in Capabilities.DESCRIPTOR.fields)


def initialization(seed: int, areas: int) -> bytes:
    """Encodes the answer to a game's first message."""
    message = _message()
    start = message.unity_input.rl_initialization_input
    start.seed = seed
    start.num_areas = areas
    start.communication_version = COMMUNICATION
    start.package_version = PACKAGE
    start.capabilities.CopyFrom(Capabilities(**dict.fromkeys(CAPABILITIES, True)))
    return message.SerializeToString()


def reset(side_channel: bytes) -> bytes:
    """Encodes a command to reset all episodes."""
    message = _message()
    message.unity_input.rl_input.command = RESET
    message.unity_input.rl_input.side_channel = side_channel
    return message.SerializeToString()


def step(actions: Mapping[str, bytes], side_channel: bytes) -> bytes:
    """Encodes a command to simulate one step, with actions by behavior key as ActionWriter encodes them."""
    message = _message()
    answer = message.unity_input.rl_input
    answer.SetInParent()
    for key, written in actions.items():
        answer.agent_actions[key] = written
    answer.side_channel = side_channel
    return message.SerializeToString()


def goodbye() -> bytes:
    """Encodes a message that ends the game: any status but 200 does."""
    return ShallowMessage(header={"status": GOODBYE}).SerializeToString()


def _message() -> Any:
    return ShallowMessage(header={"status": OK})


class ActionWriter:
    """Encodes the actions of one behavior as a ListAgentActionProto in which every agent takes the same number of
    bytes.

    Choices are written as varints of a fixed width, which protobuf accepts even if a shorter form exists.
    """

    def __init__(self, spec: ActionSpec) -> None:
        self._widths = [max(1, -(-(size - 1).bit_length() // 7)) for size in spec.branches]
        floats = 4 * (spec.continuous + len(spec.branches))
        old = field(1, floats)
        continuous = field(6, 4 * spec.continuous)
        discrete = field(7, sum(self._widths))
        one = old + bytes(floats)
        self._continuous_at = len(one) + len(continuous)
        if spec.continuous:
            one += continuous + bytes(4 * spec.continuous)
        self._discrete_at = len(one) + len(discrete)
        if spec.branches:
            one += discrete + bytes(sum(self._widths))
        head = field(1, len(one))
        self._template = np.frombuffer(head + one, np.uint8)
        self._old_at = len(head) + len(old)
        self._continuous_at += len(head)
        self._discrete_at += len(head)

    def write(self, continuous: NDArray[np.float32], discrete: NDArray[np.int64]) -> bytes:
        """Encodes `continuous` (N, numbers) and `discrete` (N, branches), in the order of the agents' requests."""
        agents = len(continuous)
        rows = np.empty((agents, len(self._template)), np.uint8)
        rows[:] = self._template
        at = self._old_at
        if size := 4 * continuous.shape[1]:
            raw = np.ascontiguousarray(continuous, "<f4").view(np.uint8)
            rows[:, at : at + size] = raw
            rows[:, self._continuous_at : self._continuous_at + size] = raw
        if branches := discrete.shape[1]:
            raw = np.ascontiguousarray(discrete, "<f4").view(np.uint8)
            rows[:, at + size : at + size + 4 * branches] = raw
            at = self._discrete_at
            for branch, width in enumerate(self._widths):
                for byte in range(width):
                    rows[:, at + byte] = (discrete[:, branch] >> 7 * byte) & 0x7F | (0x80 if byte < width - 1 else 0)
                at += width
        return rows.tobytes()


def field(number: int, length: int) -> bytes:
    """Returns the tag and length that precede a bytes field of this length."""
    return varint(number << 3 | 2) + varint(length)
