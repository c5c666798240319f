"""Policies that act for the agents of a behavior while a run collects: the policy of a trainer, opponents, or a
teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from palaestra.core.timestep import Decision, TimeStep
from palaestra.models.policy import PendingDecision


class ActingPolicy(Protocol):
    """A policy that chooses actions for the agents of a behavior: a trainer's policy or a teacher."""

    @property
    def recurrent_state(self) -> Tensor:
        """Recurrent state of all slots, (S, ...), in the form for checkpoints."""
        ...

    @recurrent_state.setter
    def recurrent_state(self, recurrent_state: Tensor) -> None: ...

    def choose(self, step: TimeStep) -> PendingDecision:
        """Returns an action for every slot; the actions of slots that are not acting are ignored."""
        ...

    def see(self, step: TimeStep) -> object:
        """Processes a table in which no agent asks for a decision."""
        ...

    def forget(self) -> None:
        """Clears the state of all slots, because the slots now get other agents."""
        ...

    def blank(self, step: TimeStep) -> Decision:
        """Returns a decision with the shapes of all columns, and changes nothing."""
        ...


class HasRandomState(Protocol):
    """A brain with its own stream of random numbers."""

    random_state: Mapping[str, Any]
    """State of the random stream; empty if the brain does not show one."""


@runtime_checkable
class AsksBrains(Protocol):
    """A policy that asks brains."""

    @property
    def brains(self) -> Sequence[HasRandomState]:
        """Brains whose streams of random numbers a checkpoint holds."""
        ...


def brains_of(policy: ActingPolicy) -> Sequence[HasRandomState]:
    """Returns the brains that a policy asks."""
    return policy.brains if isinstance(policy, AsksBrains) else ()
