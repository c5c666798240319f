"""Encodes outputs of agents and decodes their actions in ML-Agents' protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError, ProtocolError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs
from palaestra.wire.encode import CAPABILITIES, COMMUNICATION, OK, RESET, field
from palaestra.wire.images import encode_pictures
from palaestra.wire.messages import DecodeError, Observation, ShallowMessage, UnityMessage, message_class
from palaestra.wire.observations import DIMENSIONS, GOAL, PNG
from palaestra.wire.readers import write_action, write_old_action

PACKAGE = "3.0.0"
"""Release of Unity's package that a game reports to trainers; since this release, images are (C, H, W)."""
Brain = message_class("communicator_objects.BrainParametersProto")
Actions = message_class("communicator_objects.UnityRLInputProto.ListAgentActionProto")
_HEADER = UnityMessage(header={"status": OK}).SerializeToString()
_SCALARS = np.frombuffer(bytes.fromhex("3d00000000 4000 4800 508080808000 708080808000 7d00000000"), np.uint8)
"""Fields reward, done, max_step_reached, id, group_id and group_reward of an agent, at fixed widths."""

_Blobs = NDArray[np.uint8] | list[bytes]  # one row for each agent: a matrix if all are equally long


@dataclass(frozen=True, slots=True)
class TrainerGreeting:
    """First answer of a trainer: its version, seed and capabilities."""

    seed: int
    areas: int  # at least 1
    package: str  # release of the trainer's package
    communication: str  # version of the protocol
    capabilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer of a trainer to a game's message."""

    ends_game: bool  # the trainer ends the game; the other fields are ignored
    reset: bool  # new episodes begin; there are no actions
    side_channel: bytes
    actions: Mapping[str, bytes]  # by behavior key, each a ListAgentActionProto


# From the game


def hello() -> bytes:
    """Returns the first message, which introduces the game."""
    message = UnityMessage(header={"status": OK})
    start = message.unity_output.rl_initialization_output
    start.name = "AcademySingleton"
    start.communication_version = COMMUNICATION
    start.package_version = PACKAGE
    for capability in CAPABILITIES:
        setattr(start.capabilities, capability, True)
    return message.SerializeToString()


def ready() -> bytes:
    """Returns the second message, a header only, which asks for the first command."""
    return _HEADER


class MessageWriter:
    """Writes outputs of agents for a trainer with `capabilities`. Sends a behavior's spec with its first outputs."""

    def __init__(self, capabilities: Iterable[str]) -> None:
        self._capabilities = frozenset(capabilities)
        self._known: dict[str, _Infos] = {}

    def write(self, outputs: Mapping[str, AgentOutputs], side_channel: bytes = b"") -> bytes:
        """Returns one message. Raises EnvError for a behavior that the trainer does not support."""
        brains = b"".join(self._introduce(key, one) for key, one in outputs.items() if key not in self._known)
        entries = []
        for key, one in outputs.items():
            name = key.encode()
            agents = self._known[key].write(one)
            entry = field(1, len(name)) + name + field(2, len(agents)) + agents
            entries.append(field(2, len(entry)) + entry)
        output = b"".join(entries) + (field(3, len(side_channel)) + side_channel if side_channel else b"")
        output_fields = field(1, len(output)) + output + (field(2, len(brains)) + brains if brains else b"")
        return _HEADER + field(2, len(output_fields)) + output_fields

    def _introduce(self, key: str, outputs: AgentOutputs) -> bytes:
        for obs in outputs.spec.obs:
            if obs.is_entities and "variableLengthObservation" not in self._capabilities:
                raise EnvError(
                    f"behavior '{key}': its observation '{obs.name}' has a variable length, which this trainer does "
                    "not know; use a newer one (ML-Agents 0.26 or later), or a vector of fixed length"
                )
        brain = _brain(key, outputs.spec.action, "hybridActions" in self._capabilities).SerializeToString()
        as_png = [
            flag and obs.is_visual and self._takes_png(obs)
            for flag, obs in zip(outputs.compressed, outputs.spec.obs, strict=True)
        ]
        self._known[key] = _Infos(outputs.spec, as_png)
        return field(5, len(brain)) + brain

    def _takes_png(self, obs: ObsSpec) -> bool:
        channels = obs.shape[0]
        several = channels <= 3 or "concatenatedPngObservations" in self._capabilities
        return several and (not mapping(channels) or "compressedChannelMapping" in self._capabilities)


def _brain(key: str, action: ActionSpec, hybrid: bool) -> Any:
    """Returns a BrainParametersProto; with the deprecated fields for a trainer without hybrid actions."""
    brain = Brain(brain_name=key, is_training=True)
    if hybrid:
        write_action(brain, action)
    elif action.continuous and action.branches:
        raise EnvError(
            f"behavior '{key}' has continuous and discrete actions together, which this trainer does not know; "
            f"use a newer one (ML-Agents 0.25 or later), or actions of one kind"
        )
    else:
        write_old_action(brain, action)
    return brain


class _Infos:
    """Writes the agents of one behavior key as a ListAgentInfoProto, all at once."""

    def __init__(self, spec: BehaviorSpec, as_png: Sequence[bool]) -> None:
        self._mask_head = field(11, spec.action.choices)
        self._observations = [_Observations(obs, png) for obs, png in zip(spec.obs, as_png, strict=True)]

    def write(self, outputs: AgentOutputs) -> bytes:
        parts: list[_Blobs] = [_scalars(outputs)]
        if outputs.mask is not None:
            parts += [_repeated(self._mask_head, len(outputs.mask)), (~outputs.mask).view(np.uint8)]
        parts += [writer.write(column) for writer, column in zip(self._observations, outputs.obs, strict=True)]
        if any(isinstance(part, list) for part in parts):
            rows = map(b"".join, zip(*(map(bytes, part) for part in parts), strict=True))
            return b"".join(field(1, len(row)) + row for row in rows)
        widths = sum(part.shape[1] for part in parts if isinstance(part, np.ndarray))
        return np.concatenate([_repeated(field(1, widths), len(outputs.infos.id)), *parts], axis=1).tobytes()


class _Observations:
    """Writes one observation of many agents, each as a field of an AgentInfoProto."""

    def __init__(self, obs: ObsSpec, as_png: bool) -> None:
        self._as_png = as_png
        shell = Observation(shape=obs.shape, dimension_properties=DIMENSIONS[len(obs.shape)], name=obs.name)
        if obs.goal:
            shell.observation_type = GOAL
        if as_png:
            shell.compression_type = PNG
            shell.compressed_channel_mapping.extend(mapping(obs.shape[0]))
        self._shell = shell.SerializeToString()
        size = 4 * prod(obs.shape)
        head = self._shell + field(4, len(field(1, size)) + size) + field(1, size)
        self._head = field(13, len(head) + size) + head

    def write(self, column: NDArray[np.float32]) -> _Blobs:
        if self._as_png:
            # higher levels cost more time than a loopback connection saves
            return [self._picture(data) for data in encode_pictures(column, level=1)]
        floats = np.ascontiguousarray(column.reshape(len(column), -1), "<f4").view(np.uint8)
        return np.concatenate([_repeated(self._head, len(column)), floats], axis=1)

    def _picture(self, data: bytes) -> bytes:
        message = self._shell + field(3, len(data)) + data
        return field(13, len(message)) + message


def _scalars(outputs: AgentOutputs) -> NDArray[np.uint8]:
    """Returns the scalar fields of N agents, (N, width); see _SCALARS."""
    infos = outputs.infos
    rows = _repeated(_SCALARS, len(infos.id))
    for at, values in ((1, infos.reward), (22, infos.group_reward)):
        rows[:, at : at + 4] = np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(-1, 4)
    rows[:, 6] = infos.done
    rows[:, 8] = infos.truncated
    for at, values in ((10, infos.id), (16, infos.group)):
        for byte in range(5):
            rows[:, at + byte] |= ((values >> 7 * byte) & 0x7F).astype(np.uint8)
    return rows


def _repeated(head: bytes | NDArray[np.uint8], times: int) -> NDArray[np.uint8]:
    row = np.frombuffer(head, np.uint8)
    return np.tile(row, (times, 1))


# From the trainer


def read_greeting(raw: bytes) -> TrainerGreeting | None:
    """Reads the answer to `hello`; None: the trainer refuses the game. Raises ProtocolError."""
    message = _parsed(raw)
    if message.header.status != OK:
        return None
    start = message.unity_input.rl_initialization_input
    if not message.unity_input.HasField("rl_initialization_input"):
        raise ProtocolError(
            "the trainer's first answer does not introduce it (rl_initialization_input); is it in the middle of "
            "another game?"
        )
    version = start.communication_version
    if version.split(".")[0] != COMMUNICATION.split(".")[0]:
        raise ProtocolError(
            f"the trainer speaks version '{version}' of the communication API, this game {COMMUNICATION}: update the "
            "older one"
        )
    able = frozenset(name for name in CAPABILITIES if getattr(start.capabilities, name))
    return TrainerGreeting(start.seed, max(1, start.num_areas), start.package_version, version, able)


def read_reply(raw: bytes) -> Reply:
    """Reads the answer to any other message. Raises ProtocolError for invalid bytes."""
    message = _parsed(raw)
    answer = message.unity_input.rl_input
    ends_game = message.header.status != OK or not message.HasField("unity_input")
    return Reply(ends_game, answer.command == RESET, answer.side_channel, dict(answer.agent_actions))


def read_actions(outputs: AgentOutputs, raw: bytes | None) -> AgentActions:
    """Reads the actions for `outputs` from a reply's bytes for their behavior key. Raises ProtocolError."""
    action = outputs.spec.action
    agents = int((~outputs.infos.done).sum())
    rows = Actions.FromString(raw or b"").value
    if len(rows) != agents:
        raise ProtocolError(
            f"behavior '{outputs.key}': {agents} agents requested decisions, but the trainer sent actions for "
            f"{len(rows)}"
        )
    if rows and not rows[0].continuous_actions and not rows[0].discrete_actions:  # a trainer older than hybrid actions
        numbers = _table(
            outputs, [row.vector_actions_deprecated for row in rows], action.continuous + len(action.branches)
        )
        continuous = numbers[:, : action.continuous]
        discrete = numbers[:, action.continuous :]
    else:
        continuous = _table(outputs, [row.continuous_actions for row in rows], action.continuous)
        discrete = _table(outputs, [row.discrete_actions for row in rows], len(action.branches))
    continuous = continuous.astype(np.float32)
    discrete = np.rint(discrete).astype(np.int64)
    outside = (discrete < 0) | (discrete >= np.array(action.branches, np.int64))
    if outside.any():
        row, branch = (int(i) for i in np.argwhere(outside)[0])
        raise ProtocolError(
            f"behavior '{outputs.key}', agent {outputs.infos.id[~outputs.infos.done][row]}: the trainer chose "
            f"{discrete[row, branch]} of branch {branch}; expected 0 to {action.branches[branch] - 1}"
        )
    return AgentActions(continuous, discrete)


def _table(outputs: AgentOutputs, rows: Sequence[Sequence[float]], width: int) -> NDArray[np.float64]:
    """Returns rows of numbers as (rows, width). Raises ProtocolError for a row of another width."""
    other = next((row for row in rows if len(row) != width), None)
    if other is not None:
        action = outputs.spec.action
        raise ProtocolError(
            f"behavior '{outputs.key}': the trainer's actions do not fit; expected {action.continuous} continuous "
            f"numbers and {len(action.branches)} discrete ones for each agent, but got {len(other)} numbers instead "
            f"of {width}"
        )
    return np.array(list(chain.from_iterable(rows)), np.float64).reshape(len(rows), width)


def _parsed(raw: bytes) -> Any:
    try:
        return ShallowMessage.FromString(raw)
    except DecodeError as error:
        raise ProtocolError(
            f"{len(raw)} bytes ({raw[:16].hex(' ')}) from the trainer are not a message of the protocol"
        ) from error


def mapping(channels: int) -> tuple[int, ...]:
    """Returns which channel of the image each channel of its PNGs holds, -1: padding; empty for the layouts that
    trainers assume without a mapping."""
    return () if channels == 1 or channels % 3 == 0 else (*range(channels), *[-1] * (-channels % 3))
