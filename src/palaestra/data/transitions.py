"""Experience as transitions: an observation, an action, a reward and the observation that followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.data.rollout import Rollout


@dataclass(frozen=True, slots=True)
class Transitions:
    """N transitions, in any order."""

    obs: tuple[Tensor, ...]  # each (N, *shape)
    action: Action  # as the environment got it: (N, continuous) within -1..1, (N, B)
    next_obs: tuple[Tensor, ...]  # each (N, *shape): where an episode ended the final one (`RolloutNeeds.terminal_obs`)
    reward: Tensor  # (N,) the environment's
    terminated: Tensor  # (N,) bool
    ended: Tensor  # (N,) bool: terminated or truncated

    def __len__(self) -> int:
        return len(self.reward)


class TransitionTable:
    """The completed decisions of a rollout as transitions, without a second copy of the observations."""

    def __init__(self, rollout: Rollout, action: Action, reward: Tensor) -> None:
        """`action` (T, S, ...) as the environment got it, `reward` (T, S)."""
        self._obs, following = observation_table(rollout)
        rows = rollout.completed_rows
        self.rows = torch.arange(reward.numel(), device=reward.device) if rows is None else rows
        """Rows of the decisions, counted in T * S, (N,) rising."""
        self._following = following[self.rows]

        def column(values: Tensor) -> Tensor:
            return values.flatten(0, 1)[self.rows]

        self._action = action.each(column)
        self._reward = column(reward)
        self._terminated = column(rollout.terminated)
        self._ended = column(rollout.terminated | rollout.truncated)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> Transitions:
        """Returns the transitions of these rows (R,), counted among the completed decisions."""
        here = self.rows.index_select(0, rows)
        there = self._following.index_select(0, rows)
        return Transitions(
            obs=tuple(x.index_select(0, here) for x in self._obs),
            action=self._action.take(rows),
            next_obs=tuple(x.index_select(0, there) for x in self._obs),
            reward=self._reward.index_select(0, rows),
            terminated=self._terminated.index_select(0, rows),
            ended=self._ended.index_select(0, rows),
        )

    def parts(self, size: int) -> Iterator[Transitions]:
        """Yields all transitions in order, `size` at a time."""
        for rows in torch.arange(len(self), device=self.rows.device).split(size):
            yield self.take(rows)


def observation_table(rollout: Rollout) -> tuple[tuple[Tensor, ...], Tensor]:
    """Returns all observations of a rollout, and the row of each decision's next observation, (T * S,).

    Rows of observations: first before decisions (T * S), then `last_obs` (S), then `final_obs` (E).
    """
    time, slots = rollout.shape
    device = rollout.reward.device
    extra = (rollout.last_obs, rollout.final_obs)
    obs = tuple(torch.cat([obs.flatten(0, 1), *rest]) for obs, *rest in zip(rollout.obs, *extra, strict=True))
    of_slot = torch.arange(slots, device=device)
    following = torch.arange(slots, (time + 1) * slots, device=device)  # after the last tick rows of `last_obs`
    if rollout.lengths is not None:
        following.index_copy_(0, (rollout.lengths - 1).clamp(min=0) * slots + of_slot, time * slots + of_slot)
    final = (time + 1) * slots + torch.arange(len(rollout.final_rows), device=device)
    return obs, following.index_copy_(0, rollout.final_rows, final)
