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

from palaestra.unity.exception import UnityActionException


class ActionTuple:
    """Actions of N agents: `continuous` (N, numbers) float32, `discrete` (N, branches) int32. A part not given has no columns."""

    def __init__(self, continuous: NDArray[Any] | None = None, discrete: NDArray[Any] | None = None) -> None:
        self._continuous: NDArray[np.float32] | None = None
        self._discrete: NDArray[np.int32] | None = None
        if continuous is not None:
            self.add_continuous(continuous)
        if discrete is not None:
            self.add_discrete(discrete)

    @property
    def continuous(self) -> NDArray[np.float32]:
        """(N, numbers); None until either part was given."""
        return self._continuous  # pyright: ignore[reportReturnType]

    @property
    def discrete(self) -> NDArray[np.int32]:
        """(N, branches); None until either part was given."""
        return self._discrete  # pyright: ignore[reportReturnType]

    @property
    def discrete_dtype(self) -> np.dtype[Any]:
        """What choices are kept as."""
        return np.dtype(np.int32)

    def add_continuous(self, continuous: NDArray[Any]) -> None:
        """Takes the continuous part."""
        self._continuous = np.asarray(continuous, np.float32)
        if self._discrete is None:
            self._discrete = np.zeros((len(continuous), 0), np.int32)

    def add_discrete(self, discrete: NDArray[Any]) -> None:
        """Takes the discrete part."""
        self._discrete = np.asarray(discrete).astype(np.int32, copy=False)
        if self._continuous is None:
            self._continuous = np.zeros((len(discrete), 0), np.float32)


class ActionSpec(NamedTuple):
    """Continuous numbers, discrete branches, or both."""

    continuous_size: int
    discrete_branches: tuple[int, ...]  # choices of each

    def __str__(self) -> str:
        return f"Continuous: {self.continuous_size}, Discrete: {self.discrete_branches}"

    def is_discrete(self) -> bool:
        """Branches only."""
        return self.discrete_size > 0 and self.continuous_size == 0

    def is_continuous(self) -> bool:
        """Numbers only."""
        return self.discrete_size == 0 and self.continuous_size > 0

    @property
    def discrete_size(self) -> int:
        """How many branches."""
        return len(self.discrete_branches)

    def empty_action(self, n_agents: int) -> ActionTuple:
        """Zeros."""
        return ActionTuple(np.zeros((n_agents, self.continuous_size), np.float32), np.zeros((n_agents, self.discrete_size), np.int32))

    def random_action(self, n_agents: int) -> ActionTuple:
        """Numbers within -1..1 and choices, all equally likely, out of numpy's global generator."""
        continuous = np.random.uniform(low=-1.0, high=1.0, size=(n_agents, self.continuous_size)).astype(np.float32)
        discrete = np.zeros((n_agents, self.discrete_size), np.int32)
        if self.discrete_size:
            columns = [np.random.randint(0, size, size=n_agents, dtype=np.int32) for size in self.discrete_branches]
            discrete = np.column_stack(columns)
        return ActionTuple(continuous, discrete)

    @staticmethod
    def create_continuous(continuous_size: int) -> ActionSpec:
        """Numbers only."""
        return ActionSpec(continuous_size, ())

    @staticmethod
    def create_discrete(discrete_branches: tuple[int, ...]) -> ActionSpec:
        """Branches only."""
        return ActionSpec(0, discrete_branches)

    @staticmethod
    def create_hybrid(continuous_size: int, discrete_branches: tuple[int, ...]) -> ActionSpec:
        """Both."""
        return ActionSpec(continuous_size, discrete_branches)

    def check(self, action: ActionTuple, agents: int, behavior: str) -> ActionTuple:
        """A copy of the action, with the columns of both parts. Raises UnityActionException where it is not for that many agents."""
        empty = self.empty_action(agents)
        parts = []
        for kind, given, expected in (
            ("continuous", action.continuous, empty.continuous),
            ("discrete", action.discrete, empty.discrete),
        ):
            given = expected if given is None and not expected.size else given
            if given is None or given.shape != expected.shape:
                raise UnityActionException(
                    f"the behavior {behavior} takes a {kind} action of shape {expected.shape} (agents that ask, size of the action); "
                    f"{'none' if given is None else f'one of shape {given.shape}'} was given"
                )
            parts.append(given.copy())
        return ActionTuple(*parts)


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


class _StepRows(Mapping):
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


class DecisionSteps(_StepRows):
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
        obs, numbers, ids = _no_agents(spec)
        return DecisionSteps(obs, numbers, ids, None, ids.copy(), numbers.copy())


class TerminalSteps(_StepRows):
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
        obs, numbers, ids = _no_agents(spec)
        return TerminalSteps(obs, numbers, np.zeros(0, np.bool_), ids, ids.copy(), numbers.copy())


def _no_agents(spec: BehaviorSpec) -> tuple[list[NDArray[np.float32]], NDArray[np.float32], NDArray[np.int32]]:
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
