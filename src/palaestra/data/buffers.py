"""Fill a rollout, tick by tick: `open` writes a decision, `settle` what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.data.ends import EndsList, EndsTable, column
from palaestra.data.rollout import Rollout


class RolloutBuffer(Protocol):
    """Decisions of one behavior. `decisions` counts the settled ones since the last `take`."""

    decisions: int

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Notes what the acting slots saw and did."""
        ...

    def settle(self, step: TimeStep) -> None:
        """Notes what came of it: rewards and ends. A slot's decision is settled when it acts again or its episode ends."""
        ...

    def take(self, step: TimeStep) -> Rollout:
        """The rollout so far, cut here: `step` shows what followed. The buffer starts anew and may overwrite what it gave."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The open rollout."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with an open rollout."""
        ...


class Layout:
    """Which columns a behavior's decisions have: those of no width are left out of every tick."""

    def __init__(self, step: TimeStep, decision: Decision) -> None:
        self.views = len(step.obs)
        self.widths = (decision.sample.continuous.shape[1], decision.sample.discrete.shape[1], decision.memory.shape[1])
        self.masked = step.action_mask is not None

    def opened(self, step: TimeStep, decision: Decision) -> list[Tensor]:
        """What is known when a slot acts."""
        continuous, discrete, memory = self.widths
        parts = [*step.obs, decision.log_prob]
        if continuous:
            parts.append(decision.sample.continuous)
        if discrete:
            parts.append(decision.sample.discrete)
        if memory:
            parts.append(decision.memory)
        if step.action_mask is not None:
            parts.append(step.action_mask)
        return parts

    @staticmethod
    def settled(step: TimeStep) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What is known once a slot acts again or its episode ends."""
        return step.reward, step.group_reward, step.terminated, step.truncated

    def rollout(
        self,
        opened: list[Tensor],
        settled: list[Tensor],
        lengths: Tensor | None,
        last_obs: tuple[Tensor, ...],
        ends: tuple[Tensor, tuple[Tensor, ...]],
        step: TimeStep,
    ) -> Rollout:
        """The columns, named."""
        columns = iter(opened)
        reward, group_reward, terminated, truncated = settled
        obs = tuple(next(columns) for _ in range(self.views))
        log_prob = next(columns)
        none = log_prob[:, :, :0]
        continuous, discrete, memory = (next(columns) if width else none for width in self.widths)
        return Rollout(
            obs=obs,
            sample=Action(continuous, discrete),
            log_prob=log_prob,
            action_mask=next(columns) if self.masked else None,
            memory=memory,
            reward=reward,
            group_reward=group_reward,
            terminated=terminated,
            truncated=truncated,
            lengths=lengths,
            last_obs=last_obs,
            final_rows=ends[0],
            final_obs=ends[1],
            area=step.area,
            team=step.team,
            group=step.group,
        )


class SteadyBuffer:
    """For behaviors whose slots all act on every tick: a row is one tick, written whole."""

    def __init__(self, step: TimeStep, decision: Decision, ticks: int) -> None:
        """`step` and `decision` show the columns' shapes, types and device."""
        self.decisions, self.tick = 0, 0
        self._layout = Layout(step, decision)
        self._make_columns(self._layout.opened(step, decision), self._layout.settled(step), ticks)
        self._slots = torch.arange(len(step.reward), device=step.reward.device)
        self._ends = EndsList() if step.reward.device.type == "cpu" else EndsTable(step, ticks)

    def _make_columns(self, opened: Sequence[Tensor], settled: Sequence[Tensor], ticks: int) -> None:
        self._opened, self._settled = [column(x, ticks) for x in opened], [column(x, ticks) for x in settled]
        # views of each row made once: making one costs as much as filling it
        self._opened_rows = list(zip(*(x.unbind() for x in self._opened), strict=True))
        self._settled_rows = list(zip(*(x.unbind() for x in self._settled), strict=True))

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Writes row `tick`."""
        for row, value in zip(self._opened_rows[self.tick], self._layout.opened(step, decision), strict=True):
            row.copy_(value)

    def settle(self, step: TimeStep) -> None:
        """Completes row `tick` and moves on."""
        for row, value in zip(self._settled_rows[self.tick], self._layout.settled(step), strict=True):
            row.copy_(value)
        if len(step.ends.slots):
            self._ends.add(self._slots + self.tick * len(self._slots), step)
        self.tick += 1
        self.decisions += len(self._slots)

    def take(self, step: TimeStep) -> Rollout:
        """Cuts all slots after the last tick."""
        opened, settled = [x[: self.tick] for x in self._opened], [x[: self.tick] for x in self._settled]
        ends = self._ends.take(settled[3], step.obs)
        self.tick = self.decisions = 0
        return self._layout.rollout(opened, settled, None, step.obs, ends, step)

    def state_dict(self) -> dict[str, Any]:
        """Rows written so far."""
        return {
            "opened": [x[: self.tick] for x in self._opened],
            "settled": [x[: self.tick] for x in self._settled],
            "ends": self._ends.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Rows written before."""
        self.tick = len(state["settled"][0])
        self.decisions = self.tick * len(self._slots)
        if self.tick >= len(self._settled[0]):  # rollouts are shorter now: the next tick fills this one
            self._make_columns([x[0] for x in self._opened], [x[0] for x in self._settled], self.tick + 1)
        for columns, saved in ((self._opened, state["opened"]), (self._settled, state["settled"])):
            for x, value in zip(columns, saved, strict=True):
                x[: self.tick].copy_(value)
        self._ends.load_state_dict(state["ends"])


class SlottedBuffer:
    """For behaviors whose slots act in their own time: each slot has a cursor.

    Grows by doubling: its rows as one slot decides more often than others, its slots as
    more agents live. Counting what settled waits for the device once a tick: environments
    that live on an accelerator are steady.
    """

    def __init__(self, step: TimeStep, decision: Decision, ticks: int) -> None:
        """`step` and `decision` show the columns' shapes, types and device."""
        self.decisions = 0
        self._layout = Layout(step, decision)
        self._opened = [column(x, ticks) for x in self._layout.opened(step, decision)]
        self._settled = [column(x, ticks) for x in self._layout.settled(step)]
        self._cursor = torch.zeros(len(step.reward), dtype=torch.int64, device=step.reward.device)
        self._waiting = torch.zeros_like(step.acting)  # decided, not settled
        self._ends = EndsList()

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Writes each acting slot's next row."""
        self._make_room(len(step.reward))
        slots = step.acting.nonzero().squeeze(1)
        for x, value in zip(self._opened, self._layout.opened(step, decision), strict=True):
            x[self._cursor[slots], slots] = value[slots]
        self._waiting = self._waiting | step.acting

    def settle(self, step: TimeStep) -> None:
        """Completes the rows of slots that act again or ended."""
        self._make_room(len(step.reward))
        done = self._waiting & (step.acting | step.terminated | step.truncated)
        slots = done.nonzero().squeeze(1)
        for x, value in zip(self._settled, self._layout.settled(step), strict=True):
            x[self._cursor[slots], slots] = value[slots]
        if len(step.ends.slots):
            self._ends.add(self._cursor * len(done) + torch.arange(len(done), device=done.device), step, done)
        self._cursor[slots] += 1
        self._waiting = self._waiting & ~done
        self.decisions += len(slots)

    def take(self, step: TimeStep) -> Rollout:
        """Cuts every slot after its last settled decision; decisions still waiting go on in the next rollout."""
        slots = self._waiting.nonzero().squeeze(1)
        waiting = [x[self._cursor[slots], slots] for x in self._opened]
        last = [obs.clone() for obs in step.obs]
        for obs, was in zip(last, waiting, strict=False):
            obs[slots] = was
        rows, lengths = self._furthest(), self._cursor
        opened, settled = [x[:rows].clone() for x in self._opened], [x[:rows].clone() for x in self._settled]
        ends = self._ends.take(settled[3], step.obs)
        self._cursor, self.decisions = torch.zeros_like(self._cursor), 0
        for x, value in zip(self._opened, waiting, strict=True):
            x[0, slots] = value
        return self._layout.rollout(opened, settled, lengths, tuple(last), ends, step)

    def _furthest(self) -> int:
        """The row that the slot which decided most will write next."""
        return int(self._cursor.max()) if len(self._cursor) else 0

    def _make_room(self, slots: int) -> None:
        more = slots - len(self._cursor)
        if more > 0:
            ticks = len(self._settled[0])
            rows = min(ticks, max(self._furthest() + 1, ticks * len(self._cursor) // slots))  # as much room in all as before
            self._ends.widen(len(self._cursor), slots)
            self._cursor = torch.cat([self._cursor, self._cursor.new_zeros(more)])
            self._waiting = torch.cat([self._waiting, self._waiting.new_zeros(more)])
            for columns in (self._opened, self._settled):
                columns[:] = [torch.cat([x[:rows], x.new_zeros((rows, more, *x.shape[2:]))], 1) for x in columns]
        if self._furthest() >= len(self._settled[0]):
            for columns in (self._opened, self._settled):
                columns[:] = [torch.cat([x, torch.zeros_like(x)]) for x in columns]

    def state_dict(self) -> dict[str, Any]:
        """Everything up to the furthest cursor, and the decisions that wait."""
        rows = self._furthest() + 1
        return {
            "opened": [x[:rows] for x in self._opened],
            "settled": [x[:rows] for x in self._settled],
            "cursor": self._cursor,
            "waiting": self._waiting,
            "decisions": self.decisions,
            "ends": self._ends.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where the cursors stood."""
        self._opened, self._settled = ([x.clone() for x in state[part]] for part in ("opened", "settled"))
        self._cursor, self._waiting, self.decisions = state["cursor"].clone(), state["waiting"].clone(), state["decisions"]
        self._ends.load_state_dict(state["ends"])
