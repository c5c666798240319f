"""On-policy experience of one behavior: the only unit of it that crosses a boundary.

Letters in shapes: T decisions of a slot, S slots, E truncated ends, A action components, L memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.timestep import Action, Decision, TimeStep


@dataclass(frozen=True, slots=True)
class RolloutNeeds:
    """Parts that a trainer needs in its rollouts beyond what all have."""

    terminal_obs: bool = False
    """Whether `final_rows` and `final_obs` have terminated episodes too, not only truncated ones."""
    moments: bool = False
    """Whether rollouts have `moments`: when decisions were made, and in which group."""


@dataclass(frozen=True, slots=True)
class Earned:
    """Rewards of X agents of groups."""

    group: Tensor  # (X,) int64
    until: Tensor  # (X,) int64: the tick on which it was earned
    reward: Tensor  # (X,) its own

    def after(self, tick: int) -> Earned:
        """Returns the rewards of later ticks."""
        late = self.until > tick
        return Earned(self.group[late], self.until[late], self.reward[late])


@dataclass(frozen=True, slots=True)
class Moments:
    """When decisions were made and completed, in ticks that count on from rollout to rollout, and each agent's group.

    `last_obs` shows agents that wait: for an answer that they will get in the next rollout, or for the outcome of one they have.
    """

    made: Tensor  # (T, S) int64
    until: Tensor  # (T, S) int64: the tick on which the slot acted again or its episode ended
    group: Tensor  # (T, S) int64: -1: on its own
    last_made: Tensor  # (S,) int64: the tick of `last_obs`
    last_group: Tensor  # (S,) int64
    last_here: Tensor  # (S,) bool: `last_obs` is an agent's; False: the slot is empty
    last_decided: Tensor  # (S,) bool: it has been answered
    last_sample: Action  # (S, continuous), (S, branches): how, where it has
    last_memory: Tensor  # (S, L) with which memory, where it has
    earlier: Earned  # in the rollouts before, since the decisions that this one begins with were made


@dataclass(frozen=True, slots=True)
class Rollout:
    """A table of decisions: a column of time for each slot, all starting in row 0.

    A slot's decisions fill its first `lengths` rows. Where slots decide at different times a row is not one tick, only the slot's next
    decision.
    """

    obs: tuple[Tensor, ...]  # each (T, S, *shape)
    sample: Action  # (T, S, continuous), (T, S, branches): as drawn
    log_prob: Tensor  # (T, S, A)
    action_mask: Tensor | None  # (T, S, choices) bool
    memory: Tensor  # (T, S, L) before the decision
    reward: Tensor  # (T, S)
    group_reward: Tensor  # (T, S)
    terminated: Tensor  # (T, S) bool
    truncated: Tensor  # (T, S) bool
    lengths: Tensor | None  # (S,) int64 decisions of each slot; None: T in every slot
    last_obs: tuple[Tensor, ...]  # each (S, *shape): what followed each slot's last decision
    last_mask: Tensor | None  # (S, choices) bool: what was allowed there
    final_rows: (
        Tensor  # (E,) int64 rows, in T * S counting, of the decisions that a truncation closed (or any end: `RolloutNeeds.terminal_obs`)
    )
    final_obs: tuple[Tensor, ...]  # each (E, *shape): the last views of those episodes
    area: Tensor  # (S,) int64
    team: Tensor  # (S,) int64
    group: Tensor  # (S,) int64
    moments: Moments | None = None  # where `RolloutNeeds.moments` asks for them

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (T, S), the numbers of ticks and slots."""
        return self.reward.shape[0], self.reward.shape[1]


def completed(rollout: Rollout, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Returns the completed decisions of (T, S, ...) columns, each (N, ...)."""
    columns, rows = tuple(x.flatten(0, 1) for x in columns), completed_rows(rollout)
    return columns if rows is None else tuple(x.index_select(0, rows) for x in columns)


def completed_rows(rollout: Rollout) -> Tensor | None:
    """Returns the rows of completed decisions, counted in T * S, (N,) rising; None: all of them."""
    if rollout.lengths is None:
        return None
    time, _ = rollout.shape
    return (torch.arange(time, device=rollout.lengths.device).unsqueeze(1) < rollout.lengths).flatten().nonzero().squeeze(1)


@dataclass(frozen=True, slots=True)
class Transitions:
    """N transitions, in any order."""

    obs: tuple[Tensor, ...]  # each (N, *shape)
    action: Action  # as the environment got it: (N, continuous) within -1..1, (N, branches)
    next_obs: tuple[Tensor, ...]  # each (N, *shape): the final observation where an episode ended, if kept (`RolloutNeeds.terminal_obs`)
    reward: Tensor  # (N,) the environment's
    terminated: Tensor  # (N,) bool
    ended: Tensor  # (N,) bool: terminated or truncated

    def __len__(self) -> int:
        return len(self.reward)


class TransitionTable:
    """The completed decisions of a rollout as transitions, without a second copy of the observations."""

    def __init__(self, rollout: Rollout, action: Action, reward: Tensor) -> None:
        """`action` (T, S, ...) as the environment got it, `reward` (T, S)."""
        time, slots = rollout.shape
        device = reward.device
        extra = (rollout.last_obs, rollout.final_obs)
        self._views = tuple(torch.cat([obs.flatten(0, 1), *rest]) for obs, *rest in zip(rollout.obs, *extra, strict=True))
        rows, of_slot = torch.arange(time * slots, device=device), torch.arange(slots, device=device)
        following = rows + slots  # the rows of what followed the last tick are those of `last_obs`
        if rollout.lengths is not None:
            last = (rollout.lengths - 1).clamp(min=0) * slots + of_slot
            following.index_copy_(0, last, time * slots + of_slot)
        following.index_copy_(0, rollout.final_rows, (time + 1) * slots + torch.arange(len(rollout.final_rows), device=device))
        completed = rows
        if rollout.lengths is not None:
            completed = rows[(rows // slots) < rollout.lengths.repeat(time)]
        self.rows = completed
        """Rows of the decisions, counted in T * S, (N,) rising."""
        self._following = following[completed]
        ended = rollout.terminated | rollout.truncated
        columns = (action.continuous, action.discrete, reward, rollout.terminated, ended)
        self._columns = tuple(column.flatten(0, 1)[completed] for column in columns)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> Transitions:
        """Returns some transitions, (R,), counted among the completed ones."""
        continuous, discrete, reward, terminated, ended = (column.index_select(0, rows) for column in self._columns)
        here, there = self.rows.index_select(0, rows), self._following.index_select(0, rows)
        obs, next_obs = (tuple(view.index_select(0, at) for view in self._views) for at in (here, there))
        return Transitions(obs, Action(continuous, discrete), next_obs, reward, terminated, ended)

    def parts(self, size: int) -> Iterator[Transitions]:
        """Yields all transitions in order, `size` at a time."""
        for rows in torch.arange(len(self), device=self.rows.device).split(size):
            yield self.take(rows)


@dataclass(frozen=True, slots=True)
class OpenDecisions:
    """W decisions that are not complete when a rollout is taken."""

    slots: Tensor  # (W,) int64
    opened: list[Tensor]  # as `RolloutLayout.opened`, each (W, ...)
    earlier: Earned | None  # of the rollouts before this one, where moments are kept


class RolloutLayout:
    """Columns that a behavior's decisions have: those of no width are left out of every tick."""

    def __init__(self, step: TimeStep, decision: Decision, keeps: RolloutNeeds) -> None:
        self.views = len(step.obs)
        self.widths = (decision.sample.continuous.shape[1], decision.sample.discrete.shape[1], decision.recurrent_state.shape[1])
        self.keeps, self.masked = keeps, step.action_mask is not None

    def opened(self, step: TimeStep, decision: Decision, tick: int) -> list[Tensor]:
        """Returns what is known when a slot acts, on this tick."""
        continuous, discrete, memory = self.widths
        parts = [*step.obs, decision.log_prob]
        if continuous:
            parts.append(decision.sample.continuous)
        if discrete:
            parts.append(decision.sample.discrete)
        if memory:
            parts.append(decision.recurrent_state)
        if step.action_mask is not None:
            parts.append(step.action_mask)
        if self.keeps.moments:
            parts += [torch.full_like(step.group, tick), step.group]
        return parts

    def completed(self, step: TimeStep, tick: int) -> list[Tensor]:
        """Returns what is known once a slot acts again or its episode ends, on this tick."""
        parts = [step.reward, step.group_reward, step.terminated, step.truncated]
        if self.keeps.moments:
            parts.append(torch.full_like(step.group, tick))
        return parts

    def kept(self, completed: list[Tensor]) -> Tensor:
        """Returns the episodes whose final observations are kept, (T, S), from these columns."""
        return completed[2] | completed[3] if self.keeps.terminal_obs else completed[3]

    def rollout(
        self,
        opened: list[Tensor],
        completed: list[Tensor],
        lengths: Tensor | None,
        ends: tuple[Tensor, tuple[Tensor, ...]],
        step: TimeStep,
        now: int,
        waiting: OpenDecisions | None = None,
    ) -> Rollout:
        """Returns the columns as a rollout. `step` came on tick `now`, after the last decision; waiting slots show what they decided on."""
        reward, group_reward, terminated, truncated, *until = completed
        obs, log_prob, sample, memory, mask, _ = self._named(opened)
        last_obs, last_mask = step.obs, step.action_mask
        if waiting is not None:
            views, *_, allowed, _ = self._named(waiting.opened)
            last_obs = tuple(x.index_copy(0, waiting.slots, was) for x, was in zip(last_obs, views, strict=True))
            if last_mask is not None and allowed is not None:
                last_mask = last_mask.index_copy(0, waiting.slots, allowed)
        return Rollout(
            obs=obs,
            sample=sample,
            log_prob=log_prob,
            action_mask=mask,
            memory=memory,
            reward=reward,
            group_reward=group_reward,
            terminated=terminated,
            truncated=truncated,
            lengths=lengths,
            last_obs=last_obs,
            last_mask=last_mask,
            final_rows=ends[0],
            final_obs=ends[1],
            area=step.area,
            team=step.team,
            group=step.group,
            moments=self._moments(opened, until[0], step, now, waiting) if self.keeps.moments else None,
        )

    def _named(self, opened: list[Tensor]) -> tuple[tuple[Tensor, ...], Tensor, Action, Tensor, Tensor | None, list[Tensor]]:
        """Returns observations, log-probabilities, sample, memory, mask, and the rest: tick and group."""
        columns = iter(opened)
        obs = tuple(next(columns) for _ in range(self.views))
        log_prob = next(columns)
        none = log_prob[..., :0]
        continuous, discrete, memory = (next(columns) if width else none for width in self.widths)
        mask = next(columns) if self.masked else None
        return obs, log_prob, Action(continuous, discrete), memory, mask, list(columns)

    def _moments(self, opened: list[Tensor], until: Tensor, step: TimeStep, now: int, waiting: OpenDecisions | None) -> Moments:
        _, _, sample, memory, _, (made, group) = self._named(opened)
        last = [torch.full_like(step.group, now), step.group, step.acting, torch.zeros_like(step.acting)]
        last += [x.new_zeros(x.shape[1:]) for x in (sample.continuous, sample.discrete, memory)]
        if waiting is not None:
            _, _, sample, memory, _, (then, was) = self._named(waiting.opened)
            yes = torch.ones_like(waiting.slots, dtype=torch.bool)
            parts = (then, was, yes, yes, sample.continuous, sample.discrete, memory)
            last = [x.index_copy(0, waiting.slots, value) for x, value in zip(last, parts, strict=True)]
        last_made, last_group, here, decided, continuous, discrete, memory = last
        none = made[:0, 0]
        earlier = None if waiting is None else waiting.earlier
        earlier = earlier or Earned(none, none, step.reward[:0])
        return Moments(made, until, group, last_made, last_group, here, decided, Action(continuous, discrete), memory, earlier)

    def earned(self, opened: list[Tensor], completed: list[Tensor], lengths: Tensor, waiting: OpenDecisions) -> Earned | None:
        """Returns what agents of groups earned since the first waiting decision was made; None where moments are not kept."""
        if not self.keeps.moments:
            return None
        group, until, reward = opened[-1], completed[-1], completed[0]
        rows = (torch.arange(len(until), device=until.device).unsqueeze(1) < lengths) & (group >= 0)
        rows = rows.flatten()
        whole = Earned(*(column.flatten()[rows] for column in (group, until, reward)))
        if waiting.earlier is not None:
            pairs = ((waiting.earlier.group, whole.group), (waiting.earlier.until, whole.until), (waiting.earlier.reward, whole.reward))
            whole = Earned(*(torch.cat(pair) for pair in pairs))
        made = waiting.opened[-2]
        return whole.after(int(made.min()) if len(made) else 1 << 62)
