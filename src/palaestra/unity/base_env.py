"""Base class of environments, steps of agents, actions and specs of behaviors. N: agents of one behavior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum, IntFlag
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palaestra.unity.exception import UnityActionException


class ActionTuple:
    """Actions of N agents: `continuous` (N, numbers) float32, `discrete` (N, branches) int32."""

    def __init__(self, continuous: NDArray[Any] | None = None, discrete: NDArray[Any] | None = None) -> None:
        self._continuous: NDArray[np.float32] | None = None
        self._discrete: NDArray[np.int32] | None = None
        if continuous is not None:
            self.add_continuous(continuous)
        if discrete is not None:
            self.add_discrete(discrete)

    @property
    def continuous(self) -> NDArray[np.float32]:
        """Continuous actions, (N, numbers); None until either part is set."""
        return self._continuous  # pyright: ignore[reportReturnType]

    @property
    def discrete(self) -> NDArray[np.int32]:
        """Discrete actions, (N, branches); None until either part is set."""
        return self._discrete  # pyright: ignore[reportReturnType]

    @property
    def discrete_dtype(self) -> np.dtype[Any]:
        """Dtype of discrete actions, int32."""
        return np.dtype(np.int32)

    def add_continuous(self, continuous: NDArray[Any]) -> None:
        """Sets the continuous part."""
        self._continuous = np.asarray(continuous, np.float32)
        if self._discrete is None:
            self._discrete = np.zeros((len(continuous), 0), np.int32)

    def add_discrete(self, discrete: NDArray[Any]) -> None:
        """Sets the discrete part."""
        self._discrete = np.asarray(discrete).astype(np.int32, copy=False)
        if self._continuous is None:
            self._continuous = np.zeros((len(discrete), 0), np.float32)


class ActionSpec(NamedTuple):
    """Action space: continuous numbers, discrete branches, or both."""

    continuous_size: int
    discrete_branches: tuple[int, ...]  # choices of each

    def __str__(self) -> str:
        return f"Continuous: {self.continuous_size}, Discrete: {self.discrete_branches}"

    def is_discrete(self) -> bool:
        """Whether there are only discrete branches."""
        return self.discrete_size > 0 and self.continuous_size == 0

    def is_continuous(self) -> bool:
        """Whether there are only continuous numbers."""
        return self.discrete_size == 0 and self.continuous_size > 0

    @property
    def discrete_size(self) -> int:
        """Number of discrete branches."""
        return len(self.discrete_branches)

    def empty_action(self, n_agents: int) -> ActionTuple:
        """Returns zeros for all agents."""
        return ActionTuple(
            np.zeros((n_agents, self.continuous_size), np.float32), np.zeros((n_agents, self.discrete_size), np.int32)
        )

    def random_action(self, n_agents: int) -> ActionTuple:
        """Returns uniformly random actions, numbers within -1..1, from NumPy's global generator."""
        continuous = np.random.uniform(low=-1.0, high=1.0, size=(n_agents, self.continuous_size)).astype(np.float32)
        discrete = np.zeros((n_agents, self.discrete_size), np.int32)
        if self.discrete_size:
            columns = [np.random.randint(0, size, size=n_agents, dtype=np.int32) for size in self.discrete_branches]
            discrete = np.column_stack(columns)
        return ActionTuple(continuous, discrete)

    @staticmethod
    def create_continuous(continuous_size: int) -> ActionSpec:
        """Returns a continuous action space."""
        return ActionSpec(continuous_size, ())

    @staticmethod
    def create_discrete(discrete_branches: tuple[int, ...]) -> ActionSpec:
        """Returns a discrete action space."""
        return ActionSpec(0, discrete_branches)

    @staticmethod
    def create_hybrid(continuous_size: int, discrete_branches: tuple[int, ...]) -> ActionSpec:
        """Returns an action space of both kinds."""
        return ActionSpec(continuous_size, discrete_branches)

    def check(self, action: ActionTuple, agents: int, behavior: str) -> ActionTuple:
        """Returns a copy with both parts. Raises UnityActionException for a shape that does not fit `agents` agents."""
        if not isinstance(action, ActionTuple):
            kind = "discrete" if self.discrete_size and not self.continuous_size else "continuous"
            raise UnityActionException(
                f"the behavior {behavior} takes an ActionTuple, got a {type(action).__name__}: wrap it as "
                f"ActionTuple({kind}=array)"
            )
        empty = self.empty_action(agents)
        parts = []
        for kind, given, expected in (
            ("continuous", action.continuous, empty.continuous),
            ("discrete", action.discrete, empty.discrete),
        ):
            given = expected if given is None and not expected.size else given
            if given is None or given.shape != expected.shape:
                raise UnityActionException(
                    f"the behavior {behavior} takes a {kind} action of shape {expected.shape} (agents that ask, size "
                    f"of the action); {'none' if given is None else f'one of shape {given.shape}'} was given"
                )
            parts.append(given.copy())
        return ActionTuple(*parts)


AgentId: TypeAlias = int
GroupId: TypeAlias = int
BehaviorName: TypeAlias = str


class DecisionStep(NamedTuple):
    """Decision request of one agent."""

    obs: list[NDArray[np.float32]]
    reward: float  # since its last decision
    agent_id: AgentId
    action_mask: list[NDArray[np.bool_]] | None  # a list of branches, True: forbidden; None: it has no branches
    group_id: GroupId  # 0: none
    group_reward: float


class TerminalStep(NamedTuple):
    """End of one agent's episode, with its final observation."""

    obs: list[NDArray[np.float32]]
    reward: float
    interrupted: bool  # truncated, not terminated
    agent_id: AgentId
    group_id: GroupId
    group_reward: float


class _StepRows(Mapping):
    """Columns of one behavior's agents, and a mapping from agent ids to rows. Ids may be a list."""

    def __init__(
        self, obs: list[NDArray[np.float32]], reward: NDArray[np.float32], agent_id: NDArray[np.int32]
    ) -> None:
        self.obs = obs
        self.reward = reward
        self.agent_id = agent_id
        self._index: dict[AgentId, int] | None = None

    @property
    def agent_id_to_index(self) -> dict[AgentId, int]:
        """Row of each agent, by its id."""
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
    """Agents of a behavior that request decisions. `set_actions` takes their actions in this order."""

    def __init__(
        self,
        obs: list[NDArray[np.float32]],
        reward: NDArray[np.float32],
        agent_id: NDArray[np.int32],
        action_mask: list[NDArray[np.bool_]] | None,
        group_id: Any,
        group_reward: NDArray[np.float32],
    ) -> None:
        """Takes columns: `obs` (N, *shape) each, `action_mask` (N, choices) each, True: forbidden, N `group_id`."""
        super().__init__(obs, reward, agent_id)
        self.action_mask = action_mask
        self.group_id = group_id
        self.group_reward = group_reward

    def __getitem__(self, agent_id: AgentId) -> DecisionStep:
        row = self._row(agent_id)
        mask = None if self.action_mask is None else [branch[row] for branch in self.action_mask]
        obs = [column[row] for column in self.obs]
        return DecisionStep(obs, self.reward[row], agent_id, mask, self.group_id[row], self.group_reward[row])

    @staticmethod
    def empty(spec: BehaviorSpec) -> DecisionSteps:
        """Returns steps without agents."""
        obs, numbers, ids = _no_agents(spec)
        return DecisionSteps(obs, numbers, ids, None, ids.copy(), numbers.copy())


class TerminalSteps(_StepRows):
    """Agents of a behavior whose episodes ended."""

    def __init__(
        self,
        obs: list[NDArray[np.float32]],
        reward: NDArray[np.float32],
        interrupted: NDArray[np.bool_],
        agent_id: NDArray[np.int32],
        group_id: Any,
        group_reward: NDArray[np.float32],
    ) -> None:
        """Takes columns: `obs`, final observations, (N, *shape) each, `interrupted` (N,) truncated, N `group_id`."""
        super().__init__(obs, reward, agent_id)
        self.interrupted = interrupted
        self.group_id = group_id
        self.group_reward = group_reward

    def __getitem__(self, agent_id: AgentId) -> TerminalStep:
        row = self._row(agent_id)
        obs = [column[row] for column in self.obs]
        return TerminalStep(
            obs, self.reward[row], self.interrupted[row], agent_id, self.group_id[row], self.group_reward[row]
        )

    @staticmethod
    def empty(spec: BehaviorSpec) -> TerminalSteps:
        """Returns steps without agents."""
        obs, numbers, ids = _no_agents(spec)
        return TerminalSteps(obs, numbers, np.zeros(0, np.bool_), ids, ids.copy(), numbers.copy())


def _no_agents(spec: BehaviorSpec) -> tuple[list[NDArray[np.float32]], NDArray[np.float32], NDArray[np.int32]]:
    obs = [np.zeros((0, *each.shape), np.float32) for each in spec.observation_specs]
    return obs, np.zeros(0, np.float32), np.zeros(0, np.int32)


class DimensionProperty(IntFlag):
    """Meaning of a dimension of an observation."""

    UNSPECIFIED = 0
    NONE = 1
    TRANSLATIONAL_EQUIVARIANCE = 2
    VARIABLE_SIZE = 4


class ObservationType(Enum):
    """Purpose of an observation."""

    DEFAULT = 0
    GOAL_SIGNAL = 1


class ObservationSpec(NamedTuple):
    """Spec of one observation; an image is (C, H, W)."""

    shape: tuple[int, ...]
    dimension_property: tuple[DimensionProperty, ...]
    observation_type: ObservationType
    name: str


class BehaviorSpec(NamedTuple):
    """Observations and actions of one behavior."""

    observation_specs: list[ObservationSpec]
    action_spec: ActionSpec


class BehaviorMapping(Mapping):
    """Read-only mapping from behavior names to specs."""

    def __init__(self, specs: dict[BehaviorName, BehaviorSpec]) -> None:
        self._specs = specs

    def __len__(self) -> int:
        return len(self._specs)

    def __getitem__(self, behavior: BehaviorName) -> BehaviorSpec:
        return self._specs[behavior]

    def __iter__(self) -> Iterator[BehaviorName]:
        yield from self._specs


class BaseEnv(ABC):
    """Base class of environments in this API."""

    @abstractmethod
    def step(self) -> None:
        """Sends the actions, zeros where none were set, and waits for the next decisions or ends of episodes."""

    @abstractmethod
    def reset(self) -> None:
        """Begins new episodes for all agents."""

    @abstractmethod
    def close(self) -> None:
        """Closes the environment."""

    @property
    @abstractmethod
    def behavior_specs(self) -> Mapping[BehaviorName, BehaviorSpec]:
        """Specs of the behaviors known so far, by name."""

    @abstractmethod
    def set_actions(self, behavior_name: BehaviorName, action: ActionTuple) -> None:
        """Sets the actions of all agents of a behavior that request decisions, in the order of its DecisionSteps."""

    @abstractmethod
    def set_action_for_agent(self, behavior_name: BehaviorName, agent_id: AgentId, action: ActionTuple) -> None:
        """Sets the action of one agent, with one row."""

    @abstractmethod
    def get_steps(self, behavior_name: BehaviorName) -> tuple[DecisionSteps, TerminalSteps]:
        """Returns the agents of a behavior that request decisions, and the agents whose episode ended."""
