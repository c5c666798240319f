"""The contract of brains, which choose actions for the agents of one behavior, or of one team of a behavior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from palaestra.core.specs import BehaviorSpec

if TYPE_CHECKING:
    from palaestra.envs.base import Env


@dataclass(frozen=True, slots=True)
class Seen:
    """R agents that wait for an action, one row each."""

    slots: NDArray[np.int64]  # (R,) the slot of each, which identifies it across ticks
    obs: tuple[NDArray[np.float32], ...]  # each (R, *shape), in the order of the spec
    mask: NDArray[np.bool_] | None  # (R, choices) True: allowed; None: everything is allowed
    team: NDArray[np.int64]  # (R,)


@dataclass(frozen=True, slots=True)
class Choice:
    """Actions of the agents in `Seen`, in the same order."""

    continuous: NDArray[np.float32]  # (R, numbers) within -1..1
    discrete: NDArray[np.int64]  # (R, branches)


def best_choices(score: NDArray[Any], branches: tuple[int, ...]) -> NDArray[np.int64]:
    """Returns the choice with the highest score in each branch, (R, branches), from scores (R, choices)."""
    ends = np.cumsum(branches).tolist()
    best = [score[:, end - size : end].argmax(1) for size, end in zip(branches, ends, strict=True)]
    return np.stack(best, 1) if best else np.zeros((len(score), 0), np.int64)


def widened(memory: NDArray[Any], slots: NDArray[np.int64]) -> NDArray[Any]:
    """Returns a memory (S, ...) that has rows for all of these slots; new rows are zeros."""
    more = int(slots.max(initial=-1)) + 1 - len(memory)
    return memory if more <= 0 else np.pad(memory, ((0, more), *((0, 0),) * (memory.ndim - 1)))


class Brain(Protocol):
    """Chooses actions for agents. A brain keeps any memory of the agents itself, by slot."""

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Resets the memory of these slots, in which new episodes begin."""
        ...

    def decide(self, seen: Seen) -> Choice:
        """Returns an action for each of these agents. Raises PolicyError if the brain cannot choose."""
        ...


@dataclass(frozen=True, slots=True)
class Role:
    """Behavior and environment of a brain. Entry points of `palaestra.brains` are called with a Role: `make(role)`."""

    behavior: str
    spec: BehaviorSpec
    argument: str
    """Text after the brain's name and colon on the command line, such as the model's file; may be empty."""
    env: Env
    """The environment, in a run an `EnvWrapper`: `heuristic` has its own rules, `unwrapped` is the environment
    inside its wrappers."""
    seed: int
    deterministic: bool
