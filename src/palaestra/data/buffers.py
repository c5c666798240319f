"""Buffers that collect a behavior's decisions tick by tick until a trainer takes them as a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Decision, TimeStep
from palaestra.data.rollout import Earned, Rollout, RolloutNeeds
from palaestra.data.rollout_columns import (
    DecisionColumns,
    OpenDecisions,
    OutcomeColumns,
    column_state,
    decision_columns,
    each,
    earned_since,
    make_rollout,
    outcome_columns,
    saved_columns,
    tensors,
)

PLAIN = RolloutNeeds()


class SteadyBuffer:
    """Buffer for behaviors whose slots all act on every tick: a row is one tick, written whole.

    `decisions` counts those completed since the last `take`.
    """

    def __init__(self, step: TimeStep, decision: Decision, ticks: int, needs: RolloutNeeds = PLAIN) -> None:
        """`step` and `decision` show the columns' shapes, types and device."""
        self.decisions = 0
        self.tick = 0
        self._anew = True  # no open episode of an earlier buffer goes on in this one
        self._needs = needs
        self._make_columns(decision_columns(step, decision, 0, needs), outcome_columns(step, 0, needs), ticks)
        self._slots = torch.arange(len(step.reward), device=step.reward.device)
        on_host = step.reward.device.type == "cpu"
        self._final_obs = FinalObsList(needs.terminal_obs) if on_host else FinalObsTable(step, ticks)

    def _make_columns(self, decisions: DecisionColumns, outcomes: OutcomeColumns, ticks: int) -> None:
        """Makes columns of so many rows like these of one tick."""
        self._decisions = each(decisions, lambda x: column(x, ticks))
        self._outcomes = each(outcomes, lambda x: column(x, ticks))
        # views of each row made once: making one costs as much as filling it
        self._decision_rows = list(zip(*(x.unbind() for x in tensors(self._decisions)), strict=True))
        self._outcome_rows = list(zip(*(x.unbind() for x in tensors(self._outcomes)), strict=True))

    @property
    def agents(self) -> int:
        """Returns S: every slot decides."""
        return len(self._slots)

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Stores this tick's decisions, of all slots, as the next row."""
        if self.tick == len(self._decision_rows):  # another rank's rollout is not full yet
            self._make_room(2 * self.tick)
            self._final_obs.grow(self.tick)
        decisions = decision_columns(step, decision, self.tick, self._needs)
        for row, value in zip(self._decision_rows[self.tick], tensors(decisions), strict=True):
            row.copy_(value)

    def _make_room(self, ticks: int) -> None:
        """Makes columns of so many rows, which begin with those that there are."""
        before = tensors(self._decisions) + tensors(self._outcomes)
        self._make_columns(each(self._decisions, lambda x: x[0]), each(self._outcomes, lambda x: x[0]), ticks)
        for x, value in zip(tensors(self._decisions) + tensors(self._outcomes), before, strict=True):
            x[: len(value)].copy_(value)

    def complete(self, step: TimeStep) -> int:
        """Completes row `tick` and moves on. Raises EnvError where an episode was lost: not every slot could act."""
        if step.lost is not None:
            raise EnvError(
                "a steady behavior came with a column `lost`; expected None: its slots act on every tick, so none of "
                "its episodes breaks off (set `steady=False` in its spec where one may)"
            )
        outcomes = outcome_columns(step, self.tick + 1, self._needs)
        for row, value in zip(self._outcome_rows[self.tick], tensors(outcomes), strict=True):
            row.copy_(value)
        if len(step.final_obs.slots):
            self._final_obs.add(self._slots + self.tick * len(self._slots), step)
        self.tick += 1
        self.decisions += len(self._slots)
        return len(self._slots)

    def take(self, step: TimeStep) -> Rollout:
        """Returns the rollout, cut after the last tick."""
        decisions, outcomes = self._written()
        final_obs = self._final_obs.take(kept_ends(outcomes, self._needs), step.obs)
        now = self.tick
        self.tick = 0
        self.decisions = 0
        anew = torch.ones_like(step.acting) if self._anew else None
        self._anew = False
        return replace(make_rollout(decisions, outcomes, None, final_obs, step, now), anew=anew)

    def _written(self) -> tuple[DecisionColumns, OutcomeColumns]:
        """Returns the rows so far."""
        return each(self._decisions, lambda x: x[: self.tick]), each(self._outcomes, lambda x: x[: self.tick])

    def state_dict(self) -> dict[str, Any]:
        """Returns the rows written so far."""
        decisions, outcomes = self._written()
        return {
            "kind": type(self).__name__,
            "decided": column_state(decisions),
            "outcomes": column_state(outcomes),
            "anew": self._anew,
            "final_obs": self._final_obs.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores rows written before."""
        decisions = saved_columns(self._decisions, state["decided"])
        outcomes = saved_columns(self._outcomes, state["outcomes"])
        self.tick = len(outcomes.reward)
        self._anew = state["anew"]
        self.decisions = self.tick * len(self._slots)
        if self.tick >= len(self._outcomes.reward):  # rollouts are shorter now: the next tick fills this one
            self._make_room(self.tick + 1)
        saved = tensors(decisions) + tensors(outcomes)
        for x, value in zip(tensors(self._decisions) + tensors(self._outcomes), saved, strict=True):
            x[: self.tick].copy_(value)
        self._final_obs.load_state_dict(state["final_obs"])


class SlottedBuffer:
    """Buffer for behaviors whose slots act at different times: each slot has its own next row.

    It grows by doubling: its rows as one slot decides more often than others, its slots as more agents live. On an
    accelerator, finding out who acts and what is complete waits for the device on every tick; of the built-in
    environments, WallJump and DungeonEscape need it. `decisions` counts those completed since the last `take` and not
    lost since.
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
        """Row that each slot writes next, (S,): its completed decisions lie before it."""
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
        """Takes back what these slots decided after their last episode end in this rollout. Final observations stay."""
        slots = lost.nonzero().squeeze(1)
        rows = self._furthest()
        cursor = self._cursor[slots]
        if not len(slots) or not rows:
            self._waiting &= ~lost
            self._anew |= lost
            return
        after = torch.arange(1, rows + 1, device=lost.device).unsqueeze(1)
        ended = self._outcomes.ended[:rows, slots] & (after <= cursor)
        begun = (ended * after).amax(0)
        self.decisions -= int((cursor - begun).sum())
        self._next[slots] = begun * len(self._slots) + slots
        self._anew[slots] |= begun == 0
        self._waiting &= ~lost

    def take(self, step: TimeStep) -> Rollout:
        """Returns the rollout, each slot cut after its last completed decision; waiting decisions go on in the next."""
        slots = self._waiting.nonzero().squeeze(1)
        waiting = OpenDecisions(slots, each(self._flat_decisions, lambda x: x[self._next[slots]]), self._earned)
        rows = self._furthest()
        lengths = self._cursor
        decisions = each(self._decisions, lambda x: x[:rows].clone())
        outcomes = each(self._outcomes, lambda x: x[:rows].clone())
        final_obs = self._final_obs.take(kept_ends(outcomes, self._needs), step.obs)
        self._earned = earned_since(decisions, outcomes, lengths, waiting)
        self._next = self._slots.clone()
        self._most = 0
        self.decisions = 0
        for x, value in zip(tensors(self._decisions), tensors(waiting.columns), strict=True):
            x[0, slots] = value
        anew = self._anew
        self._anew = torch.zeros_like(self._anew)
        return replace(make_rollout(decisions, outcomes, lengths, final_obs, step, self._tick, waiting), anew=anew)

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
        """Returns everything that was written, at least a row, and waiting decisions; nothing of earlier rollouts."""
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
        """Restores a rollout under way, with its cursors."""
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


def kept_ends(outcomes: OutcomeColumns, needs: RolloutNeeds) -> Tensor:
    """Returns the episodes whose final observations are kept, (T, S)."""
    return outcomes.ended if needs.terminal_obs else outcomes.truncated


def blanked(column: Tensor, where: Tensor) -> Tensor:
    """Returns a copy of a column (T, S, ...) with zeros `where`, (T, S)."""
    return column.masked_fill(where.view(*where.shape, *(1,) * (column.dim() - 2)), 0)


class FinalObsList:
    """Final observations of truncated episodes, kept one by one: their number is known at no cost on the CPU."""

    def __init__(self, terminal_obs: bool = False) -> None:
        self.terminal_obs = terminal_obs
        self._rows: list[Tensor] = []
        self._obs: list[tuple[Tensor, ...]] = []

    def add(self, rows: Tensor, step: TimeStep, completed: Tensor | None = None) -> None:
        """Adds those of this tick. `rows` (S,): each slot's decision in T * S; `completed` (S,): slots with one."""
        slots = step.final_obs.slots
        kept = step.truncated | step.terminated if self.terminal_obs else step.truncated
        chosen = kept[slots] if completed is None else (kept & completed)[slots]
        if not chosen.any():
            return
        self._rows.append(rows[slots[chosen]])
        self._obs.append(tuple(obs[chosen] for obs in step.final_obs.obs))

    def take(self, ended: Tensor, like: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns rows (E,) and observations, each (E, *shape), of the episodes that are kept: `ended` (T, S)."""
        rows = torch.cat([torch.empty(0, dtype=torch.int64, device=ended.device), *self._rows])
        obs = tuple(torch.cat([x[:0], *(obs[i] for obs in self._obs)]) for i, x in enumerate(like))
        self._rows = []
        self._obs = []
        return rows, obs

    def grow(self, ticks: int) -> None:
        """Has room for any number of rows."""

    def widen(self, slots: int, more: int) -> None:
        """Counts its rows anew once a row of the rollout has `more` slots."""
        self._rows = [torch.div(rows, slots, rounding_mode="floor") * more + rows % slots for rows in self._rows]

    def state_dict(self) -> dict[str, Any]:
        """Returns what is kept."""
        return {"rows": list(self._rows), "obs": [list(obs) for obs in self._obs]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what was kept."""
        self._rows = list(state["rows"])
        self._obs = [tuple(obs) for obs in state["obs"]]


class FinalObsTable:
    """Final observations of every slot at every tick: on an accelerator nothing waits to learn which episodes ended.

    This costs a second copy of the observations there. Those of truncated episodes are selected once a rollout.
    """

    def __init__(self, step: TimeStep, ticks: int) -> None:
        self._columns = [column(x, ticks) for x in step.obs]

    def add(self, rows: Tensor, step: TimeStep) -> None:
        """Adds those of one tick. `rows` (S,): row of each slot's decision, counted in T * S."""
        for x, value in zip(self._columns, step.final_obs.obs, strict=True):
            x.view(-1, *x.shape[2:]).index_copy_(0, rows, value)

    def grow(self, ticks: int) -> None:
        """Makes room for as many rows again as the `ticks` there are."""
        self._columns = [torch.cat([x[:ticks], torch.zeros_like(x[:ticks])]) for x in self._columns]

    def take(self, ended: Tensor, like: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns rows (E,) and observations, each (E, *shape), of the episodes that are kept: `ended` (T, S)."""
        rows = ended.flatten().nonzero().squeeze(1)
        return rows, tuple(x.view(-1, *x.shape[2:])[rows] for x in self._columns)

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole table."""
        return {"columns": self._columns}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the table, with room for at least as many ticks as it had."""
        for i, value in enumerate(state["columns"]):
            if len(value) > len(self._columns[i]):
                self._columns[i] = column(self._columns[i][0], len(value))
            self._columns[i][: len(value)].copy_(value)


def column(value: Tensor, ticks: int) -> Tensor:
    """Returns an empty column (ticks, S, ...) for values like this one."""
    return torch.zeros((ticks, *value.shape), dtype=value.dtype, device=value.device)
