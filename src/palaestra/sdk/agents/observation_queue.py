"""What agents say, gathered until an exchange, and what they are told: columns at the border, lists within."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.specs import BehaviorSpec, ObsSpec, describe
from palaestra.envs.slots import Ids
from palaestra.sdk.agents.actions import Actions
from palaestra.sdk.agents.agent import Agent, AgentState, blame
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs
from palaestra.wire.decode import AgentInfos

_Row: TypeAlias = tuple[
    AgentState, int, float, int, float, Sequence[bytes]
]  # an agent, its number, reward, group, group's reward, and view
LIMIT = 1.0 + 1e-5
"""Furthest a continuous action may be from 0: rounding beyond 1 is forgiven."""


class Crowd:
    """Agents of one behavior and team. What they said is in the order in which they did."""

    def __init__(self, key: str, spec: BehaviorSpec) -> None:
        self.key, self.spec = key, spec
        self.asking: list[AgentState] = []
        self._rows: list[_Row] = []
        self._ends: dict[int, bool] = {}  # rows of ends: whether they were cut
        self._masks: dict[int, bytearray] = {}
        self._choices = b"\1" * spec.action.choices
        self._sizes = np.array(spec.action.branches, np.int64)
        self._last: tuple[tuple[int, ...], Ids] = (), np.zeros(0, np.int64)  # mostly the same agents speak as last time
        self._last_groups = self._last

    def ask(self, life: AgentState, seen: Sequence[bytes], mask: bytearray | None) -> None:
        """It awaits an action; its rewards go with that."""
        if mask is not None:
            self._masks[len(self._rows)] = mask
        self._rows.append((life, life.number, life.reward, life.group_id, life.group_reward, seen))

    def end(self, life: AgentState, seen: Sequence[bytes], cut: bool) -> None:
        """Its episode is over; its rewards go with that."""
        self._ends[len(self._rows)] = cut
        self._rows.append((life, life.number, life.reward, life.group_id, life.group_reward, seen))

    def take(self) -> AgentOutputs | None:
        """All that was said, None where that is nothing; only `asking` stays, for the answer."""
        if not self._rows:
            return None
        lives, numbers, rewards, groups, group_rewards, seen = zip(*self._rows, strict=True)
        done, cut = np.zeros(len(lives), np.bool_), np.zeros(len(lives), np.bool_)
        for row, by_limit in self._ends.items():
            done[row], cut[row] = True, by_limit
        if numbers != self._last[0]:
            self._last = numbers, np.array(numbers, np.int64)
        if groups != self._last_groups[0]:
            self._last_groups = groups, np.array(groups, np.int64)
        rewarded, group_rewarded = np.array(rewards, np.float32), np.array(group_rewards, np.float32)
        infos = AgentInfos(self._last[1], rewarded, done, cut, self._last_groups[1], group_rewarded, (), ())
        compressed = tuple([len(sensor.shape) == 3 and bool(getattr(sensor, "compressed", False)) for sensor in lives[0].sensors])
        columns = zip(*seen, strict=True)
        obs = tuple([self._column(at, column, lives, compressed[at]) for at, column in enumerate(columns)])
        said = AgentOutputs(self.key, self.spec, compressed, infos, obs, self._mask(len(lives)))
        self.asking = [life for row, life in enumerate(lives) if row not in self._ends] if self._ends else list(lives)
        self._clear()
        return said

    def _column(self, at: int, views: tuple[bytes, ...], lives: tuple[AgentState, ...], compressed: bool) -> NDArray[np.float32]:
        """(N, *shape). Raises NotFinite."""
        spec = self.spec.obs[at]
        joined = bytearray().join(views)
        if len(joined) != 4 * len(lives) * prod(spec.shape):
            sizes = [len(view) // 4 for view in views]
            row = next(row for row, size in enumerate(sizes) if size != prod(spec.shape))
            raise EnvError(f"{lives[row]}: sensor '{spec.name}' read {sizes[row]} numbers; its shape is {spec.shape}")
        column = np.frombuffer(joined, np.float32).reshape(len(lives), *spec.shape)
        if not compressed and not np.isfinite(column).all():
            row, *place = (int(i) for i in np.argwhere(~np.isfinite(column))[0])
            what = f"observation '{spec.name}'[{', '.join(map(str, place))}]"
            raise NotFinite(lives[row].behavior.name, lives[row].id, f"({lives[row].name}) {what}", float(column[(row, *place)]))
        return column

    def _mask(self, rows: int) -> NDArray[np.bool_] | None:
        if not self._masks:
            return None
        masks = [self._masks.get(row, self._choices) for row in range(rows)]
        return np.frombuffer(bytearray().join(masks), np.bool_).reshape(rows, -1)

    def _clear(self) -> None:
        self._rows, self._ends, self._masks = [], {}, {}

    def drop(self) -> None:
        """Nothing was said."""
        self._clear()
        self.asking = []

    def answer(self, told: AgentActions | None) -> None:
        """Those that asked have their actions, in their order; zeros for None. Raises EnvError for actions that are none."""
        asking, self.asking = self.asking, []
        if told is None:
            for life in asking:
                life.actions = Actions(self.spec.action)
            return
        self._check(asking, told)
        if self.spec.action.continuous:
            for life, numbers in zip(asking, told.continuous.tolist(), strict=True):
                life.actions.continuous = numbers
        if self.spec.action.branches:
            for life, choices in zip(asking, told.discrete.tolist(), strict=True):
                life.actions.discrete = choices

    def heuristic(self) -> AgentActions | None:
        """What those that asked would do by a rule of their own; None where nobody has one."""
        if all(type(life.agent).heuristic is Agent.heuristic for life in self.asking):
            return None
        chosen = [self._by_rule(life) for life in self.asking]
        continuous = np.array([actions.continuous for actions in chosen], np.float32)
        told = AgentActions(continuous, np.array([actions.discrete for actions in chosen], np.int64))
        self._check(self.asking, told, "by its heuristic ")
        return told

    def _by_rule(self, life: AgentState) -> Actions:
        actions = Actions(self.spec.action)
        try:
            life.agent.heuristic(actions)
        except Exception as error:
            blame(error, life, "heuristic")
        try:
            actions.continuous = [float(0.0 + number) for number in actions.continuous]
            actions.discrete = [_whole(choice) for choice in actions.discrete]
        except (TypeError, ValueError, OverflowError):
            raise EnvError(f"{life}: heuristic filled in {actions}; expected numbers, and whole ones for discrete actions") from None
        came, wanted = (len(actions.continuous), len(actions.discrete)), (self.spec.action.continuous, len(self.spec.action.branches))
        if came != wanted:
            raise EnvError(
                f"{life}: heuristic filled in {came[0]} continuous and {came[1]} discrete actions; expected {wanted[0]} and {wanted[1]}"
            )
        return actions

    def _check(self, asking: list[AgentState], told: AgentActions, by: str = "") -> None:
        action = self.spec.action
        came, wanted = (told.continuous.shape, told.discrete.shape), ((len(asking), action.continuous), (len(asking), len(action.branches)))
        if came != wanted:
            raise EnvError(f"behavior '{self.key}' was told actions of shapes {came} (continuous, discrete); expected {wanted}")
        if action.continuous and not (np.abs(told.continuous) <= LIMIT).all():
            row, at = (int(i) for i in np.argwhere(~(np.abs(told.continuous) <= LIMIT))[0])
            number = told.continuous[row, at]
            raise EnvError(f"{asking[row]} was told {by}continuous action {at} = {number}; expected -1 to 1: clip it where it is chosen")
        if action.branches and ((told.discrete < 0) | (told.discrete >= self._sizes)).any():
            row, at = (int(i) for i in np.argwhere((told.discrete < 0) | (told.discrete >= self._sizes))[0])
            most = action.branches[at] - 1
            raise EnvError(f"{asking[row]} was told {by}choice {told.discrete[row, at]} of branch {at}; expected 0 to {most}")


@dataclass(frozen=True, slots=True)
class _Known:
    """The first agent of a behavior, which all others must be like."""

    spec: BehaviorSpec
    first: str


class ObservationQueue:
    """The crowds of a game, all areas of it together."""

    def __init__(self, areas: int = 1) -> None:
        self.areas = areas
        self.crowds: dict[str, Crowd] = {}
        self.specs: dict[str, BehaviorSpec] = {}
        self._known: dict[str, _Known] = {}
        self._groups = count(1)

    def new_group(self) -> int:
        """An id, from 1."""
        return next(self._groups)

    def crowd(self, life: AgentState) -> Crowd:
        """That of its behavior and team. Raises EnvError where it sees or does other things than the behavior's first agent."""
        name, spec = life.behavior.name, spec_of(life)
        known = self._known.setdefault(name, _Known(spec, str(life)))
        if known.spec != spec:
            raise EnvError(
                f"{life} has {describe(spec)}; but {known.first} of the same behavior has {describe(known.spec)}. "
                f"Agents that share a behavior must see and do the same: give one of them another behavior name"
            )
        self.specs[name] = known.spec
        key = life.behavior.key
        if key not in self.crowds:
            self.crowds = dict(sorted([*self.crowds.items(), (key, Crowd(key, known.spec))]))  # the order in which a wire's are read
        return self.crowds[key]

    def take(self) -> dict[str, AgentOutputs]:
        """What was said since the last exchange, by behavior key."""
        said = {key: crowd.take() for key, crowd in self.crowds.items()}
        return {key: one for key, one in said.items() if one is not None}

    def answer(self, told: Mapping[str, AgentActions]) -> None:
        """Those that asked have their actions; a crowd that is told nothing does what nothing asks of it: zeros."""
        for key, crowd in self.crowds.items():
            if crowd.asking:
                crowd.answer(told.get(key))

    def drop(self) -> None:
        """Nothing was said."""
        for crowd in self.crowds.values():
            crowd.drop()


def _whole(choice: Any) -> int:
    """Raises ValueError or TypeError where it is no whole number."""
    number = int(0 + choice)
    if number != choice:
        raise ValueError(choice)
    return number


def spec_of(life: AgentState) -> BehaviorSpec:
    """What it sees and does. Raises EnvError where that is nothing, or two sensors share a name."""
    if not life.sensors:
        raise EnvError(
            f"{life} sees nothing; give its Behavior observations=8 (the numbers that collect_observations adds), "
            f"or call self.add_sensor(...) in initialize()"
        )
    names = [sensor.name for sensor in life.sensors]
    for name, next_name in pairwise(names):
        if name == next_name:
            raise EnvError(f"{life} has two sensors named '{name}'; give each a name of its own (name=...)")
    try:
        obs = tuple(ObsSpec(sensor.name, tuple(sensor.shape), goal=getattr(sensor, "goal", False)) for sensor in life.sensors)
    except EnvError as error:
        raise EnvError(f"{life}: {error}") from None
    return BehaviorSpec(obs, life.behavior.action)
