"""Agents by name: their observations, rewards and actions, from the tables of an environment with one area."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium.error import ResetNeeded
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.spaces.behavior_spaces import BehaviorSpaces
from palaestra.interop.opened_env import OpenedEnv, Tables, checked_seed

Place: TypeAlias = tuple[str, int]
"""Behavior and slot."""
SUCCESS = "is_success"
"""Key of the info that says whether the ended episode was a success."""
MOST_EMPTY_TICKS = 1000
"""Most ticks without agents after a reset."""


@dataclass(slots=True)
class NamedView:
    """One agent after a tick."""

    observation: Any
    mask: np.ndarray | None  # (choices,) bool, True: allowed; None: no masks
    info: dict[str, Any]
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False

    @property
    def ended(self) -> bool:
        """Whether the agent's episode ended on this tick."""
        return self.terminated or self.truncated


class Agents:
    """Agents of an environment with one area, and their episodes.

    An agent leaves when its episode ends. If an agent begins its next episode at once, it idles until `reset`, so that
    a name belongs to one episode; an agent that appears later is new. Names are `<behavior>_<number>`, or
    `<behavior>_team<team>_<number>` with several teams.
    """

    def __init__(self, env: OpenedEnv) -> None:
        self.env = env
        self.possible: list[str] = []
        """Names of all agents so far; always the same list."""
        self.places: dict[str, Place] = {}
        """Behavior and slot of each current agent by its name."""
        self._behaviors: dict[str, str] = {}
        self._spaces: dict[str, BehaviorSpaces] = {}
        self._views: dict[str, NamedView] = {}
        self._random = np.random.default_rng()
        self._is_new = True  # every area is at the beginning of an episode, which nobody has acted in
        self._over = True
        self._begin()
        self._over = True  # until the first reset

    def behavior(self, agent: str) -> str:
        """Returns the behavior of an agent. Raises KeyError for an agent that has never appeared."""
        if agent not in self._behaviors:
            raise KeyError(f"{self.env.name} has no agent '{agent}' (there are: {', '.join(self.possible)})")
        return self._behaviors[agent]

    def spaces(self, behavior: str) -> BehaviorSpaces:
        """Returns the spaces of a behavior. If agents of any behavior have several observations, all observe a Dict."""
        if behavior not in self._spaces:
            specs = self.env.env.behaviors
            several = any(len(spec.obs) > 1 for spec in specs.values())
            self._spaces[behavior] = BehaviorSpaces(specs[behavior], always_dict=several)
        return self._spaces[behavior]

    def reset(self, seed: int | None, *, anew: bool = False) -> dict[str, NamedView]:
        """Begins new episodes. Without a seed, episodes that have just begun are used, unless `anew` is set."""
        self.env.check_open()
        if (seed := checked_seed(self.env.name, seed)) is not None:
            self._random = np.random.default_rng(seed)
            self.env.reset(seed)
        elif anew or not self._is_new:
            self.env.reset_unseeded(int(self._random.integers(2**31)))
        self._begin()
        return dict(self._views)

    def step(self, actions: Mapping[str, Any]) -> dict[str, NamedView]:
        """Acts with the named agents, and returns the view of every agent that was there before or is new.

        Skips ticks on which none of the agents acts. Raises gymnasium.error.ResetNeeded if no agents are left.
        """
        self.env.check_open()
        if self._over:
            raise ResetNeeded("every agent's episode has ended, or none has begun: call reset() before the next step()")
        if strangers := [agent for agent in actions if agent not in self.places]:
            raise KeyError(f"'{strangers[0]}' is none of the agents that are there ({', '.join(self.places)})")
        self._is_new = False
        sent = self._actions(actions)
        before = dict(self.places)
        while not self._read(self.env.step(sent)):
            sent = self._actions({})
        return {agent: self._views[agent] for agent in {**before, **self.places}}

    def close(self) -> None:
        """Closes the environment; may be called again."""
        self.env.close()

    def _begin(self) -> None:
        """Names the agents of new episodes, after the ticks without one. Raises EnvError for too many."""
        self._name_agents()
        for _ in range(MOST_EMPTY_TICKS):
            if self.places:
                return
            self.env.step(self._actions({}))
            self._name_agents()
        raise EnvError(
            f"{self.env.name} has no agents: none requested a decision in {MOST_EMPTY_TICKS:,} ticks after the reset"
        )

    def _name_agents(self) -> None:
        self.places = {}
        self._views = {}
        self._numbers = Counter[str]()
        self._idle: set[Place] = set()
        # agents that have not acted since the reset, such as players whose turn comes later
        self._waiting: dict[Place, str] = {}
        self._is_new = True
        self._over = False
        tables = self.env.tables
        self._many_teams = {name for name, step in tables.items() if len(set(self._teams(step))) > 1}
        for behavior, step in tables.items():
            columns = _Columns(step)
            for slot in range(len(columns.acting)):
                if columns.acting[slot] or self.env.has_fixed_agents:
                    agent = self._name(behavior, int(columns.team[slot]))
                    if columns.acting[slot]:
                        self._enter(agent, (behavior, slot), columns)
                    else:
                        self._waiting[behavior, slot] = agent

    def _teams(self, step: TimeStep) -> list[int]:
        return (step.team if self.env.has_fixed_agents else step.team[step.acting]).tolist()

    def _name(self, behavior: str, team: int) -> str:
        """Returns the next name, and notes it."""
        prefix = (
            f"{behavior}_team{team}"
            if behavior in self._many_teams or (not self.env.has_fixed_agents and team)
            else behavior
        )
        agent = f"{prefix}_{self._numbers[prefix]}"
        self._numbers[prefix] += 1
        if agent not in self._behaviors:
            self._behaviors[agent] = behavior
            self.possible.append(agent)
        return agent

    def _enter(self, agent: str, place: Place, columns: _Columns) -> None:
        self.places[agent] = place
        behavior, slot = place
        view = columns.view(slot, self.spaces(behavior))
        self._views[agent] = NamedView(view, columns.mask_of(slot), columns.info(behavior, slot))

    def _read(self, tables: Tables) -> bool:
        """Reads the tables of a tick; returns whether an agent acts, has ended or is new."""
        columns = {behavior: _Columns(step) for behavior, step in tables.items()}
        news = False
        idle_before = bool(self._idle)
        for agent, (behavior, slot) in list(self.places.items()):
            own = columns[behavior]
            if self._look(agent, behavior, slot, own):
                del self.places[agent]
                if own.acting[slot]:
                    self._idle.add((behavior, slot))
                news = True
            news = news or bool(own.acting[slot])
        if not self.places:
            self._over = True
            self._is_new = not idle_before
            return True
        for behavior, own in columns.items():
            taken = {slot for name, slot in [*self.places.values(), *self._idle] if name == behavior}
            self._idle -= {
                (behavior, slot)
                for slot in np.flatnonzero((own.terminated | own.truncated | own.lost) & ~own.acting).tolist()
            }
            for slot in np.flatnonzero(own.acting).tolist():
                if slot not in taken:
                    agent = self._waiting.pop((behavior, slot), None) or self._name(behavior, int(own.team[slot]))
                    self._enter(agent, (behavior, slot), own)
                    news = True
        return news

    def _look(self, agent: str, behavior: str, slot: int, columns: _Columns) -> bool:
        """Updates an agent's view; returns whether its episode ended."""
        view = self._views[agent] = NamedView(
            self._views[agent].observation, self._views[agent].mask, columns.info(behavior, slot)
        )
        view.terminated = bool(columns.terminated[slot])
        view.truncated = bool((columns.truncated[slot] and not view.terminated) or columns.lost[slot])
        spaces = self.spaces(behavior)
        if view.ended:
            view.info["acting"] = False
            row = columns.last_rows.get(slot)
            if row is not None:
                view.observation = spaces.observe([column[row] for column in columns.last])
            if view.mask is not None:
                view.mask = np.ones_like(view.mask)
            columns.add_success(slot, view.info)
        elif columns.acting[slot]:
            view.observation = columns.view(slot, spaces)
            view.mask = columns.mask_of(slot)
        if view.ended or columns.acting[slot]:
            group_reward = float(columns.group_reward[slot])
            view.reward = float(columns.reward[slot]) + group_reward
            view.info["group_reward"] = group_reward
        return view.ended

    def _actions(self, given: Mapping[str, Any]) -> dict[str, Action]:
        """Returns actions for each behavior: zeros, or the first allowed choices, for slots without one."""
        tables = self.env.tables
        device = self.env.env.device
        rows = {
            behavior: _idle_rows(step, self.env.env.behaviors[behavior].action) for behavior, step in tables.items()
        }
        for agent, action in given.items():
            behavior, slot = self.places[agent]
            numbers, choices = self.spaces(behavior).read_action(agent, action)
            if self._views[agent].info["acting"]:
                rows[behavior][0][slot] = numbers
                rows[behavior][1][slot] = choices
        return {
            behavior: Action(torch.from_numpy(numbers).to(device), torch.from_numpy(choices).to(device))
            for behavior, (numbers, choices) in rows.items()
        }


class _Columns:
    """The columns of one behavior's table as arrays."""

    def __init__(self, step: TimeStep) -> None:
        self.obs, self.last = [_array(column) for column in step.obs], [_array(column) for column in step.final_obs.obs]
        self.acting = _array(step.acting)
        self.reward = _array(step.reward)
        self.group_reward = _array(step.group_reward)
        self.terminated = _array(step.terminated)
        self.truncated = _array(step.truncated)
        self.team = _array(step.team)
        self.group = _array(step.group)
        self.mask = None if step.action_mask is None else _array(step.action_mask)
        self.lost = np.zeros_like(self.acting) if step.lost is None else _array(step.lost)
        self.success = None if step.success is None else _array(step.success)
        self.last_rows = {slot: row for row, slot in enumerate(step.final_obs.slots.tolist())}

    def view(self, slot: int, spaces: BehaviorSpaces) -> Any:
        """Returns the current observation of a slot."""
        return spaces.observe([column[slot] for column in self.obs])

    def mask_of(self, slot: int) -> np.ndarray | None:
        """Returns the choices that are allowed in a slot."""
        return None if self.mask is None else self.mask[slot]

    def info(self, behavior: str, slot: int) -> dict[str, Any]:
        """Returns the info of a slot: everything except its observation."""
        return {
            "behavior": behavior,
            "team": int(self.team[slot]),
            "group": int(self.group[slot]),
            "group_reward": 0.0,
            "acting": bool(self.acting[slot]),
        }

    def add_success(self, slot: int, info: dict[str, Any]) -> None:
        """Adds whether the episode was a success, if the environment reports it."""
        if self.success is not None and not np.isnan(self.success[slot]):
            info[SUCCESS] = bool(self.success[slot])


def _array(column: Tensor) -> np.ndarray:
    return column.cpu().numpy()


def _idle_rows(step: TimeStep, spec: ActionSpec) -> tuple[np.ndarray, np.ndarray]:
    slots = len(step.acting)
    numbers = np.zeros((slots, spec.continuous), np.float32)
    choices = np.zeros((slots, len(spec.branches)), np.int64)
    if step.action_mask is not None:
        for branch, allowed in enumerate(step.action_mask.split(spec.branches, dim=1)):
            choices[:, branch] = allowed.int().argmax(1).cpu().numpy()
    return numbers, choices
