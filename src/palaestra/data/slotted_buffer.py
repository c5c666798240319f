"""The buffer of behaviors whose slots act at different times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from palaestra.core.timestep import Decision, TimeStep
from palaestra.data.group_ticks import Earned
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.data.steady_buffer import (
    PLAIN,
    DecisionColumns,
    FinalObsList,
    OutcomeColumns,
    SteadyBuffer,
    column,
    column_state,
    decision_columns,
    each,
    make_rollout,
    outcome_columns,
    saved_columns,
    tensors,
)


class SlottedBuffer:
    """Buffer for behaviors whose slots act at different times: each slot has its own next row.

    The buffer grows by doubling: it gets more rows if one slot decides more often than others, and more slots if there
    are more agents. On an accelerator, the buffer must wait for the device on every tick to learn which slots act and
    which decisions are complete; of the built-in environments, WallJump and DungeonEscape need it. `decisions` counts
    the completed decisions since the last `take`, without lost ones.
    """

    def __init__(self, step: TimeStep, decision: Decision, ticks: int, needs: RolloutNeeds = PLAIN) -> None:
        """`step` and `decision` show the columns' shapes, types and device."""
        self.decisions = 0
        self._tick = 0
        self._needs = needs
        self._waiting = torch.zeros_like(step.acting)  # decided, not completed
        self._anew = torch.ones_like(step.acting)  # no episode of the rollout before goes on in the slot
        self._final_obs = FinalObsList(needs.terminal_obs)
        self._earned: Earned | None = None
        self._have(
            each(decision_columns(step, decision, self._tick, self._needs), lambda x: column(x, ticks)),
            each(outcome_columns(step, self._tick, self._needs), lambda x: column(x, ticks)),
            torch.zeros(len(step.reward), dtype=torch.int64, device=step.reward.device),
        )

    def _have(self, decisions: DecisionColumns, outcomes: OutcomeColumns, cursor: Tensor) -> None:
        """Uses these columns, each (T, S, ...), and the row that each slot writes next, (S,)."""
        self._decisions = decisions
        self._outcomes = outcomes
        # the same numbers without time: a row and a slot are one index there, which costs half of what two do
        self._flat_decisions = each(decisions, lambda x: x.flatten(0, 1))
        self._flat_outcomes = [x.flatten(0, 1) for x in tensors(outcomes)]
        self._slots = torch.arange(len(cursor), device=cursor.device)
        self._next = cursor * len(cursor) + self._slots  # in T * S counting
        self._most = self._furthest()

    @property
    def _cursor(self) -> Tensor:
        """Row that each slot writes next, (S,), after its completed decisions."""
        return (self._next - self._slots) // max(len(self._slots), 1)

    @property
    def agents(self) -> int:
        """Returns how many slots have decided; waits for the device."""
        return int((self._waiting | (self._next != self._slots)).sum())

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Writes each acting slot's next row."""
        self._make_room(len(step.reward))
        decisions = decision_columns(step, decision, self._tick, self._needs)
        columns = zip(tensors(self._flat_decisions), tensors(decisions), strict=True)
        slots = step.acting.nonzero().squeeze(1)
        if len(slots) == len(self._slots):
            for x, value in columns:
                x.index_copy_(0, self._next, value)
        else:
            rows = self._next.index_select(0, slots)
            for x, value in columns:
                x.index_copy_(0, rows, value.index_select(0, slots))
        self._waiting |= step.acting

    def complete(self, step: TimeStep) -> int:
        """Completes the rows of slots that act again or ended."""
        self._make_room(len(step.reward))
        if step.lost is not None:
            self._forget(step.lost)
        self._tick += 1
        done = self._waiting & (step.acting | step.terminated | step.truncated)
        for x, value in zip(self._flat_outcomes, tensors(outcome_columns(step, self._tick, self._needs)), strict=True):
            x.index_copy_(0, self._next, value)  # of every slot: what has not completed is written again when it does
        if len(step.final_obs.slots):
            self._final_obs.add(self._next, step, done)
        self._next.add_(done, alpha=len(self._slots))
        self._waiting ^= done
        self._most += 1
        completed = int(done.sum())
        self.decisions += completed
        return completed

    def _forget(self, lost: Tensor) -> None:
        """Removes decisions of these slots after their last episode end in this rollout. Final observations stay."""
        slots = lost.nonzero().squeeze(1)
        rows = self._furthest()
        cursor = self._cursor[slots]
        if not len(slots) or not rows:
            self._waiting &= ~lost
            self._anew |= lost
            return
        after = torch.arange(1, rows + 1, device=lost.device).unsqueeze(1)
        ended = self._outcomes.terminated[:rows, slots] | self._outcomes.truncated[:rows, slots]
        ended &= after <= cursor
        begun = (ended * after).amax(0)
        self.decisions -= int((cursor - begun).sum())
        self._next[slots] = begun * len(self._slots) + slots
        self._anew[slots] |= begun == 0
        self._waiting &= ~lost

    def take(self, step: TimeStep) -> Rollout:
        """Returns the rollout, each slot cut after its last completed decision; waiting decisions move to the next."""
        slots = self._waiting.nonzero().squeeze(1)
        waiting = each(self._flat_decisions, lambda x: x[self._next[slots]])
        rows = self._furthest()
        lengths = self._cursor
        decisions = each(self._decisions, lambda x: x[:rows].clone())
        outcomes = each(self._outcomes, lambda x: x[:rows].clone())
        rollout = make_rollout(
            decisions, outcomes, self._final_obs.take(step.obs), step, self._tick, lengths=lengths, anew=self._anew
        )
        ticks = rollout.group_ticks
        if ticks is not None:
            ticks = ticks.with_waiting(slots, waiting.of_groups, self._earned)
            self._earned = ticks.earned_since(waiting.of_groups.made, outcomes.reward, lengths)
        self._next = self._slots.clone()
        self._most = 0
        self.decisions = 0
        for x, value in zip(tensors(self._decisions), tensors(waiting), strict=True):
            x[0, slots] = value
        self._anew = torch.zeros_like(self._anew)
        seen = zip(step.obs, waiting.obs, strict=True)
        last_mask = step.action_mask
        if last_mask is not None and waiting.mask is not None:
            last_mask = last_mask.index_copy(0, slots, waiting.mask)
        return replace(
            rollout,
            last_obs=tuple(x.index_copy(0, slots, was) for x, was in seen),
            last_mask=last_mask,
            group_ticks=ticks,
        )

    def _furthest(self) -> int:
        """Row that the slot with most decisions writes next."""
        return int(self._next.max()) // len(self._next) if len(self._next) else 0

    def _make_room(self, slots: int) -> None:
        had = len(self._slots)
        more = slots - len(self._slots)
        if more > 0:
            ticks = len(self._outcomes.reward)
            rows = min(ticks, max(self._furthest() + 1, ticks * had // slots))  # as much room in all as before
            self._final_obs.widen(had, slots)
            self._waiting, self._anew = (torch.cat([x, x.new_zeros(more)]) for x in (self._waiting, self._anew))

            def wider(x: Tensor) -> Tensor:
                return torch.cat([x[:rows], x.new_zeros((rows, more, *x.shape[2:]))], 1)

            cursor = torch.cat([self._cursor, self._slots.new_zeros(more)])
            self._have(each(self._decisions, wider), each(self._outcomes, wider), cursor)
        if self._most < len(self._outcomes.reward):
            return
        self._most = self._furthest()  # it counted ticks, to be cheap: no slot is further than that
        if self._most == len(self._outcomes.reward):

            def longer(x: Tensor) -> Tensor:
                return torch.cat([x, torch.zeros_like(x)])

            self._have(each(self._decisions, longer), each(self._outcomes, longer), self._cursor)

    def state_dict(self) -> dict[str, Any]:
        """Returns all written rows, at least one, and waiting decisions; nothing of earlier rollouts."""
        cursor = self._cursor
        opened = cursor + self._waiting.long()
        rows = max(1, int(opened.max())) if len(opened) else 1
        row = torch.arange(rows, device=opened.device).unsqueeze(1)
        return {
            "kind": type(self).__name__,
            "decided": column_state(each(self._decisions, lambda x: blanked(x[:rows], row >= opened))),
            "outcomes": column_state(each(self._outcomes, lambda x: blanked(x[:rows], row >= cursor))),
            "cursor": cursor,
            "waiting": self._waiting.clone(),
            "anew": self._anew.clone(),
            "decisions": self.decisions,
            "tick": self._tick,
            "group_rewards": None if self._earned is None else asdict(self._earned),
            "final_obs": self._final_obs.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores an unfinished rollout, with each slot's next row."""
        decisions = saved_columns(self._decisions, state["decided"])
        outcomes = saved_columns(self._outcomes, state["outcomes"])
        self._have(
            each(decisions, lambda x: x.clone().contiguous()),
            each(outcomes, lambda x: x.clone().contiguous()),
            state["cursor"],
        )
        self._waiting = state["waiting"].clone()
        self.decisions = state["decisions"]
        self._tick = state["tick"]
        self._anew = state["anew"].clone()
        self._earned = None if state["group_rewards"] is None else Earned(**state["group_rewards"])
        self._final_obs.load_state_dict(state["final_obs"])


RolloutBuffer = SteadyBuffer | SlottedBuffer
"""Decisions of one behavior."""


def blanked(column: Tensor, where: Tensor) -> Tensor:
    """Returns a copy of a column (T, S, ...) with zeros where `where`, (T, S), is true."""
    return column.masked_fill(where.view(*where.shape, *(1,) * (column.dim() - 2)), 0)
