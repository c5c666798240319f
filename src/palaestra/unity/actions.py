"""What agents do: numbers and choices, a row an agent. Part of `base_env`."""

from __future__ import annotations

from typing import Any, NamedTuple

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
