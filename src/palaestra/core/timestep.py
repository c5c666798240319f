"""Tables that environments, policies and buffers exchange, with one row for each slot.

Letters in shapes: In shapes: S slots, E ends, A action components, L size of the recurrent state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Action:
    """Actions of the agents of one behavior, one row for each slot."""

    continuous: Tensor  # (S, continuous) float32 within -1..1 (a policy's raw sample has no bounds)
    discrete: Tensor  # (S, branches) int64

    def each(self, function: Callable[[Tensor], Tensor]) -> Action:
        """Returns the actions with a function applied to both columns."""
        return Action(function(self.continuous), function(self.discrete))

    def take(self, rows: Tensor) -> Action:
        """Returns the actions of these rows, (n,)."""
        return self.each(lambda column: column.index_select(0, rows))


@dataclass(frozen=True, slots=True)
class FinalObs:
    """Final observations of the episodes that ended on this tick: `TimeStep.obs` already has the next episodes' first
    observations.

    On the CPU there is a row for each end. On an accelerator, where reading the number of ends would wait for the
    device, there is a row for every slot, and `slots` is 0, 1, 2, and so on.
    """

    slots: Tensor  # (E,) int64, rising
    obs: tuple[Tensor, ...]  # each (E, *shape)


@dataclass(frozen=True, slots=True)
class TimeStep:
    """One behavior after one tick: a table with a row for each slot.

    A slot is a place for an agent. Agents come and go, but slots stay, so every column keeps its shape and device.
    """

    obs: tuple[Tensor, ...]  # each (S, *shape) float32: current observations
    acting: Tensor  # (S,) bool: awaits an action; False: empty, or not its turn
    reward: Tensor  # (S,) float32: sum since the slot last acted; read where it acts again or its episode ended
    group_reward: Tensor  # (S,) float32: the group's reward over the same time
    terminated: Tensor  # (S,) bool: its episode ended for good: no value beyond it
    truncated: Tensor  # (S,) bool: its episode ended by a limit: bootstrap from final_obs.obs
    final_obs: FinalObs  # of the episodes that ended
    action_mask: Tensor | None  # (S, choices) bool, True: allowed; None: no masks
    area: Tensor  # (S,) int64: the area it belongs to
    team: Tensor  # (S,) int64: the team it plays for
    group: Tensor  # (S,) int64: group mates share it; -1: on its own
    lost: Tensor | None = None
    """(S,) bool: its episode was interrupted without an end, for example by a crash of the game. The unfinished episode
    is not learned from or counted, and a slot that acts now begins a new one. Never true where an episode ended. None:
    no interruptions."""
    success: Tensor | None = None
    """(S,) float32: 1 or 0 for an episode that ended on this tick with success or failure; NaN where the environment
    reports neither. Read where an episode ended. None: nothing reported."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's answer to a TimeStep, one row for each slot."""

    action: Action  # for the environment
    sample: Action  # as sampled: continuous actions before they are scaled and clipped
    log_prob: Tensor  # (S, A) of the sample: a column for each continuous action, then one for each branch
    recurrent_state: Tensor  # (S, L) before this decision; L is 0 without a recurrent network
