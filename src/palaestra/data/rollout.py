"""On-policy experience of one behavior, the only unit of it that crosses a boundary, and shuffled minibatches of its
rows.

Letters in shapes: T decisions of a slot, S slots, E truncated ends, A action components, L recurrent state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.parallel import ranks


@dataclass(frozen=True, slots=True)
class RolloutNeeds:
    """Parts that a trainer needs in its rollouts beyond what all have."""

    terminal_obs: bool = False
    """Whether `final_rows` and `final_obs` have terminated episodes too, not only truncated ones."""
    group_ticks: bool = False
    """Whether rollouts have `group_ticks`: when decisions were made, and in which group."""


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
class GroupTicks:
    """When decisions were made and completed, in ticks that count on from rollout to rollout, and each agent's group.

    `last_obs` shows agents that wait: for an answer that they will get in the next rollout, or for the outcome of one
    they have.
    """

    made: Tensor  # (T, S) int64
    until: Tensor  # (T, S) int64: the tick on which the slot acted again or its episode ended
    group: Tensor  # (T, S) int64: -1: on its own
    last_made: Tensor  # (S,) int64: the tick of `last_obs`
    last_group: Tensor  # (S,) int64
    last_here: Tensor  # (S,) bool: `last_obs` is an agent's; False: the slot is empty
    last_decided: Tensor  # (S,) bool: it has been answered
    last_sample: Action  # (S, continuous), (S, branches): how, where it has
    last_recurrent_state: Tensor  # (S, L) before that decision
    earlier: Earned  # in the rollouts before, since the decisions that this one begins with were made


@dataclass(frozen=True, slots=True)
class Rollout:
    """A table of decisions: a column of time for each slot, all starting in row 0.

    A slot's decisions fill its first `lengths` rows. Where slots decide at different times a row is not one tick, only
    the slot's next decision.
    """

    obs: tuple[Tensor, ...]  # each (T, S, *shape)
    sample: Action  # (T, S, continuous), (T, S, branches): as drawn
    log_prob: Tensor  # (T, S, A)
    action_mask: Tensor | None  # (T, S, choices) bool
    recurrent_state: Tensor  # (T, S, L) before the decision
    reward: Tensor  # (T, S)
    group_reward: Tensor  # (T, S)
    terminated: Tensor  # (T, S) bool
    truncated: Tensor  # (T, S) bool
    lengths: Tensor | None  # (S,) int64 decisions of each slot; None: T in every slot
    last_obs: tuple[Tensor, ...]  # each (S, *shape): what followed each slot's last decision
    last_mask: Tensor | None  # (S, choices) bool: what was allowed there
    # (E,) int64 rows, in T * S counting, of the decisions that a truncation closed (or any end:
    # `RolloutNeeds.terminal_obs`)
    final_rows: Tensor
    final_obs: tuple[Tensor, ...]  # each (E, *shape): the final observations of those episodes
    area: Tensor  # (S,) int64
    team: Tensor  # (S,) int64
    group: Tensor  # (S,) int64
    group_ticks: GroupTicks | None = None  # where `RolloutNeeds.group_ticks` asks for them
    anew: Tensor | None = (
        # (S,) bool: no episode of the rollout before goes on in the slot, as it was lost or dropped; None: in none
        None
    )

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (T, S), the numbers of ticks and slots."""
        return self.reward.shape[0], self.reward.shape[1]


def completed(rollout: Rollout, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Returns the completed decisions of (T, S, ...) columns, each (N, ...)."""
    columns = tuple(x.flatten(0, 1) for x in columns)
    rows = completed_rows(rollout)
    return columns if rows is None else tuple(x.index_select(0, rows) for x in columns)


def completed_rows(rollout: Rollout) -> Tensor | None:
    """Returns the rows of completed decisions, counted in T * S, (N,) rising; None: all of them."""
    if rollout.lengths is None:
        return None
    time, _ = rollout.shape
    return (
        (torch.arange(time, device=rollout.lengths.device).unsqueeze(1) < rollout.lengths)
        .flatten()
        .nonzero()
        .squeeze(1)
    )


@dataclass(frozen=True, slots=True)
class OpenDecisions:
    """W decisions that are not complete when a rollout is taken."""

    slots: Tensor  # (W,) int64
    opened: list[Tensor]  # as `RolloutLayout.opened`, each (W, ...)
    earlier: Earned | None  # of the rollouts before this one, where group ticks are kept


class RolloutLayout:
    """Columns that a behavior's decisions have: those of no width are left out of every tick."""

    def __init__(self, step: TimeStep, decision: Decision, needs: RolloutNeeds) -> None:
        self.observations = len(step.obs)
        self.widths = (
            decision.sample.continuous.shape[1],
            decision.sample.discrete.shape[1],
            decision.recurrent_state.shape[1],
        )
        self.needs = needs
        self.masked = step.action_mask is not None

    def opened(self, step: TimeStep, decision: Decision, tick: int) -> list[Tensor]:
        """Returns what is known when a slot acts, on this tick."""
        continuous, discrete, recurrent_state = self.widths
        parts = [*step.obs, decision.log_prob]
        if continuous:
            parts.append(decision.sample.continuous)
        if discrete:
            parts.append(decision.sample.discrete)
        if recurrent_state:
            parts.append(decision.recurrent_state)
        if step.action_mask is not None:
            parts.append(step.action_mask)
        if self.needs.group_ticks:
            parts += [torch.full_like(step.group, tick), step.group]
        return parts

    def completed(self, step: TimeStep, tick: int) -> list[Tensor]:
        """Returns what is known once a slot acts again or its episode ends, on this tick."""
        parts = [step.reward, step.group_reward, step.terminated, step.truncated]
        if self.needs.group_ticks:
            parts.append(torch.full_like(step.group, tick))
        return parts

    def kept(self, completed: list[Tensor]) -> Tensor:
        """Returns the episodes whose final observations are kept, (T, S), from these columns."""
        return completed[2] | completed[3] if self.needs.terminal_obs else completed[3]

    def rollout(
        self,
        opened: list[Tensor],
        completed: list[Tensor],
        lengths: Tensor | None,
        final: tuple[Tensor, tuple[Tensor, ...]],
        step: TimeStep,
        now: int,
        waiting: OpenDecisions | None = None,
    ) -> Rollout:
        """Returns the columns as a rollout. `step` came on tick `now`, after the last decision; waiting slots show what
        they decided on.
        """
        reward, group_reward, terminated, truncated, *until = completed
        obs, log_prob, sample, recurrent_state, mask, _ = self._named(opened)
        last_obs = step.obs
        last_mask = step.action_mask
        if waiting is not None:
            waiting_obs, *_, allowed, _ = self._named(waiting.opened)
            last_obs = tuple(x.index_copy(0, waiting.slots, was) for x, was in zip(last_obs, waiting_obs, strict=True))
            if last_mask is not None and allowed is not None:
                last_mask = last_mask.index_copy(0, waiting.slots, allowed)
        return Rollout(
            obs=obs,
            sample=sample,
            log_prob=log_prob,
            action_mask=mask,
            recurrent_state=recurrent_state,
            reward=reward,
            group_reward=group_reward,
            terminated=terminated,
            truncated=truncated,
            lengths=lengths,
            last_obs=last_obs,
            last_mask=last_mask,
            final_rows=final[0],
            final_obs=final[1],
            area=step.area,
            team=step.team,
            group=step.group,
            group_ticks=self._group_ticks(opened, until[0], step, now, waiting) if self.needs.group_ticks else None,
        )

    def _named(
        self, opened: list[Tensor]
    ) -> tuple[tuple[Tensor, ...], Tensor, Action, Tensor, Tensor | None, list[Tensor]]:
        """Returns observations, log-probabilities, sample, recurrent state, mask, and the rest: tick and group."""
        columns = iter(opened)
        obs = tuple(next(columns) for _ in range(self.observations))
        log_prob = next(columns)
        none = log_prob[..., :0]
        continuous, discrete, recurrent_state = (next(columns) if width else none for width in self.widths)
        mask = next(columns) if self.masked else None
        return obs, log_prob, Action(continuous, discrete), recurrent_state, mask, list(columns)

    def _group_ticks(
        self, opened: list[Tensor], until: Tensor, step: TimeStep, now: int, waiting: OpenDecisions | None
    ) -> GroupTicks:
        _, _, sample, recurrent_state, _, (made, group) = self._named(opened)
        last = [torch.full_like(step.group, now), step.group, step.acting, torch.zeros_like(step.acting)]
        last += [x.new_zeros(x.shape[1:]) for x in (sample.continuous, sample.discrete, recurrent_state)]
        if waiting is not None:
            _, _, sample, recurrent_state, _, (then, was) = self._named(waiting.opened)
            yes = torch.ones_like(waiting.slots, dtype=torch.bool)
            parts = (then, was, yes, yes, sample.continuous, sample.discrete, recurrent_state)
            last = [x.index_copy(0, waiting.slots, value) for x, value in zip(last, parts, strict=True)]
        last_made, last_group, here, decided, continuous, discrete, recurrent_state = last
        none = made[:0, 0]
        earlier = None if waiting is None else waiting.earlier
        earlier = earlier or Earned(none, none, step.reward[:0])
        return GroupTicks(
            made,
            until,
            group,
            last_made,
            last_group,
            here,
            decided,
            Action(continuous, discrete),
            recurrent_state,
            earlier,
        )

    def earned(
        self, opened: list[Tensor], completed: list[Tensor], lengths: Tensor, waiting: OpenDecisions
    ) -> Earned | None:
        """Returns what agents of groups earned since the first waiting decision was made; None where group ticks are
        not kept.
        """
        if not self.needs.group_ticks:
            return None
        group = opened[-1]
        until = completed[-1]
        reward = completed[0]
        rows = (torch.arange(len(until), device=until.device).unsqueeze(1) < lengths) & (group >= 0)
        rows = rows.flatten()
        whole = Earned(*(column.flatten()[rows] for column in (group, until, reward)))
        if waiting.earlier is not None:
            pairs = (
                (waiting.earlier.group, whole.group),
                (waiting.earlier.until, whole.until),
                (waiting.earlier.reward, whole.reward),
            )
            whole = Earned(*(torch.cat(pair) for pair in pairs))
        made = waiting.opened[-2]
        return whole.after(int(made.min()) if len(made) else 1 << 62)


@dataclass(frozen=True, slots=True)
class Minibatch:
    """N completed decisions, in any order. K: reward signals, A: action components."""

    inputs: tuple[Tensor, ...]  # prepared observations, each (N, ...)
    continuous: Tensor  # (N, continuous) as drawn
    discrete: Tensor  # (N, branches) int64
    log_prob: Tensor  # (N, A) when it was drawn
    advantage: Tensor  # (N,)
    value: Tensor  # (N, K) before the update
    target: Tensor  # (N, K) what the critic should have said
    mask: Tensor | None  # (N, choices) bool
    sequences: Sequences | None = None
    """Sequences of decisions that follow one another, where the network has memory."""

    def columns(self) -> list[Tensor]:
        """Returns all columns, for `with_columns`."""
        rest = [self.continuous, self.discrete, self.log_prob, self.advantage, self.value, self.target]
        return [*self.inputs, *rest] if self.mask is None else [*self.inputs, *rest, self.mask]

    def with_columns(self, columns: Sequence[Tensor], sequences: Sequences | None = None) -> Minibatch:
        """Returns other rows of the same kind."""
        count = len(self.inputs)
        rest = columns[count : count + 6]
        mask = None if self.mask is None else columns[count + 6]
        return Minibatch(tuple(columns[:count]), *rest, mask=mask, sequences=sequences)


def minibatches(rows: Minibatch, *, size: int, epochs: int, generator: torch.Generator) -> Iterator[Minibatch]:
    """Yields minibatches of `size` rows in `epochs` passes over all rows, each in a new order; as many as every other
    rank.

    What is left of a pass is dropped; fewer rows than `size` are one minibatch. Each pass is laid out once, so that a
    minibatch is a view and costs no copy.
    """
    columns = rows.columns()
    total = len(rows.advantage)
    size = min(size, total)
    for order in _orders(total, size, epochs, generator, ranks.least(total // size)):
        pieces = [column.index_select(0, order).split(size) for column in columns]
        for piece in zip(*pieces, strict=True):
            yield rows.with_columns(piece)


def index_minibatches(
    total: int, *, size: int, epochs: int, generator: torch.Generator, shared: bool = True
) -> Iterator[Tensor]:
    """Yields the same minibatches as row numbers, each (size,), without laying anything out. `shared`: as many as every
    other rank.
    """
    size = min(size, total)
    count = ranks.least(total // size) if shared else total // size
    for order in _orders(total, size, epochs, generator, count):
        for begin in range(0, len(order), size):
            yield order[begin : begin + size]


def _orders(total: int, size: int, epochs: int, generator: torch.Generator, count: int) -> Iterator[Tensor]:
    """Yields the rows that each pass takes, for `count` minibatches."""
    for _ in range(epochs):
        yield torch.randperm(total, generator=generator, device=generator.device)[: count * size]
