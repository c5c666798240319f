"""The tables that travel between an environment, a policy and a buffer: one row a slot.

Letters in shapes: S slots, E ends, A action components, L memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Action:
    """What the agents of one behavior do, one row a slot."""

    continuous: Tensor  # (S, continuous) float32 within -1..1 (a policy's raw sample has no bounds)
    discrete: Tensor  # (S, branches) int64


@dataclass(frozen=True, slots=True)
class FinalObs:
    """Last views of the episodes that ended on this tick: `TimeStep.obs` already shows the next ones' first.

    On the CPU there is a row for each end. On an accelerator, where the count is not
    known without waiting for it, there is a row for every slot and `slots` counts them through.
    """

    slots: Tensor  # (E,) int64, rising
    obs: tuple[Tensor, ...]  # each (E, *shape)


@dataclass(frozen=True, slots=True)
class TimeStep:
    """One behavior after one tick: a table with a row per slot.

    A slot is a seat that an agent can take. Agents come and go, slots stay, so
    every column keeps its shape and its device.
    """

    obs: tuple[Tensor, ...]  # each (S, *shape) float32: what the agent in the slot sees now
    acting: Tensor  # (S,) bool: awaits an action; False: empty, or not its turn
    reward: Tensor  # (S,) float32: earned since the slot last acted; read where it acts again or ended
    group_reward: Tensor  # (S,) float32: its group's share of the same span
    terminated: Tensor  # (S,) bool: its episode ended: nothing more to earn
    truncated: Tensor  # (S,) bool: its episode was cut: bootstrap from ends.obs
    ends: FinalObs
    action_mask: Tensor | None  # (S, choices) bool, True: allowed; None: this environment masks nothing
    area: Tensor  # (S,) int64: the area it belongs to
    team: Tensor  # (S,) int64
    group: Tensor  # (S,) int64: group mates share it; -1: on its own
    lost: Tensor | None = None
    """(S,) bool: its episode broke off without an end, as when a game crashed: nothing of it is learned from or counted, and whoever
    acts there now begins a new one. None: nobody's did. Never where an episode ended."""
    success: Tensor | None = None
    """(S,) float32: whether an episode that ended on this tick reached its aim, 1 or 0; NaN where the environment did not say. Read where
    an episode ended. None: it said so of none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's answer to a TimeStep, one row a slot."""

    action: Action  # what the environment gets
    sample: Action  # what was drawn: the continuous part before it is scaled and clipped
    log_prob: Tensor  # (S, A) of the sample, one column a continuous number, then one a branch
    memory: Tensor  # (S, L) recurrent state it started from; L is 0 without memory
