"""Columns in which buffers keep decisions, and the rollout that is made of them.

A column is (S, ...) on a tick and (T, S, ...) in a buffer. Those that a behavior does not have are None: they cost
nothing on a tick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.data.rollout import Earned, GroupTicks, Rollout, RolloutNeeds


class DecisionColumns(NamedTuple):
    """Columns that are filled when a slot acts."""

    obs: tuple[Tensor, ...]
    log_prob: Tensor
    continuous: Tensor | None
    discrete: Tensor | None
    recurrent_state: Tensor | None
    mask: Tensor | None
    tick: Tensor | None  # int64: where group ticks are kept
    group: Tensor | None  # int64: likewise

    @property
    def sample(self) -> Action:
        """Returns the actions as drawn; of no width where the behavior has none."""
        return Action(self._or_none(self.continuous), self._or_none(self.discrete))

    @property
    def state(self) -> Tensor:
        """Returns the recurrent state before the decision; of no width without memory."""
        return self._or_none(self.recurrent_state)

    def _or_none(self, column: Tensor | None) -> Tensor:
        return self.log_prob[..., :0] if column is None else column


class OutcomeColumns(NamedTuple):
    """Columns that are filled once a slot acts again or its episode ends."""

    reward: Tensor
    group_reward: Tensor
    terminated: Tensor
    truncated: Tensor
    tick: Tensor | None  # int64: where group ticks are kept

    @property
    def ended(self) -> Tensor:
        """Returns which episodes ended, bool."""
        return self.terminated | self.truncated


Columns = TypeVar("Columns", DecisionColumns, OutcomeColumns)


def decision_columns(step: TimeStep, decision: Decision, tick: int, needs: RolloutNeeds) -> DecisionColumns:
    """Returns the decisions of this tick."""
    sample = decision.sample
    return DecisionColumns(
        step.obs,
        decision.log_prob,
        sample.continuous if sample.continuous.shape[1] else None,
        sample.discrete if sample.discrete.shape[1] else None,
        decision.recurrent_state if decision.recurrent_state.shape[1] else None,
        step.action_mask,
        torch.full_like(step.group, tick) if needs.group_ticks else None,
        step.group if needs.group_ticks else None,
    )


def outcome_columns(step: TimeStep, tick: int, needs: RolloutNeeds) -> OutcomeColumns:
    """Returns what came of decisions by this tick."""
    until = torch.full_like(step.group, tick) if needs.group_ticks else None
    return OutcomeColumns(step.reward, step.group_reward, step.terminated, step.truncated, until)


def tensors(columns: DecisionColumns | OutcomeColumns) -> list[Tensor]:
    """Returns all columns that are there, in their order."""
    first = columns[0]
    rest = [x for x in columns[1:] if x is not None]
    return [*first, *rest] if isinstance(first, tuple) else [first, *rest]


def each(columns: Columns, function: Callable[[Tensor], Tensor]) -> Columns:
    """Returns what a function makes of every column."""
    return columns._make(
        x if x is None else tuple(map(function, x)) if isinstance(x, tuple) else function(x) for x in columns
    )


def column_state(columns: DecisionColumns | OutcomeColumns) -> dict[str, Any]:
    """Returns all columns that are there, by name."""
    return {name: list(x) if isinstance(x, tuple) else x for name, x in columns._asdict().items() if x is not None}


def saved_columns(like: Columns, state: Mapping[str, Any]) -> Columns:
    """Returns the columns of a saved state. Raises ValueError where it does not have the same as `like`."""
    if state.keys() != column_state(like).keys():
        raise ValueError(f"a rollout was saved with {', '.join(state)}; expected {', '.join(column_state(like))}")
    return like._replace(**{name: tuple(x) if isinstance(x, list) else x for name, x in state.items()})


@dataclass(frozen=True, slots=True)
class OpenDecisions:
    """R decisions that are not complete when a rollout is taken."""

    slots: Tensor  # (R,) int64
    columns: DecisionColumns  # each (R, ...)
    earlier: Earned | None  # of the rollouts before this one, where group ticks are kept


def make_rollout(
    decisions: DecisionColumns,
    outcomes: OutcomeColumns,
    lengths: Tensor | None,
    final: tuple[Tensor, tuple[Tensor, ...]],
    step: TimeStep,
    now: int,
    waiting: OpenDecisions | None = None,
) -> Rollout:
    """Returns a rollout. `step` came on tick `now`, after the last decision; waiting slots show their decision."""
    last_obs = step.obs
    last_mask = step.action_mask
    if waiting is not None:
        seen = zip(last_obs, waiting.columns.obs, strict=True)
        last_obs = tuple(x.index_copy(0, waiting.slots, was) for x, was in seen)
        if last_mask is not None and waiting.columns.mask is not None:
            last_mask = last_mask.index_copy(0, waiting.slots, waiting.columns.mask)
    return Rollout(
        obs=decisions.obs,
        sample=decisions.sample,
        log_prob=decisions.log_prob,
        action_mask=decisions.mask,
        recurrent_state=decisions.state,
        reward=outcomes.reward,
        group_reward=outcomes.group_reward,
        terminated=outcomes.terminated,
        truncated=outcomes.truncated,
        lengths=lengths,
        last_obs=last_obs,
        last_mask=last_mask,
        final_rows=final[0],
        final_obs=final[1],
        area=step.area,
        team=step.team,
        group=step.group,
        group_ticks=None if decisions.tick is None else _group_ticks(decisions, outcomes, step, now, waiting),
    )


def _group_ticks(
    decisions: DecisionColumns, outcomes: OutcomeColumns, step: TimeStep, now: int, waiting: OpenDecisions | None
) -> GroupTicks:
    assert decisions.tick is not None
    assert decisions.group is not None
    assert outcomes.tick is not None
    sample = decisions.sample
    none = step.group[:0]
    ticks = GroupTicks(
        made=decisions.tick,
        until=outcomes.tick,
        group=decisions.group,
        last_made=torch.full_like(step.group, now),
        last_group=step.group,
        last_here=step.acting,
        last_decided=torch.zeros_like(step.acting),
        last_sample=Action(*(x.new_zeros(x.shape[1:]) for x in (sample.continuous, sample.discrete))),
        last_recurrent_state=decisions.state.new_zeros(decisions.state.shape[1:]),
        earlier=Earned(none, none, step.reward[:0]),
    )
    return ticks if waiting is None else _with_waiting(ticks, waiting)


def _with_waiting(ticks: GroupTicks, waiting: OpenDecisions) -> GroupTicks:
    """Returns the ticks with the decisions that wait in place of what their slots see now."""
    was = waiting.columns
    assert was.tick is not None
    assert was.group is not None

    def put(column: Tensor, values: Tensor) -> Tensor:
        return column.index_copy(0, waiting.slots, values)

    here = torch.ones_like(waiting.slots, dtype=torch.bool)
    return replace(
        ticks,
        last_made=put(ticks.last_made, was.tick),
        last_group=put(ticks.last_group, was.group),
        last_here=put(ticks.last_here, here),
        last_decided=put(ticks.last_decided, here),
        last_sample=Action(
            put(ticks.last_sample.continuous, was.sample.continuous),
            put(ticks.last_sample.discrete, was.sample.discrete),
        ),
        last_recurrent_state=put(ticks.last_recurrent_state, was.state),
        earlier=waiting.earlier or ticks.earlier,
    )


def earned_since(
    decisions: DecisionColumns, outcomes: OutcomeColumns, lengths: Tensor, waiting: OpenDecisions
) -> Earned | None:
    """Returns what agents of groups earned since the first waiting decision; None without group ticks."""
    group, until, made = decisions.group, outcomes.tick, waiting.columns.tick
    if group is None or until is None or made is None:
        return None
    rows = ((torch.arange(len(until), device=until.device).unsqueeze(1) < lengths) & (group >= 0)).flatten()
    earned = Earned(group.flatten()[rows], until.flatten()[rows], outcomes.reward.flatten()[rows])
    if waiting.earlier is not None:
        earned = waiting.earlier.followed_by(earned)
    return earned.after(int(made.min()) if len(made) else 1 << 62)
