"""Who decides in play. A brain answers for the agents of one behavior (or of one team of it): a model, a rule, chance, a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from palaestra.core.specs import BehaviorSpec

if TYPE_CHECKING:
    from palaestra.envs.base import Env


@dataclass(frozen=True, slots=True)
class Seen:
    """Agents that await an action, R rows."""

    slots: NDArray[np.int64]  # (R,) the seat of each, under which a brain may remember things of it
    obs: tuple[NDArray[np.float32], ...]  # each (R, *shape), in the order of the spec
    mask: NDArray[np.bool_] | None  # (R, choices) True: allowed; None: nothing is forbidden
    team: NDArray[np.int64]  # (R,)


@dataclass(frozen=True, slots=True)
class Choice:
    """What they do, in the same order."""

    continuous: NDArray[np.float32]  # (R, numbers) within -1..1
    discrete: NDArray[np.int64]  # (R, branches)


class Brain(Protocol):
    """Decides for agents. Whatever it remembers of them it keeps itself, by slot."""

    def begin(self, slots: NDArray[np.int64]) -> None:
        """New episodes begin in these slots: what it remembered of them is void."""
        ...

    def decide(self, seen: Seen) -> Choice:
        """What each of these agents does. Raises PolicyError where it cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class Role:
    """What a brain is made for. Entry points of the group `palaestra.brains` are called with one: `make(role) -> Brain`."""

    behavior: str
    spec: BehaviorSpec
    argument: str
    """What stands after the brain's name and colon on the command line, such as the model's file; empty where nothing does."""
    env: Env
    """The environment played in; one that has rules of its own (`envs.base.Heuristic`) can be asked for them."""
    seed: int
    deterministic: bool
