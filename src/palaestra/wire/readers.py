"""Decodes the agents of one behavior: its spec from the first message, then observations and masks of every tick."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError, ProtocolError
from palaestra.core.specs import ActionSpec, BehaviorSpec, describe
from palaestra.wire.decode import AgentInfos
from palaestra.wire.limits import check_agent
from palaestra.wire.messages import DecodeError, Observation
from palaestra.wire.observations import ObservationDecoder

MAX_ACTIONS = 1 << 16
"""Most continuous actions and choices of an agent; a message that announces more is taken to be damaged."""
MB = 1_000_000
OLD_CONTINUOUS = 1  # vector_action_space_type_deprecated


def split_key(key: str) -> tuple[str, int]:
    """Splits a behavior key such as 'Ball?team=1' into name and team, by default 0. Raises ProtocolError."""
    name, _, query = key.partition("?")
    if not query:
        return name, 0
    label, _, team = query.partition("=")
    if label != "team" or not re.fullmatch(r"-?[0-9]{1,9}", team):
        raise ProtocolError(f"behavior '{key}': expected a name, or a name and a team such as '{name}?team=0'")
    return name, int(team)


def read_action(brain: Any) -> tuple[int, tuple[int, ...]]:
    """Returns continuous actions and branches of a BrainParametersProto, also in the fields of old games."""
    spec = brain.action_spec
    if spec.num_continuous_actions or spec.num_discrete_actions:
        return spec.num_continuous_actions, tuple(spec.discrete_branch_sizes)
    sizes = tuple(brain.vector_action_size_deprecated)
    if brain.vector_action_space_type_deprecated == OLD_CONTINUOUS:
        return sizes[0] if sizes else 0, ()
    return 0, sizes


def write_action(brain: Any, action: ActionSpec) -> None:
    """Writes an action space into a BrainParametersProto."""
    brain.action_spec.num_continuous_actions = action.continuous
    brain.action_spec.num_discrete_actions = len(action.branches)
    brain.action_spec.discrete_branch_sizes.extend(action.branches)


def write_old_action(brain: Any, action: ActionSpec) -> None:
    """Writes an action space of one kind into the fields that old games and trainers have."""
    if action.continuous:
        brain.vector_action_size_deprecated.append(action.continuous)
        brain.vector_action_space_type_deprecated = OLD_CONTINUOUS
    else:
        brain.vector_action_size_deprecated.extend(action.branches)


class AgentInfoReader:
    """Decodes the agents of one behavior name, of any team and game instance.

    `brain` (BrainParametersProto) and the first of `infos` determine the behavior's spec; `package_version` is the
    version of Unity's package and may be empty. `warnings` collects messages about unusual but readable input; the
    owner shows and clears it.

    Raises:
        ProtocolError, here and in the methods: for an unreadable or inconsistent message.
        NotFinite: in `observations`.
    """

    def __init__(self, key: str, brain: Any, infos: AgentInfos, package_version: str) -> None:
        self.name, self.team = split_key(key)
        self.warnings: list[str] = []
        self.sensors = self._sensors_of(infos, package_version)
        try:
            self.spec = BehaviorSpec(tuple(sensor.spec for sensor in self.sensors), self._action_of(brain))
        except EnvError as error:
            raise (
                error if isinstance(error, ProtocolError) else ProtocolError(f"behavior '{self.name}': {error}")
            ) from None
        self._branch_starts = np.cumsum([0, *self.spec.action.branches[:-1]])
        self._odd_masks = False

    def observations(self, infos: AgentInfos) -> tuple[NDArray[np.float32], ...]:
        """Returns an array for each observation, (N, *shape): images (C, H, W) within 0..1. Owned by the caller."""
        if len(infos.obs) != len(self.sensors):
            expected = f"{len(self.sensors)} ({', '.join(sensor.name for sensor in self.sensors)})"
            raise ProtocolError(
                f"behavior '{self.name}': its agents sent {len(infos.obs)} observations; expected {expected}, as in "
                "the first message"
            )
        return tuple(sensor.read(blobs, infos.id) for sensor, blobs in zip(self.sensors, infos.obs, strict=True))

    def masks(self, infos: AgentInfos) -> NDArray[np.bool_] | None:
        """Returns masks, (N, choices), True: allowed; None: no agent sent one. Ignores agents that have ended."""
        choices = self.spec.action.choices
        if not choices or not any(infos.mask):
            return None
        rows = [row for row, mask in enumerate(infos.mask) if len(mask) == choices and not infos.done[row]]
        if not self._odd_masks and len(rows) < len(infos.mask):
            self._warn_of_odd_masks(infos, choices)
        if not rows:
            return None
        written = np.frombuffer(b"".join([infos.mask[row] for row in rows]), np.uint8).reshape(-1, choices) == 0
        possible = np.logical_or.reduceat(written, self._branch_starts, axis=1)
        if not possible.all():
            row, branch = (int(i) for i in np.argwhere(~possible)[0])
            raise ProtocolError(
                f"behavior '{self.name}', agent {infos.id[rows[row]]}: its mask forbids all "
                f"{self.spec.action.branches[branch]} choices of branch {branch}; at least one must be allowed"
            )
        allowed = np.ones((len(infos.mask), choices), np.bool_)
        allowed[rows] = written
        return allowed

    def matches(self, known: BehaviorSpec) -> None:
        """Raises ProtocolError if another team or game sent a different spec. Observations' names may differ."""
        if _kinds(known) != _kinds(self.spec):
            raise ProtocolError(
                f"behavior '{self.name}' (team {self.team}) has changed; agents that share a behavior name share a "
                f"policy, so they must have the same sensors and actions:\n  before  {describe(known)}\n  now     "
                f"{describe(self.spec)}"
            )

    def _warn_of_odd_masks(self, infos: AgentInfos, choices: int) -> None:
        for id, done, mask in zip(infos.id, infos.done, infos.mask, strict=True):
            if mask and not done and len(mask) != choices:
                self._odd_masks = True
                self.warnings.append(
                    f"behavior '{self.name}', agent {id}: its mask is for {len(mask)} choices, but it has {choices}; "
                    f"masks of a wrong length are ignored"
                )
                return

    def _sensors_of(self, infos: AgentInfos, package_version: str) -> list[ObservationDecoder]:
        agent = int(infos.id[0])
        major = re.match(r"\d{1,9}", package_version, re.ASCII)
        sensors: list[ObservationDecoder] = []
        for i, column in enumerate(infos.obs):
            try:
                sent = Observation.FromString(column[0]).name
            except DecodeError:
                sent = ""
            name = _unique(sent or f"obs_{i}", [sensor.name for sensor in sensors])
            sensors.append(ObservationDecoder(self.name, agent, name, column[0], int(major[0]) if major else None))
            check_agent(self.name, agent, {sensor.name: sensor.sent for sensor in sensors})
        return sensors

    def _action_of(self, brain: Any) -> ActionSpec:
        continuous, branches = read_action(brain)
        if not continuous and not branches:
            raise ProtocolError(
                f"behavior '{self.name}' has no actions; set the number of continuous actions or discrete branches in "
                "its agents' Behavior Parameters"
            )
        if continuous + sum(branches) > MAX_ACTIONS:
            raise ProtocolError(
                f"behavior '{self.name}' announces {continuous} continuous actions and branches {branches}: too many"
            )
        return ActionSpec(continuous, branches)


def check_tick(length: int, agents: Sequence[tuple[AgentInfoReader, int, int]], most: float | None) -> None:
    """Raises ProtocolError if a message has more than `most` megabytes, encoded or decoded; None: no limit.

    `length`: the message's bytes; `agents`: each behavior's reader, its number of agents and the id of one agent.
    """
    if most is None:
        return
    raises = f"at most {most:,g} MB a message, which env_settings.max_message_mb sets"
    if length > most * MB:
        raise ProtocolError(f"a message of {length / MB:,.1f} MB is too large; expected {raises}")
    sizes = [
        (4 * prod(sensor.sent) * count, read, sensor, count, agent)
        for read, count, agent in agents
        for sensor in read.sensors
    ]
    total = sum(size for size, *_ in sizes)
    if total > most * MB:
        size, read, sensor, count, agent = max(sizes, key=lambda one: one[0])
        raise ProtocolError(
            f"behavior '{read.name}', agent {agent}: observation '{sensor.name}' of shape {sensor.sent} takes "
            f"{size / MB:,.1f} MB as numbers for the {count:,} agents of a message, and all observations "
            f"{total / MB:,.1f} MB; expected {raises}"
        )


def _unique(name: str, taken: list[str]) -> str:
    """Returns the name, with the first number from 2 on that makes it unique."""
    if name not in taken:
        return name
    return next(other for n in range(2, len(taken) + 3) if (other := f"{name}_{n}") not in taken)


def _kinds(spec: BehaviorSpec) -> tuple[object, ...]:
    return (spec.action, *((obs.shape, obs.goal) for obs in spec.obs))
