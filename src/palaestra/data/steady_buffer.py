"""The buffer of behaviors whose slots all act on every tick, and the columns in which buffers keep decisions.

A column is (S, ...) on a tick and (T, S, ...) in a buffer. Columns that a behavior does not have are None, and cost
nothing on a tick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.data.group_ticks import GroupDecisions, GroupTicks
from palaestra.data.rollout import Rollout, RolloutNeeds

PLAIN = RolloutNeeds()


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
        """Returns the actions as sampled; of width 0 if the behavior has none."""
        return Action(self._or_none(self.continuous), self._or_none(self.discrete))

    @property
    def state(self) -> Tensor:
        """Returns the recurrent state before the decision; of width 0 without memory."""
        return self._or_none(self.recurrent_state)

    def _or_none(self, column: Tensor | None) -> Tensor:
        return self.log_prob[..., :0] if column is None else column

    @property
    def of_groups(self) -> GroupDecisions:
        """Returns the decisions with their ticks, if group ticks are kept."""
        assert self.tick is not None
        assert self.group is not None
        return GroupDecisions(self.tick, self.group, self.sample, self.state)


class OutcomeColumns(NamedTuple):
    """Columns that are filled once a slot acts again or its episode ends."""

    reward: Tensor
    group_reward: Tensor
    terminated: Tensor
    truncated: Tensor
    tick: Tensor | None  # int64: where group ticks are kept
    final_obs: tuple[Tensor, ...] | None = None  # of every slot: on an accelerator (`SteadyBuffer`)

    def kept_ends(self, needs: RolloutNeeds) -> Tensor:
        """Returns the episodes whose final observations are kept, (T, S) bool."""
        return self.terminated | self.truncated if needs.terminal_obs else self.truncated


Columns = TypeVar("Columns", DecisionColumns, OutcomeColumns)
FinalRows = tuple[Tensor, tuple[Tensor, ...]]
"""Rows in T * S, (E,), of decisions that ended an episode, and the final observations after these decisions, each (E,
*shape)."""


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
    """Returns the outcome of decisions by this tick."""
    until = torch.full_like(step.group, tick) if needs.group_ticks else None
    return OutcomeColumns(step.reward, step.group_reward, step.terminated, step.truncated, until)


def tensors(columns: DecisionColumns | OutcomeColumns) -> list[Tensor]:
    """Returns all present columns, in order."""
    found: list[Tensor] = []
    for x in columns:
        if isinstance(x, tuple):
            found += x
        elif x is not None:
            found.append(x)
    return found


def each(columns: Columns, function: Callable[[Tensor], Tensor]) -> Columns:
    """Applies a function to every column."""
    return columns._make(
        x if x is None else tuple(map(function, x)) if isinstance(x, tuple) else function(x) for x in columns
    )


def column(value: Tensor, ticks: int) -> Tensor:
    """Returns an empty column (ticks, S, ...) for values like this one."""
    return torch.zeros((ticks, *value.shape), dtype=value.dtype, device=value.device)


def column_state(columns: DecisionColumns | OutcomeColumns) -> dict[str, Any]:
    """Returns all present columns, by name."""
    return {name: list(x) if isinstance(x, tuple) else x for name, x in columns._asdict().items() if x is not None}


def saved_columns(like: Columns, state: Mapping[str, Any]) -> Columns:
    """Returns the columns of a saved state. Raises ValueError if its columns differ from `like`."""
    if state.keys() != column_state(like).keys():
        raise ValueError(f"a rollout was saved with {', '.join(state)}; expected {', '.join(column_state(like))}")
    return like._replace(**{name: tuple(x) if isinstance(x, list) else x for name, x in state.items()})


def make_rollout(
    decisions: DecisionColumns,
    outcomes: OutcomeColumns,
    final: FinalRows,
    step: TimeStep,
    now: int,
    *,
    lengths: Tensor | None = None,
    anew: Tensor | None = None,
) -> Rollout:
    """Returns a rollout. `step` arrived on tick `now`, after the last decision; `lengths`, `anew`: see `Rollout`."""
    ticks = None if outcomes.tick is None else GroupTicks.of(decisions.of_groups, outcomes.tick, step, now)
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
        last_obs=step.obs,
        last_mask=step.action_mask,
        final_rows=final[0],
        final_obs=final[1],
        area=step.area,
        team=step.team,
        group=step.group,
        group_ticks=ticks,
        anew=anew,
    )


class FinalObsList:
    """Final observations of episodes, kept one by one: their number is known at no cost on the CPU."""

    def __init__(self, terminal_obs: bool = False) -> None:
        """`terminal_obs`: include terminated episodes, not only truncated ones."""
        self.terminal_obs = terminal_obs
        self._rows: list[Tensor] = []
        self._obs: list[tuple[Tensor, ...]] = []

    def add(self, rows: Tensor, step: TimeStep, completed: Tensor | None = None) -> None:
        """Adds the final observations of this tick. `rows` (S,): index of each slot's decision in T * S; `completed`
        (S,): slots whose decision is complete."""
        slots = step.final_obs.slots
        kept = step.truncated | step.terminated if self.terminal_obs else step.truncated
        chosen = kept[slots] if completed is None else (kept & completed)[slots]
        if not chosen.any():
            return
        self._rows.append(rows[slots[chosen]])
        self._obs.append(tuple(obs[chosen] for obs in step.final_obs.obs))

    def take(self, like: tuple[Tensor, ...]) -> FinalRows:
        """Returns all final observations, with the shapes of `like`, and forgets them."""
        rows = torch.cat([torch.empty(0, dtype=torch.int64, device=like[0].device), *self._rows])
        obs = tuple(torch.cat([x[:0], *(obs[i] for obs in self._obs)]) for i, x in enumerate(like))
        self._rows = []
        self._obs = []
        return rows, obs

    def widen(self, slots: int, more: int) -> None:
        """Recomputes the row numbers for a rollout of `more` slots, which had `slots`."""
        self._rows = [torch.div(rows, slots, rounding_mode="floor") * more + rows % slots for rows in self._rows]

    def state_dict(self) -> dict[str, Any]:
        """Returns what is kept."""
        return {"rows": list(self._rows), "obs": [list(obs) for obs in self._obs]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what was kept."""
        self._rows = list(state["rows"])
        self._obs = [tuple(obs) for obs in state["obs"]]


def is_accelerator(device: torch.device) -> bool:
    """Whether reading a tensor's values waits for the device."""
    return device.type != "cpu"


class SteadyBuffer:
    """Buffer for behaviors whose slots all act on every tick: a row is one tick, written whole.

    On the CPU final observations are kept one by one. On an accelerator nothing waits to learn which episodes ended:
    the final observations of all slots are a column, a second copy of the observations, from which a rollout takes
    the rows of ended episodes. `decisions` counts decisions that were completed since the last `take`.
    """

    def __init__(self, step: TimeStep, decision: Decision, ticks: int, needs: RolloutNeeds = PLAIN) -> None:
        """`step` and `decision` show the columns' shapes, types and device."""
        self.decisions = 0
        self.tick = 0
        self.agents = len(step.reward)
        """Number of agents, S, as every slot decides."""
        self._anew = True  # no open episode of an earlier buffer goes on in this one
        self._needs = needs
        self._slots = torch.arange(self.agents, device=step.reward.device)
        self._final_obs = FinalObsList(needs.terminal_obs)
        self._on_accelerator = is_accelerator(step.reward.device)
        self._make_columns(decision_columns(step, decision, 0, needs), self._outcome(step), ticks)

    def _make_columns(self, decisions: DecisionColumns, outcomes: OutcomeColumns, ticks: int) -> None:
        """Makes columns with this number of rows, like the columns of one tick."""
        self._decisions = each(decisions, lambda x: column(x, ticks))
        self._outcomes = each(outcomes, lambda x: column(x, ticks))
        # views of each row made once: making one costs as much as filling it
        self._decision_rows = list(zip(*(x.unbind() for x in tensors(self._decisions)), strict=True))
        self._outcome_rows = list(zip(*(x.unbind() for x in tensors(self._outcomes)), strict=True))

    def _outcome(self, step: TimeStep) -> OutcomeColumns:
        columns = outcome_columns(step, self.tick + 1, self._needs)
        if not self._on_accelerator:
            return columns
        final = step.final_obs
        return columns._replace(final_obs=final.obs if len(final.slots) else step.obs)  # of no slot: nothing ended

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Stores this tick's decisions, of all slots, as the next row."""
        if self.tick == len(self._decision_rows):  # another rank's rollout is not full yet
            self._make_room(2 * self.tick)
        decisions = decision_columns(step, decision, self.tick, self._needs)
        for row, value in zip(self._decision_rows[self.tick], tensors(decisions), strict=True):
            row.copy_(value)

    def _make_room(self, ticks: int) -> None:
        """Makes columns with this number of rows, which begin with the present rows."""
        before = tensors(self._decisions) + tensors(self._outcomes)
        self._make_columns(each(self._decisions, lambda x: x[0]), each(self._outcomes, lambda x: x[0]), ticks)
        for x, value in zip(tensors(self._decisions) + tensors(self._outcomes), before, strict=True):
            x[: len(value)].copy_(value)

    def complete(self, step: TimeStep) -> int:
        """Completes row `tick` and moves to the next row. Raises EnvError if an episode was lost: a steady behavior's
        slots act on every tick."""
        if step.lost is not None:
            raise EnvError(
                "a steady behavior came with a column `lost`; expected None: its slots act on every tick, so none of "
                "its episodes breaks off (set `steady=False` in its spec if episodes may break off)"
            )
        for row, value in zip(self._outcome_rows[self.tick], tensors(self._outcome(step)), strict=True):
            row.copy_(value)
        if len(step.final_obs.slots) and not self._on_accelerator:
            self._final_obs.add(self._slots + self.tick * self.agents, step)
        self.tick += 1
        self.decisions += self.agents
        return self.agents

    def take(self, step: TimeStep) -> Rollout:
        """Returns the rollout, cut after the last tick."""
        decisions, outcomes = self._written()
        if outcomes.final_obs is None:
            final = self._final_obs.take(step.obs)
        else:
            rows = outcomes.kept_ends(self._needs).flatten().nonzero().squeeze(1)
            final = rows, tuple(x.flatten(0, 1)[rows] for x in outcomes.final_obs)
        anew = torch.ones_like(step.acting) if self._anew else None
        rollout = make_rollout(decisions, outcomes, final, step, self.tick, anew=anew)
        self.tick = 0
        self.decisions = 0
        self._anew = False
        return rollout

    def _written(self) -> tuple[DecisionColumns, OutcomeColumns]:
        """Returns the rows written up to now."""
        return each(self._decisions, lambda x: x[: self.tick]), each(self._outcomes, lambda x: x[: self.tick])

    def state_dict(self) -> dict[str, Any]:
        """Returns the rows written up to now."""
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
        self.decisions = self.tick * self.agents
        self._anew = state["anew"]
        if self.tick >= len(self._outcomes.reward):  # rollouts are shorter now: the next tick fills this one
            self._make_room(self.tick + 1)
        saved = tensors(decisions) + tensors(outcomes)
        for x, value in zip(tensors(self._decisions) + tensors(self._outcomes), saved, strict=True):
            x[: self.tick].copy_(value)
        self._final_obs.load_state_dict(state["final_obs"])
