"""Buffers that collect a behavior's decisions tick by tick until a trainer takes them as a rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Decision, TimeStep
from palaestra.data.rollout import Earned, OpenDecisions, Rollout, RolloutLayout, RolloutNeeds

PLAIN = RolloutNeeds()


class RolloutBuffer(Protocol):
    """Decisions of one behavior. `decisions` counts those completed since the last `take` and not lost since."""

    decisions: int

    @property
    def agents(self) -> int:
        """Slots that have decided since the last `take`, or whose decision was not complete then."""
        ...

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Stores what the acting slots observed and did."""
        ...

    def complete(self, step: TimeStep) -> int:
        """Stores rewards and ends. A slot's decision is complete when it acts again or its episode ends.

        Returns how many were completed. The decisions of a lost episode are dropped: those since the last `take` no
        longer count.
        """
        ...

    def take(self, step: TimeStep) -> Rollout:
        """Returns the rollout so far; `step` shows what followed. The buffer starts anew and may overwrite what it
        returned.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns the rollout under way."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a rollout under way."""
        ...


class SteadyBuffer:
    """Buffer for behaviors whose slots all act on every tick: a row is one tick, written whole."""

    def __init__(self, step: TimeStep, decision: Decision, ticks: int, needs: RolloutNeeds = PLAIN) -> None:
        """`step` and `decision` show the columns' shapes, types and device."""
        self.decisions = 0
        self.tick = 0
        self._anew = True  # no open episode of an earlier buffer goes on in this one
        self._layout = RolloutLayout(step, decision, needs)
        self._make_columns(self._layout.opened(step, decision, 0), self._layout.completed(step, 0), ticks)
        self._slots = torch.arange(len(step.reward), device=step.reward.device)
        on_host = step.reward.device.type == "cpu"
        self._final_obs = FinalObsList(needs.terminal_obs) if on_host else FinalObsTable(step, ticks)

    def _make_columns(self, opened: Sequence[Tensor], completed: Sequence[Tensor], ticks: int) -> None:
        self._opened = [column(x, ticks) for x in opened]
        self._completed = [column(x, ticks) for x in completed]
        # views of each row made once: making one costs as much as filling it
        self._opened_rows = list(zip(*(x.unbind() for x in self._opened), strict=True))
        self._completed_rows = list(zip(*(x.unbind() for x in self._completed), strict=True))

    @property
    def agents(self) -> int:
        """Returns S: every slot decides."""
        return len(self._slots)

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Stores this tick's decisions, of all slots, as the next row."""
        if self.tick == len(self._opened_rows):  # another rank's rollout is not full yet
            self._grow()
        for row, value in zip(
            self._opened_rows[self.tick], self._layout.opened(step, decision, self.tick), strict=True
        ):
            row.copy_(value)

    def _grow(self) -> None:
        """Makes room for as many rows again."""
        opened = self._opened
        completed = self._completed
        self._make_columns([x[0] for x in opened], [x[0] for x in completed], 2 * self.tick)
        for columns, before in ((self._opened, opened), (self._completed, completed)):
            for x, value in zip(columns, before, strict=True):
                x[: self.tick].copy_(value)
        self._final_obs.grow(self.tick)

    def complete(self, step: TimeStep) -> int:
        """Completes row `tick` and moves on. Raises EnvError where an episode was lost: then not every slot could
        act.
        """
        if step.lost is not None:
            raise EnvError(
                "a steady behavior came with a column `lost`; expected None: its slots act on every tick, so none of "
                "its episodes "
                "breaks off (set `steady=False` in its spec where one may)"
            )
        for row, value in zip(
            self._completed_rows[self.tick], self._layout.completed(step, self.tick + 1), strict=True
        ):
            row.copy_(value)
        if len(step.final_obs.slots):
            self._final_obs.add(self._slots + self.tick * len(self._slots), step)
        self.tick += 1
        self.decisions += len(self._slots)
        return len(self._slots)

    def take(self, step: TimeStep) -> Rollout:
        """Returns the rollout, cut after the last tick."""
        opened = [x[: self.tick] for x in self._opened]
        completed = [x[: self.tick] for x in self._completed]
        final_obs = self._final_obs.take(self._layout.kept(completed), step.obs)
        now = self.tick
        self.tick = 0
        self.decisions = 0
        anew = torch.ones_like(step.acting) if self._anew else None
        self._anew = False
        return replace(self._layout.rollout(opened, completed, None, final_obs, step, now), anew=anew)

    def state_dict(self) -> dict[str, Any]:
        """Returns the rows written so far."""
        return {
            "kind": type(self).__name__,
            "opened": [x[: self.tick] for x in self._opened],
            "settled": [x[: self.tick] for x in self._completed],
            "anew": self._anew,
            "ends": self._final_obs.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores rows written before."""
        self.tick = len(state["settled"][0])
        self._anew = state.get("anew", False)
        self.decisions = self.tick * len(self._slots)
        if self.tick >= len(self._completed[0]):  # rollouts are shorter now: the next tick fills this one
            self._make_columns([x[0] for x in self._opened], [x[0] for x in self._completed], self.tick + 1)
        for columns, saved in ((self._opened, state["opened"]), (self._completed, state["settled"])):
            for x, value in zip(columns, saved, strict=True):
                x[: self.tick].copy_(value)
        self._final_obs.load_state_dict(state["ends"])


class SlottedBuffer:
    """Buffer for behaviors whose slots act at different times: each slot has its own next row.

    It grows by doubling: its rows as one slot decides more often than others, its slots as more agents live. On an
    accelerator, finding out who acts and what is complete waits for the device on every tick; of the built-in
    environments, WallJump and DungeonEscape need it.
    """

    def __init__(self, step: TimeStep, decision: Decision, ticks: int, needs: RolloutNeeds = PLAIN) -> None:
        """`step` and `decision` show the columns' shapes, types and device."""
        self.decisions = 0
        self._tick = 0
        self._layout = RolloutLayout(step, decision, needs)
        self._waiting = torch.zeros_like(step.acting)  # decided, not completed
        self._anew = torch.ones_like(
            step.acting
        )  # no episode of the rollout before goes on in the slot: it was lost or dropped
        self._final_obs = FinalObsList(needs.terminal_obs)
        self._earned: Earned | None = None
        self._have(
            [column(x, ticks) for x in self._layout.opened(step, decision, 0)],
            [column(x, ticks) for x in self._layout.completed(step, 0)],
            torch.zeros(len(step.reward), dtype=torch.int64, device=step.reward.device),
        )

    def _have(self, opened: list[Tensor], completed: list[Tensor], cursor: Tensor) -> None:
        """Uses these columns, each (T, S, ...), and the row that each slot writes next, (S,)."""
        self._opened = opened
        self._completed = completed
        # the same numbers without time: a row and a slot are one index there, which costs half of what two do
        self._flat_opened = [x.flatten(0, 1) for x in opened]
        self._flat_completed = [x.flatten(0, 1) for x in completed]
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
        columns = zip(self._flat_opened, self._layout.opened(step, decision, self._tick), strict=True)
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
        for x, value in zip(self._flat_completed, self._layout.completed(step, self._tick), strict=True):
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
        ended = (self._completed[2][:rows, slots] | self._completed[3][:rows, slots]) & (after <= cursor)
        begun = (ended * after).amax(0)
        self.decisions -= int((cursor - begun).sum())
        self._next[slots] = begun * len(self._slots) + slots
        self._anew[slots] |= begun == 0
        self._waiting &= ~lost

    def take(self, step: TimeStep) -> Rollout:
        """Returns the rollout, each slot cut after its last completed decision; decisions still waiting go on in the
        next rollout.
        """
        slots = self._waiting.nonzero().squeeze(1)
        waiting = OpenDecisions(slots, [x[self._next[slots]] for x in self._flat_opened], self._earned)
        rows = self._furthest()
        lengths = self._cursor
        opened = [x[:rows].clone() for x in self._opened]
        completed = [x[:rows].clone() for x in self._completed]
        final_obs = self._final_obs.take(self._layout.kept(completed), step.obs)
        self._earned = self._layout.earned(opened, completed, lengths, waiting)
        self._next = self._slots.clone()
        self._most = 0
        self.decisions = 0
        for x, value in zip(self._opened, waiting.opened, strict=True):
            x[0, slots] = value
        anew = self._anew
        self._anew = torch.zeros_like(self._anew)
        return replace(
            self._layout.rollout(opened, completed, lengths, final_obs, step, self._tick, waiting), anew=anew
        )

    def _furthest(self) -> int:
        """Row that the slot with most decisions writes next."""
        return int(self._next.max()) // len(self._next) if len(self._next) else 0

    def _make_room(self, slots: int) -> None:
        had = len(self._slots)
        more = slots - len(self._slots)
        if more > 0:
            ticks = len(self._completed[0])
            rows = min(ticks, max(self._furthest() + 1, ticks * had // slots))  # as much room in all as before
            self._final_obs.widen(had, slots)
            self._waiting, self._anew = (torch.cat([x, x.new_zeros(more)]) for x in (self._waiting, self._anew))
            opened, completed = (
                [torch.cat([x[:rows], x.new_zeros((rows, more, *x.shape[2:]))], 1) for x in columns]
                for columns in (self._opened, self._completed)
            )
            self._have(opened, completed, torch.cat([self._cursor, self._slots.new_zeros(more)]))
        if self._most < len(self._completed[0]):
            return
        self._most = self._furthest()  # it counted ticks, to be cheap: no slot is further than that
        if self._most == len(self._completed[0]):
            opened, completed = (
                [torch.cat([x, torch.zeros_like(x)]) for x in columns] for columns in (self._opened, self._completed)
            )
            self._have(opened, completed, self._cursor)

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that was written, at least a row, and waiting decisions; nothing of earlier rollouts."""
        cursor = self._cursor
        opened = cursor + self._waiting.long()
        rows = max(1, int(opened.max())) if len(opened) else 1
        row = torch.arange(rows, device=opened.device).unsqueeze(1)
        return {
            "kind": type(self).__name__,
            "opened": [blanked(x[:rows], row >= opened) for x in self._opened],
            "settled": [blanked(x[:rows], row >= cursor) for x in self._completed],
            "cursor": cursor,
            "waiting": self._waiting.clone(),
            "anew": self._anew.clone(),
            "decisions": self.decisions,
            "tick": self._tick,
            "earned": None if self._earned is None else asdict(self._earned),
            "ends": self._final_obs.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a rollout under way, with its cursors."""
        opened, completed = ([x.clone().contiguous() for x in state[part]] for part in ("opened", "settled"))
        self._have(opened, completed, state["cursor"])
        self._waiting = state["waiting"].clone()
        self.decisions = state["decisions"]
        self._tick = state.get("tick", 0)
        self._anew = state["anew"].clone() if "anew" in state else torch.zeros_like(self._waiting)
        earned = state.get("earned")
        self._earned = None if earned is None else Earned(**earned)
        self._final_obs.load_state_dict(state["ends"])


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
        """Adds those of this tick. `rows` (S,): row of each slot's decision, counted in T * S; `completed` (S,): slots
        that had one.
        """
        slots = step.final_obs.slots
        kept = step.truncated | step.terminated if self.terminal_obs else step.truncated
        chosen = kept[slots] if completed is None else (kept & completed)[slots]
        if not chosen.any():
            return
        self._rows.append(rows[slots[chosen]])
        self._obs.append(tuple(obs[chosen] for obs in step.final_obs.obs))

    def take(self, ended: Tensor, like: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns rows (E,) and observations, each (E, *shape), of the episodes whose final observations are kept:
        `ended` (T, S).
        """
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
        """Returns rows (E,) and observations, each (E, *shape), of the episodes whose final observations are kept:
        `ended` (T, S).
        """
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
