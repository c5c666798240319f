"""Decodes a game's messages into NumPy arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import NotFinite, ProtocolError
from palaestra.wire.encode import OK
from palaestra.wire.messages import DecodeError, ShallowMessage


@dataclass(frozen=True, slots=True)
class AgentInfos:
    """The agents of one behavior key in a message, in the message's order: N: agents that ask for a decision and agents
    that ended."""

    id: NDArray[np.int64]  # (N,) unique among agents that ask; the same id may both end and ask
    reward: NDArray[np.float32]  # (N,)
    done: NDArray[np.bool_]  # (N,) the episode ended; otherwise the agent asks for an action
    truncated: NDArray[np.bool_]  # (N,) the episode ended by a limit (max_step_reached)
    group: NDArray[np.int64]  # (N,) 0: none
    group_reward: NDArray[np.float32]  # (N,)
    mask: tuple[bytes, ...]  # N masks of one byte for each choice, 1: forbidden; empty: all are allowed
    obs: tuple[tuple[bytes, ...], ...]  # for each observation, N ObservationProtos


@dataclass(frozen=True, slots=True)
class GameMessage:
    """One message from a game."""

    status: int  # 200; anything else: the game ends the connection
    hello: Any  # UnityRLInitializationOutputProto or None: describes the game and new behaviors (brain_parameters)
    infos: Mapping[str, AgentInfos]  # by behavior key, such as 'Ball?team=0'; without keys that have no agents
    side_channel: bytes


def decode(raw: bytes) -> GameMessage:
    """Decodes a game's message; if it ends the connection, only its status. Raises ProtocolError, NotFinite."""
    try:
        message = ShallowMessage.FromString(raw)
    except DecodeError as error:
        raise ProtocolError(
            f"{_shown(raw)} are not a message of ML-Agents' protocol; is the program that connected a Unity game?"
        ) from error
    if not message.HasField("header"):
        raise ProtocolError(
            f"{_shown(raw)} are a message without a header; expected one with a status, as every message of a game has"
        )
    if message.HasField("unity_input"):
        raise ProtocolError(
            f"{_shown(raw)} are a message of a trainer, not of a game; does another trainer connect to this port?"
        )
    status = message.header.status
    if status != OK:
        return GameMessage(status, None, {}, b"")
    output = message.unity_output
    hello = output.rl_initialization_output if output.HasField("rl_initialization_output") else None
    listed = output.rl_output.agentInfos
    infos = {key: _infos(key, agents.value) for key, agents in listed.items() if agents.value}
    if len(infos) > 1:
        _check_teams(infos)
    return GameMessage(status, hello, infos, output.rl_output.side_channel)


_fields = attrgetter(
    "id", "reward", "done", "max_step_reached", "group_id", "group_reward", "action_mask", "observations"
)


def _infos(key: str, agents: Iterable[Any]) -> AgentInfos:
    ids, rewards, dones, cuts, groups, group_rewards, masks, observations = zip(*map(_fields, agents), strict=True)
    try:
        obs = tuple(zip(*observations, strict=True))
    except ValueError:
        raise ProtocolError(_uneven(key, ids, observations)) from None
    if not obs:
        raise ProtocolError(
            f"behavior '{key}', agent {ids[0]} sent no observation; an agent needs at least one sensor to learn from"
        )
    infos = AgentInfos(
        np.array(ids, np.int64),
        np.array(rewards, np.float32),
        np.array(dones, np.bool_),
        np.array(cuts, np.bool_),
        np.array(groups, np.int64),
        np.array(group_rewards, np.float32),
        masks,
        obs,
    )
    _check(key, infos)
    return infos if len(set(ids)) == len(ids) or _each_once(infos) else _once(key, infos)


def _check(key: str, infos: AgentInfos) -> None:
    for what, numbers in (("id", infos.id), ("group", infos.group)):
        if numbers.min() < 0:
            row = int(numbers.argmin())
            raise ProtocolError(
                f"behavior '{key}', agent {infos.id[row]}: its {what} is {numbers[row]}; expected 0 or more"
            )
    for what, values in (("its reward", infos.reward), ("its group's reward", infos.group_reward)):
        finite = np.isfinite(values)
        if not finite.all():
            row = int(finite.argmin())
            raise NotFinite(key, int(infos.id[row]), what, float(values[row]))


def _each_once(infos: AgentInfos) -> bool:
    asking = infos.id[~infos.done].tolist()
    ended = infos.id[infos.done].tolist()
    return len(set(asking)) == len(asking) and len(set(ended)) == len(ended)


def _once(key: str, infos: AgentInfos) -> AgentInfos:
    """Removes repeated ends of an id. Raises ProtocolError for an id that asks twice."""
    ids = infos.id.tolist()
    asking = Counter(id for id, done in zip(ids, infos.done, strict=True) if not done)
    for id, times in asking.items():
        if times > 1:
            raise ProtocolError(_asks_twice(f"behavior '{key}'", id))
    seen: set[tuple[int, bool]] = set()
    rows = [
        row for row, end in enumerate(zip(ids, infos.done.tolist(), strict=True)) if not (end in seen or seen.add(end))
    ]
    columns: tuple[Any, ...] = (infos.id, infos.reward, infos.done, infos.truncated, infos.group, infos.group_reward)
    mask = tuple(infos.mask[row] for row in rows)
    obs = tuple(tuple(column[row] for row in rows) for column in infos.obs)
    return AgentInfos(*(column[rows] for column in columns), mask=mask, obs=obs)


def _check_teams(infos: Mapping[str, AgentInfos]) -> None:
    """Raises ProtocolError if an id asks in two teams of one behavior, because they share a table."""
    teams: dict[str, list[str]] = {}
    for key in infos:
        teams.setdefault(key.partition("?")[0], []).append(key)
    for keys in teams.values():
        asking = Counter(id for key in keys if len(keys) > 1 for id in infos[key].id[~infos[key].done].tolist())
        for id, times in asking.items():
            if times > 1:
                raise ProtocolError(_asks_twice("behaviors " + " and ".join(f"'{key}'" for key in keys), id))


def _asks_twice(where: str, id: int) -> str:
    return f"{where}: agent {id} asks for two actions in one message; ids must be unique within a game"


def _uneven(key: str, ids: tuple[int, ...], observations: tuple[Any, ...]) -> str:
    counts = [len(one) for one in observations]
    other = next(row for row, count in enumerate(counts) if count != counts[0])
    return (
        f"behavior '{key}': agent {ids[0]} sent {counts[0]} observations and agent {ids[other]} sent {counts[other]}; "
        "agents of one behavior must have the same sensors (see their prefabs, and child objects that are switched "
        "off)"
    )


def _shown(raw: bytes) -> str:
    begin = raw[:16].hex(" ") + (" ..." if len(raw) > 16 else "")
    return f"{len(raw)} bytes ({begin})" if raw else "0 bytes"
