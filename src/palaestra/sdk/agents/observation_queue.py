"""Queues the outputs of agents until an exchange, and then gives the agents their actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.specs import BehaviorSpec, ObsSpec, describe
from palaestra.envs.slots import Ids
from palaestra.sdk.agents.actions import Actions
from palaestra.sdk.agents.agent_state import AgentState, raise_user_error
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs
from palaestra.wire.decode import AgentInfos

# an agent, its global id, reward, group id, group reward and observations
_Row: TypeAlias = tuple[AgentState, int, float, int, float, Sequence[bytes]]
LIMIT = 1.0 + 1e-5
"""Largest magnitude of a continuous action; allows for rounding beyond 1."""


class AgentQueue:
    """Outputs of the agents of one behavior and team, in the order of arrival."""

    def __init__(self, key: str, spec: BehaviorSpec) -> None:
        self.key = key
        self.spec = spec
        self.waiting: list[AgentState] = []
        self._rows: list[_Row] = []
        self._ends: dict[int, bool] = {}  # truncated or not, by row of an episode's end
        self._masks: dict[int, bytearray] = {}
        self._choices = b"\1" * spec.action.choices
        self._sizes = np.array(spec.action.branches, np.int64)
        self._last: tuple[tuple[int, ...], Ids] = (), np.zeros(0, np.int64)  # reused while the same agents have outputs
        self._last_groups = self._last

    def add_decision(self, state: AgentState, obs_bytes: Sequence[bytes], mask: bytearray | None) -> None:
        """Adds a decision request, with the agent's rewards."""
        if mask is not None:
            self._masks[len(self._rows)] = mask
        self._rows.append((state, state.global_id, state.reward, state.group_id, state.group_reward, obs_bytes))

    def add_end(self, state: AgentState, obs_bytes: Sequence[bytes], truncated: bool) -> None:
        """Adds the end of an episode, with the agent's rewards."""
        self._ends[len(self._rows)] = truncated
        self._rows.append((state, state.global_id, state.reward, state.group_id, state.group_reward, obs_bytes))

    def take(self) -> AgentOutputs | None:
        """Returns all outputs, or None if there are none. Agents that requested decisions stay in `waiting`."""
        if not self._rows:
            return None
        states, numbers, rewards, groups, group_rewards, obs_bytes = zip(*self._rows, strict=True)
        done = np.zeros(len(states), np.bool_)
        truncated = np.zeros(len(states), np.bool_)
        for row, by_limit in self._ends.items():
            done[row] = True
            truncated[row] = by_limit
        if numbers != self._last[0]:
            self._last = numbers, np.array(numbers, np.int64)
        if groups != self._last_groups[0]:
            self._last_groups = groups, np.array(groups, np.int64)
        rewarded = np.array(rewards, np.float32)
        group_rewarded = np.array(group_rewards, np.float32)
        infos = AgentInfos(self._last[1], rewarded, done, truncated, self._last_groups[1], group_rewarded, (), ())
        compressed = tuple(
            [len(sensor.shape) == 3 and bool(getattr(sensor, "compressed", False)) for sensor in states[0].sensors]
        )
        columns = zip(*obs_bytes, strict=True)
        obs = tuple([self._column(at, column, states, compressed[at]) for at, column in enumerate(columns)])
        outputs = AgentOutputs(self.key, self.spec, compressed, infos, obs, self._mask(len(states)))
        self.waiting = (
            [state for row, state in enumerate(states) if row not in self._ends] if self._ends else list(states)
        )
        self._clear()
        return outputs

    def _column(
        self, at: int, obs_bytes: tuple[bytes, ...], states: tuple[AgentState, ...], compressed: bool
    ) -> NDArray[np.float32]:
        """Returns one observation of all rows, (N, *shape). Raises EnvError, and NotFinite for NaN or infinity."""
        spec = self.spec.obs[at]
        joined = bytearray().join(obs_bytes)
        if len(joined) != 4 * len(states) * prod(spec.shape):
            sizes = [len(each) // 4 for each in obs_bytes]
            row = next(row for row, size in enumerate(sizes) if size != prod(spec.shape))
            raise EnvError(f"{states[row]}: sensor '{spec.name}' read {sizes[row]} numbers; its shape is {spec.shape}")
        column = np.frombuffer(joined, np.float32).reshape(len(states), *spec.shape)
        if not compressed and not np.isfinite(column).all():
            row, *place = (int(i) for i in np.argwhere(~np.isfinite(column))[0])
            what = f"observation '{spec.name}'[{', '.join(map(str, place))}]"
            raise NotFinite(
                states[row].behavior.name, states[row].id, f"({states[row].name}) {what}", float(column[(row, *place)])
            )
        return column

    def _mask(self, rows: int) -> NDArray[np.bool_] | None:
        if not self._masks:
            return None
        masks = [self._masks.get(row, self._choices) for row in range(rows)]
        return np.frombuffer(bytearray().join(masks), np.bool_).reshape(rows, -1)

    def _clear(self) -> None:
        self._rows = []
        self._ends = {}
        self._masks = {}

    def drop(self) -> None:
        """Discards all outputs."""
        self._clear()
        self.waiting = []

    def answer(self, actions: AgentActions | None) -> None:
        """Gives actions to the agents in `waiting`, in that order; None: zeros. Raises EnvError for invalid actions."""
        waiting = self.waiting
        self.waiting = []
        if actions is None:
            for state in waiting:
                state.actions = Actions(self.spec.action)
            return
        self._check(waiting, actions)
        if self.spec.action.continuous:
            for state, numbers in zip(waiting, actions.continuous.tolist(), strict=True):
                state.actions.continuous = numbers
        if self.spec.action.branches:
            for state, choices in zip(waiting, actions.discrete.tolist(), strict=True):
                state.actions.discrete = choices

    def heuristic(self) -> AgentActions | None:
        """Returns the actions that the `heuristic` methods choose for the agents in `waiting`; None without them."""
        if not any(state.has_heuristic for state in self.waiting):
            return None
        chosen = [self._by_rule(state) for state in self.waiting]
        continuous = np.array([actions.continuous for actions in chosen], np.float32)
        actions = AgentActions(continuous, np.array([actions.discrete for actions in chosen], np.int64))
        self._check(self.waiting, actions, "from its heuristic ")
        return actions

    def _by_rule(self, state: AgentState) -> Actions:
        actions = Actions(self.spec.action)
        try:
            state.agent.heuristic(actions)
        except Exception as error:
            raise_user_error(error, state, "heuristic")
        try:
            actions.continuous = [float(0.0 + number) for number in actions.continuous]
            actions.discrete = [_to_integer(choice) for choice in actions.discrete]
        except (TypeError, ValueError, OverflowError):
            raise EnvError(
                f"{state}: heuristic filled in {actions}; expected numbers, and whole ones for discrete actions"
            ) from None
        came = (len(actions.continuous), len(actions.discrete))
        wanted = (self.spec.action.continuous, len(self.spec.action.branches))
        if came != wanted:
            raise EnvError(
                f"{state}: heuristic filled in {came[0]} continuous and {came[1]} discrete actions; expected "
                f"{wanted[0]} and {wanted[1]}"
            )
        return actions

    def _check(self, waiting: list[AgentState], actions: AgentActions, source: str = "") -> None:
        action = self.spec.action
        came = (actions.continuous.shape, actions.discrete.shape)
        wanted = ((len(waiting), action.continuous), (len(waiting), len(action.branches)))
        if came != wanted:
            raise EnvError(
                f"behavior '{self.key}' received actions of shapes {came} (continuous, discrete); expected {wanted}"
            )
        if action.continuous and not (np.abs(actions.continuous) <= LIMIT).all():
            row, at = (int(i) for i in np.argwhere(~(np.abs(actions.continuous) <= LIMIT))[0])
            number = actions.continuous[row, at]
            raise EnvError(
                f"{waiting[row]} received {source}continuous action {at} = {number}; expected -1 to 1: clip it"
            )
        if action.branches and ((actions.discrete < 0) | (actions.discrete >= self._sizes)).any():
            row, at = (int(i) for i in np.argwhere((actions.discrete < 0) | (actions.discrete >= self._sizes))[0])
            most = action.branches[at] - 1
            raise EnvError(
                f"{waiting[row]} received {source}choice {actions.discrete[row, at]} of branch {at}; expected 0 to "
                f"{most}"
            )


class ObservationQueue:
    """Queues of all behaviors of a game, in all its areas."""

    def __init__(self, areas: int = 1) -> None:
        self.areas = areas
        self.queues: dict[str, AgentQueue] = {}
        self.specs: dict[str, BehaviorSpec] = {}
        self._first: dict[str, str] = {}  # the first agent of each behavior
        self._groups = count(1)

    def new_group(self) -> int:
        """Returns an unused group id, from 1."""
        return next(self._groups)

    def add(self, state: AgentState) -> None:
        """Makes the queue of an agent's behavior and team, if there is none. Raises EnvError if agents of one behavior
        have different specs."""
        name = state.behavior.name
        spec = spec_of(state)
        known = self.specs.setdefault(name, spec)
        first = self._first.setdefault(name, str(state))
        if known != spec:
            raise EnvError(
                f"{state} has {describe(spec)}; but {first} of the same behavior has {describe(known)}. "
                "Agents that share a behavior must have the same observations and actions: give one of them another "
                "behavior name"
            )
        key = state.behavior.key
        if key not in self.queues:
            # the order in which messages are read
            self.queues = dict(sorted([*self.queues.items(), (key, AgentQueue(key, known))]))

    def take(self) -> dict[str, AgentOutputs]:
        """Returns the outputs since the last exchange, by behavior key."""
        outputs = {key: queue.take() for key, queue in self.queues.items()}
        return {key: one for key, one in outputs.items() if one is not None}

    def answer(self, actions: Mapping[str, AgentActions]) -> None:
        """Gives actions to the agents that requested decisions; zeros for a behavior key without actions."""
        for key, queue in self.queues.items():
            if queue.waiting:
                queue.answer(actions.get(key))

    def drop(self) -> None:
        """Discards all outputs."""
        for queue in self.queues.values():
            queue.drop()


def _to_integer(choice: Any) -> int:
    number = int(0 + choice)
    if number != choice:
        raise ValueError(choice)
    return number


def spec_of(state: AgentState) -> BehaviorSpec:
    """Returns an agent's spec. Raises EnvError if the agent has no sensors, or if two of its sensors share a name."""
    if not state.sensors:
        raise EnvError(
            f"{state} has no observations; give its Behavior observations=8 (the numbers that collect_observations "
            "adds), or call self.add_sensor(...) in initialize()"
        )
    names = [sensor.name for sensor in state.sensors]
    for name, next_name in pairwise(names):
        if name == next_name:
            raise EnvError(f"{state} has two sensors named '{name}'; give each a name of its own (name=...)")
    try:
        obs = tuple(
            ObsSpec(sensor.name, tuple(sensor.shape), goal=getattr(sensor, "goal", False)) for sensor in state.sensors
        )
    except EnvError as error:
        raise EnvError(f"{state}: {error}") from None
    return BehaviorSpec(obs, state.behavior.action)
