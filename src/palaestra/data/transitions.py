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
    action: Action  # as the environment got it: (N, continuous) within -1..1, (N, branches)
    next_obs: tuple[
        Tensor, ...
    ]  # each (N, *shape): the final observation where an episode ended, if kept (`RolloutNeeds.terminal_obs`)
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
        self._obs = tuple(torch.cat([obs.flatten(0, 1), *rest]) for obs, *rest in zip(rollout.obs, *extra, strict=True))
        rows = torch.arange(time * slots, device=device)
        of_slot = torch.arange(slots, device=device)
        following = rows + slots  # the rows of what followed the last tick are those of `last_obs`
        if rollout.lengths is not None:
            last = (rollout.lengths - 1).clamp(min=0) * slots + of_slot
            following.index_copy_(0, last, time * slots + of_slot)
        following.index_copy_(
            0, rollout.final_rows, (time + 1) * slots + torch.arange(len(rollout.final_rows), device=device)
        )
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
        """Returns the transitions of these rows (R,), counted among the completed decisions."""
        continuous, discrete, reward, terminated, ended = (column.index_select(0, rows) for column in self._columns)
        here = self.rows.index_select(0, rows)
        there = self._following.index_select(0, rows)
        obs, next_obs = (tuple(x.index_select(0, at) for x in self._obs) for at in (here, there))
        return Transitions(obs, Action(continuous, discrete), next_obs, reward, terminated, ended)

    def parts(self, size: int) -> Iterator[Transitions]:
        """Yields all transitions in order, `size` at a time."""
        for rows in torch.arange(len(self), device=self.rows.device).split(size):
            yield self.take(rows)
