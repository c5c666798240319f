"""What an environment shows and takes: steps of agents by their ids, actions by row, specs by behavior name.

Letters in shapes: N agents of one behavior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum, IntFlag
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palaestra.unity.actions import ActionSpec, ActionTuple

__all__ = [
    "ActionSpec",
    "ActionTuple",
    "AgentId",
    "BaseEnv",
    "BehaviorMapping",
    "BehaviorName",
    "BehaviorSpec",
    "DecisionStep",
    "DecisionSteps",
    "DimensionProperty",
    "GroupId",
    "ObservationSpec",
    "ObservationType",
    "TerminalStep",
    "TerminalSteps",
]

AgentId: TypeAlias = int
GroupId: TypeAlias = int
BehaviorName: TypeAlias = str


class DecisionStep(NamedTuple):
    """One agent that asks for an action."""

    obs: list[NDArray[np.float32]]
    reward: float  # earned since it last asked
    agent_id: AgentId
    action_mask: list[NDArray[np.bool_]] | None  # a list of branches, True: forbidden; None: it has no branches
    group_id: GroupId  # 0: none
    group_reward: float


class TerminalStep(NamedTuple):
    """The last view of an agent whose episode ended."""

    obs: list[NDArray[np.float32]]
    reward: float
    interrupted: bool  # by a limit, not by what happened
    agent_id: AgentId
    group_id: GroupId
    group_reward: float


class _Rows(Mapping):
    """Agents of one behavior: columns, and a row of each by its id. Ids may be a list."""

    def __init__(self, obs: list[NDArray[np.float32]], reward: NDArray[np.float32], agent_id: NDArray[np.int32]) -> None:
        self.obs, self.reward, self.agent_id = obs, reward, agent_id
        self._index: dict[AgentId, int] | None = None

    @property
    def agent_id_to_index(self) -> dict[AgentId, int]:
        """The row of each agent."""
        if self._index is None:
            self._index = {agent: row for row, agent in enumerate(np.asarray(self.agent_id).tolist())}
        return self._index

    def _row(self, agent_id: AgentId) -> int:
        if agent_id not in self.agent_id_to_index:
            raise KeyError(f"agent {agent_id} is not among these {type(self).__name__}")
        return self.agent_id_to_index[agent_id]

    def __len__(self) -> int:
        return len(self.agent_id)

    def __iter__(self) -> Iterator[AgentId]:
        yield from self.agent_id_to_index


class DecisionSteps(_Rows):
    """The agents of a behavior that ask for actions, which `set_actions` takes in this order."""

    def __init__(
        self,
        obs: list[NDArray[np.float32]],
        reward: NDArray[np.float32],
        agent_id: NDArray[np.int32],
        action_mask: list[NDArray[np.bool_]] | None,
        group_id: Any,
        group_reward: NDArray[np.float32],
    ) -> None:
        """`obs`: each (N, *shape); `action_mask`: a branch each, (N, choices), True: forbidden; `group_id`: N numbers."""
        super().__init__(obs, reward, agent_id)
        self.action_mask, self.group_id, self.group_reward = action_mask, group_id, group_reward

    def __getitem__(self, agent_id: AgentId) -> DecisionStep:
        row = self._row(agent_id)
        mask = None if self.action_mask is None else [branch[row] for branch in self.action_mask]
        obs = [column[row] for column in self.obs]
        return DecisionStep(obs, self.reward[row], agent_id, mask, self.group_id[row], self.group_reward[row])

    @staticmethod
    def empty(spec: BehaviorSpec) -> DecisionSteps:
        """Nobody."""
        obs, numbers, ids = _nobody(spec)
        return DecisionSteps(obs, numbers, ids, None, ids.copy(), numbers.copy())


class TerminalSteps(_Rows):
    """The agents of a behavior whose episodes ended."""

    def __init__(
        self,
        obs: list[NDArray[np.float32]],
        reward: NDArray[np.float32],
        interrupted: NDArray[np.bool_],
        agent_id: NDArray[np.int32],
        group_id: Any,
        group_reward: NDArray[np.float32],
    ) -> None:
        """`obs`: each (N, *shape), the last views; `interrupted`: (N,) by a limit; `group_id`: N numbers."""
        super().__init__(obs, reward, agent_id)
        self.interrupted, self.group_id, self.group_reward = interrupted, group_id, group_reward

    def __getitem__(self, agent_id: AgentId) -> TerminalStep:
        row = self._row(agent_id)
        obs = [column[row] for column in self.obs]
        return TerminalStep(obs, self.reward[row], self.interrupted[row], agent_id, self.group_id[row], self.group_reward[row])

    @staticmethod
    def empty(spec: BehaviorSpec) -> TerminalSteps:
        """Nobody."""
        obs, numbers, ids = _nobody(spec)
        return TerminalSteps(obs, numbers, np.zeros(0, np.bool_), ids, ids.copy(), numbers.copy())


def _nobody(spec: BehaviorSpec) -> tuple[list[NDArray[np.float32]], NDArray[np.float32], NDArray[np.int32]]:
    obs = [np.zeros((0, *each.shape), np.float32) for each in spec.observation_specs]
    return obs, np.zeros(0, np.float32), np.zeros(0, np.int32)


class DimensionProperty(IntFlag):
    """What a dimension of an observation means."""

    UNSPECIFIED = 0
    NONE = 1
    TRANSLATIONAL_EQUIVARIANCE = 2
    VARIABLE_SIZE = 4


class ObservationType(Enum):
    """What an observation is for."""

    DEFAULT = 0
    GOAL_SIGNAL = 1


class ObservationSpec(NamedTuple):
    """One observation: an image is (C, H, W)."""

    shape: tuple[int, ...]
    dimension_property: tuple[DimensionProperty, ...]
    observation_type: ObservationType
    name: str


class BehaviorSpec(NamedTuple):
    """What agents of one behavior see and do."""

    observation_specs: list[ObservationSpec]
    action_spec: ActionSpec


class BehaviorMapping(Mapping):
    """Specs by behavior name, to be read only."""

    def __init__(self, specs: dict[BehaviorName, BehaviorSpec]) -> None:
        self._specs = specs

    def __len__(self) -> int:
        return len(self._specs)

    def __getitem__(self, behavior: BehaviorName) -> BehaviorSpec:
        return self._specs[behavior]

    def __iter__(self) -> Iterator[BehaviorName]:
        yield from self._specs


class BaseEnv(ABC):
    """What every environment of this API can do."""

    @abstractmethod
    def step(self) -> None:
        """Sends the actions, zeros where none were set, and waits for the next time that agents ask or end."""

    @abstractmethod
    def reset(self) -> None:
        """Begins all episodes anew."""

    @abstractmethod
    def close(self) -> None:
        """Ends the environment."""

    @property
    @abstractmethod
    def behavior_specs(self) -> Mapping[BehaviorName, BehaviorSpec]:
        """All behaviors so far."""

    @abstractmethod
    def set_actions(self, behavior_name: BehaviorName, action: ActionTuple) -> None:
        """Actions for all agents of a behavior that ask, in the order of its DecisionSteps."""

    @abstractmethod
    def set_action_for_agent(self, behavior_name: BehaviorName, agent_id: AgentId, action: ActionTuple) -> None:
        """One agent's action, of one row."""

    @abstractmethod
    def get_steps(self, behavior_name: BehaviorName) -> tuple[DecisionSteps, TerminalSteps]:
        """Who asks, and whose episode ended."""
