"""Observations and actions of agents that share a policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec


@dataclass(frozen=True)
class Behavior:
    """Behavior parameters, as Unity's BehaviorParameters. Agents with the same name share a policy, so their spaces
    must be equal.

    Raises EnvError for invalid sizes, and if there are no actions.
    """

    name: str
    observations: int = 0
    """Number of values that `collect_observations` adds; 0: the agent has only other sensors (`add_sensor`)."""
    continuous: int = 0
    """Number of continuous actions, each within -1..1."""
    branches: int | Iterable[int] = ()
    """Number of choices of each discrete branch; `branches=4` is one branch."""
    team: int = 0
    """Team of the agent in self-play."""
    stacked: int = 1
    """Number of past vector observations that are stacked, the oldest first."""

    def __post_init__(self) -> None:
        branches = tuple(self.branches) if isinstance(self.branches, Iterable) else (self.branches,)
        self._check_kinds(branches)
        object.__setattr__(self, "branches", branches)
        if not self.name or any(mark in self.name for mark in "?/\\"):
            raise EnvError(
                f"a behavior is named {self.name!r}; expected a name without ?, / and \\, as files and trainers are "
                "named by it"
            )
        if self.observations < 0 or self.stacked < 1 or self.team < 0:
            raise EnvError(
                f"behavior '{self.name}': observations={self.observations}, stacked={self.stacked}, team={self.team}; "
                f"expected at least 0, 1 and 0"
            )
        if not self.continuous and not branches:
            raise EnvError(
                f"behavior '{self.name}' has no actions, so there is nothing to learn; "
                f"give it continuous=2 (two numbers), branches=(4,) (one choice of four), or both"
            )
        try:
            self.action  # noqa: B018  checks them
        except EnvError as error:
            raise EnvError(f"behavior '{self.name}': {error}") from None

    def _check_kinds(self, branches: tuple[object, ...]) -> None:
        """Raises EnvError for a name that is not text or a count that is not a whole number."""
        if not isinstance(self.name, str):
            raise EnvError(f"a behavior is named {self.name!r}; expected text, such as 'Ball'")
        for what in ("observations", "continuous", "team", "stacked"):
            if not isinstance(getattr(self, what), Integral):
                raise EnvError(f"behavior '{self.name}': {what}={getattr(self, what)!r}; expected a whole number")
        if not all(isinstance(count, Integral) for count in branches):
            raise EnvError(
                f"behavior '{self.name}': branches={self.branches!r}; expected the choices of each branch, such as 4 "
                "or (3, 2)"
            )

    @cached_property
    def key(self) -> str:
        """Behavior key in the protocol, such as 'Ball?team=0'."""
        return f"{self.name}?team={self.team}"

    @cached_property
    def action(self) -> ActionSpec:
        """Action space as a spec."""
        return ActionSpec(self.continuous, self.branches)  # type: ignore[arg-type]  # a tuple by now
