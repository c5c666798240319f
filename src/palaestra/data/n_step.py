"""N-step transitions for trainers that learn action values: cut from rollouts, and kept in a replay.

Each is stored whole, with both of its observations, which is simple and takes twice the memory of `data.replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Rollout


@dataclass(frozen=True, slots=True)
class NStep:
    """N discrete decisions, what the next few earned, and the observation at which the rest is bootstrapped."""

    obs: tuple[Tensor, ...]  # each (N, *shape)
    choices: Tensor  # (N, branches) int64
    reward: Tensor  # (N,) discounted sum over the steps
    discount: Tensor  # (N,) of what `next_obs` is worth; 0 where the episode terminated within the steps
    next_obs: tuple[Tensor, ...]  # each (N, *shape)
    next_mask: Tensor | None  # (N, choices) bool: what was allowed there; None: all
    """Choices allowed at that observation; after a truncated episode, which has no mask there, those of its last
    decision.
    """


def n_step(rollout: Rollout, reward: Tensor, *, gamma: float, steps: int) -> NStep:
    """Returns the completed decisions of a rollout, in T * S order. `reward` (T, S).

    Sums end with the episode, and with the rollout: those of its last decisions are of fewer steps. Sutton and Barto
    2018, eq. 7.1.
    """
    time, slots = rollout.shape
    device = reward.device
    slot = torch.arange(slots, device=reward.device)
    rows = torch.arange(time * slots, device=device)
    last = slot + (time - 1 if rollout.lengths is None else (rollout.lengths - 1).clamp(min=0)) * slots
    ended = (rollout.terminated | rollout.truncated).flatten()
    closed = ended.index_fill(0, last, True)  # the slot's next row is not what came of it
    final = (time + 1) * slots + torch.arange(len(rollout.final_rows), device=device)
    following = (rows + slots).index_copy(0, last, time * slots + slot).index_copy(0, rollout.final_rows, final)
    if rollout.lengths is not None:
        rows = rows[rows // slots < rollout.lengths.repeat(time)]
    earned = reward.flatten()
    at = rows
    total = earned[rows]
    discount = torch.full((len(rows),), gamma, device=device)
    going = torch.ones(len(rows), dtype=torch.bool, device=device)
    for _ in range(steps - 1):
        going = going & ~closed[at]
        at = torch.where(going, at + slots, at)
        total = torch.where(going, total + discount * earned[at], total)
        discount = torch.where(going, discount * gamma, discount)
    all_obs = [
        torch.cat([obs.flatten(0, 1), *more])
        for obs, *more in zip(rollout.obs, rollout.last_obs, rollout.final_obs, strict=True)
    ]
    masks = None
    if rollout.action_mask is not None and rollout.last_mask is not None:
        seen = rollout.action_mask.flatten(0, 1)
        masks = torch.cat([seen, rollout.last_mask, seen[rollout.final_rows]])[following[at]]
    return NStep(
        obs=tuple(x[rows] for x in all_obs),
        choices=rollout.sample.discrete.flatten(0, 1)[rows],
        reward=total,
        discount=discount * ~rollout.terminated.flatten()[at],
        next_obs=tuple(x[following[at]] for x in all_obs),
        next_mask=masks,
    )


class NStepReplay:
    """Holds the last `size` transitions."""

    def __init__(self, spec: BehaviorSpec, size: int, device: torch.device) -> None:
        self.size = size
        self.seen = 0
        """`seen`: how many were ever added."""
        obs = [torch.zeros(size, *each.shape, device=device) for each in spec.obs]
        choices = torch.zeros(size, len(spec.action.branches), dtype=torch.int64, device=device)
        allowed = torch.ones(size, spec.action.choices, dtype=torch.bool, device=device)
        numbers = torch.zeros(2, size, device=device)
        self._columns = [*obs, *(torch.zeros_like(x) for x in obs), choices, allowed, *numbers]

    def __len__(self) -> int:
        return min(self.seen, self.size)

    def add(self, new: NStep) -> None:
        """Adds transitions in place of the oldest."""
        count = len(new.reward)
        rows = torch.arange(self.seen, self.seen + count, device=new.reward.device)[-self.size :] % self.size
        allowed = torch.ones_like(self._columns[-3][:1]).expand(count, -1) if new.next_mask is None else new.next_mask
        for column, values in zip(
            self._columns, [*new.obs, *new.next_obs, new.choices, allowed, new.reward, new.discount], strict=True
        ):
            column.index_copy_(0, rows, values[-self.size :])
        self.seen += count

    def draw(self, count: int, generator: torch.Generator) -> NStep:
        """Draws `count` transitions with equal probability, with replacement."""
        rows = torch.randint(len(self), (count,), generator=generator, device=generator.device)
        *obs, choices, allowed, reward, discount = (column.index_select(0, rows) for column in self._columns)
        kinds = len(obs) // 2
        return NStep(tuple(obs[:kinds]), choices, reward, discount, tuple(obs[kinds:]), allowed)

    def state_dict(self) -> dict[str, Any]:
        """Returns all transitions."""
        return {"seen": self.seen, "columns": [column[: len(self)] for column in self._columns]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state. Raises ValueError where it does not fit."""
        if len(state["columns"][-1]) != min(state["seen"], self.size):
            raise ValueError(f"the replay was saved with another size than {self.size}: set buffer_size to what it was")
        self.seen = state["seen"]
        for column, saved in zip(self._columns, state["columns"], strict=True):
            column[: len(self)] = saved
