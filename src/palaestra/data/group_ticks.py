"""Ticks of the decisions and rewards of agents in groups, which MA-POCA needs in addition to a rollout's columns.

Letters in shapes: In shapes: T decisions of a slot, S slots, L recurrent state, R some rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from palaestra.core.timestep import Action, TimeStep


@dataclass(frozen=True, slots=True)
class Earned:
    """X rewards that agents of groups earned."""

    group: Tensor  # (X,) int64
    until: Tensor  # (X,) int64: the tick on which it was earned
    reward: Tensor  # (X,) its own

    def after(self, tick: int) -> Earned:
        """Returns the rewards of later ticks."""
        late = self.until > tick
        return Earned(self.group[late], self.until[late], self.reward[late])

    def followed_by(self, later: Earned) -> Earned:
        """Returns these rewards and later ones together."""
        pairs = ((self.group, later.group), (self.until, later.until), (self.reward, later.reward))
        return Earned(*(torch.cat(pair) for pair in pairs))


class GroupDecisions(NamedTuple):
    """Decisions, (T, S, ...) or (R, ...), with the ticks on which they were made."""

    made: Tensor  # int64
    group: Tensor  # int64: -1: on its own
    sample: Action
    recurrent_state: Tensor  # before the decision


@dataclass(frozen=True, slots=True)
class GroupTicks:
    """When decisions were made and completed, in ticks counted across rollouts, and each agent's group.

    `last_obs` shows agents that wait: for an action, which comes in the next rollout, or for the outcome of their last
    action.
    """

    made: Tensor  # (T, S) int64
    until: Tensor  # (T, S) int64: the tick on which the slot acted again or its episode ended
    group: Tensor  # (T, S) int64: -1: on its own
    last_made: Tensor  # (S,) int64: the tick of `last_obs`
    last_group: Tensor  # (S,) int64
    last_here: Tensor  # (S,) bool: `last_obs` is an agent's; False: the slot is empty
    last_decided: Tensor  # (S,) bool: it has been answered
    last_sample: Action  # (S, continuous), (S, B): how, where it has
    last_recurrent_state: Tensor  # (S, L) before that decision
    earlier: Earned  # in the rollouts before, since the decisions that this one begins with were made

    @classmethod
    def of(cls, decided: GroupDecisions, until: Tensor, step: TimeStep, now: int) -> GroupTicks:
        """Returns ticks and rewards of complete decisions. `step` arrived on tick `now`, after the last decision."""
        none = step.group[:0]
        return cls(
            made=decided.made,
            until=until,
            group=decided.group,
            last_made=torch.full_like(step.group, now),
            last_group=step.group,
            last_here=step.acting,
            last_decided=torch.zeros_like(step.acting),
            last_sample=decided.sample.each(lambda x: x.new_zeros(x.shape[1:])),
            last_recurrent_state=decided.recurrent_state.new_zeros(decided.recurrent_state.shape[1:]),
            earlier=Earned(none, none, step.reward[:0]),
        )

    def with_waiting(self, slots: Tensor, waiting: GroupDecisions, earlier: Earned | None) -> GroupTicks:
        """Returns the ticks, with R waiting decisions in place of the newest entries of their slots (R,)."""

        def put(column: Tensor, values: Tensor) -> Tensor:
            return column.index_copy(0, slots, values)

        here = torch.ones_like(slots, dtype=torch.bool)
        return replace(
            self,
            last_made=put(self.last_made, waiting.made),
            last_group=put(self.last_group, waiting.group),
            last_here=put(self.last_here, here),
            last_decided=put(self.last_decided, here),
            last_sample=Action(
                put(self.last_sample.continuous, waiting.sample.continuous),
                put(self.last_sample.discrete, waiting.sample.discrete),
            ),
            last_recurrent_state=put(self.last_recurrent_state, waiting.recurrent_state),
            earlier=earlier or self.earlier,
        )

    def earned_since(self, made: Tensor, reward: Tensor, lengths: Tensor) -> Earned:
        """Returns the rewards of agents in groups since the earliest of the ticks `made` (R,); `reward` is (T, S)."""
        row = torch.arange(len(self.until), device=reward.device).unsqueeze(1)
        rows = ((row < lengths) & (self.group >= 0)).flatten()
        earned = Earned(self.group.flatten()[rows], self.until.flatten()[rows], reward.flatten()[rows])
        return self.earlier.followed_by(earned).after(int(made.min()) if len(made) else 1 << 62)
