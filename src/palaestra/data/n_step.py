"""N-step transitions for trainers that learn action values: cut from rollouts, and kept in a replay.

Each decision is stored with both of its observations, which is simple but takes twice the memory of `data.replay`; the
latter finds later decisions when a decision is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.replay_index import NONE, Ints, ReplayIndex
from palaestra.data.rollout import Rollout
from palaestra.data.transitions import observation_table


@dataclass(frozen=True, slots=True)
class NStep:
    """N discrete decisions, the next few rewards, and the observation from which the return is bootstrapped."""

    obs: tuple[Tensor, ...]  # each (N, *shape)
    choices: Tensor  # (N, B) int64
    reward: Tensor  # (N,) discounted sum over the steps
    discount: Tensor  # (N,) of what `next_obs` is worth; 0 where the episode terminated within the steps
    next_obs: tuple[Tensor, ...]  # each (N, *shape)
    next_mask: Tensor | None  # (N, choices) bool: what was allowed there; None: all
    """Choices allowed at the observation `after`; after a truncated episode, the choices of its last decision."""

    def columns(self) -> list[Tensor]:
        """Returns all columns that are there."""
        rest = (self.choices, self.reward, self.discount, self.next_mask)
        return [*self.obs, *self.next_obs, *(column for column in rest if column is not None)]

    def take(self, rows: Tensor) -> NStep:
        """Returns the transitions of these rows, (n,)."""
        obs, next_obs = (tuple(x.index_select(0, rows) for x in views) for views in (self.obs, self.next_obs))
        choices, reward, discount = (x.index_select(0, rows) for x in (self.choices, self.reward, self.discount))
        mask = None if self.next_mask is None else self.next_mask.index_select(0, rows)
        return NStep(obs, choices, reward, discount, next_obs, mask)


def n_step(rollout: Rollout, reward: Tensor, *, gamma: float, steps: int) -> NStep:
    """Returns the completed decisions of a rollout, in T * S order. `reward` (T, S).

    Sums end with the episode, and with the rollout: sums of its last decisions have fewer steps. Sutton and Barto
    2018, eq. 7.1.
    """
    time, slots = rollout.shape
    device = reward.device
    slot = torch.arange(slots, device=device)
    last = slot + (time - 1 if rollout.lengths is None else (rollout.lengths - 1).clamp(min=0)) * slots
    ended = (rollout.terminated | rollout.truncated).flatten()
    closed = ended.index_fill(0, last, True)  # the slot's next row is not what came of it
    rows = rollout.completed_rows
    rows = torch.arange(time * slots, device=device) if rows is None else rows
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
    all_obs, following = observation_table(rollout)
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


class Ahead(NamedTuple):
    """Number of decisions whose rewards are summed before the rest is bootstrapped, and the discount."""

    steps: int
    gamma: float


ONE_STEP = Ahead(1, 1.0)


def discounted_sum(earned: Tensor, steps: Tensor, gamma: float) -> Tensor:
    """Returns the discounted sum of the rewards, (N,), of each row's first `steps` (N,) decisions in `earned` (n, N):
    Sutton and Barto, eq. 7.1."""
    time = torch.arange(len(earned), device=earned.device).unsqueeze(1)
    return (earned * gamma**time * (time < steps)).sum(0)


def decisions_ahead(index: ReplayIndex, places: Ints, steps: int) -> tuple[Ints, Ints]:
    """Returns the rows, (steps, N), of each decision and of the `steps` - 1 decisions after it in its episode, and how
    many of these there are, (N,). Where the episode has fewer, its last row is repeated."""
    grid = np.empty((steps, len(places)), np.int64)
    grid[0] = places
    count = np.ones(len(places), np.int64)
    for t in range(1, steps):
        number = index.following[grid[t - 1]]
        goes_on = (number != NONE) & (count == t)
        grid[t] = np.where(goes_on, number % index.size, grid[t - 1])
        count += goes_on
    return grid, count


def largest_return(index: ReplayIndex, reward: NDArray[np.float32], gamma: float) -> float:
    """Returns the largest absolute discounted return within an episode; `reward` (size,) is indexed by position."""
    places = np.arange(index.oldest, index.end) % index.size
    after = index.following[places]
    begins = np.ones(index.size, np.bool_)
    begins[after[after != NONE] % index.size] = False
    at = places[begins[places]]
    earned = reward[at]
    largest = 0.0
    while len(at):
        largest = max(largest, float(np.abs(earned).max()))
        after = index.following[at]
        at = after[after != NONE] % index.size
        earned = reward[at] + gamma * earned[after != NONE]
    return largest


class NStepReplay:
    """Holds the last `size` transitions."""

    def __init__(self, spec: BehaviorSpec, size: int, device: torch.device) -> None:
        self.size = size
        self.seen = 0
        """`seen`: how many were ever added."""
        self._choices = spec.action.choices

        def views() -> tuple[Tensor, ...]:
            return tuple(torch.zeros(size, *each.shape, device=device) for each in spec.obs)

        self._stored = NStep(
            obs=views(),
            choices=torch.zeros(size, len(spec.action.branches), dtype=torch.int64, device=device),
            reward=torch.zeros(size, device=device),
            discount=torch.zeros(size, device=device),
            next_obs=views(),
            next_mask=torch.ones(size, spec.action.choices, dtype=torch.bool, device=device),
        )

    def __len__(self) -> int:
        return min(self.seen, self.size)

    def add(self, new: NStep) -> None:
        """Adds transitions in place of the oldest."""
        count = len(new.reward)
        rows = torch.arange(self.seen, self.seen + count, device=new.reward.device)[-self.size :] % self.size
        if new.next_mask is None:
            new = replace(new, next_mask=torch.ones(count, self._choices, dtype=torch.bool, device=rows.device))
        for column, values in zip(self._stored.columns(), new.columns(), strict=True):
            column.index_copy_(0, rows, values[-self.size :])
        self.seen += count

    def draw(self, count: int, generator: torch.Generator) -> NStep:
        """Draws `count` transitions with equal probability, with replacement."""
        return self._stored.take(torch.randint(len(self), (count,), generator=generator, device=generator.device))

    def state_dict(self) -> dict[str, Any]:
        """Returns the stored transitions and how many were ever added, for a checkpoint."""
        return {"seen": self.seen, "columns": [column[: len(self)] for column in self._stored.columns()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state. Raises ValueError if the state does not fit."""
        if len(state["columns"][-1]) != min(state["seen"], self.size):
            raise ValueError(
                f"the replay was saved with another size than {self.size}: set buffer_size to the old value"
            )
        self.seen = state["seen"]
        for column, saved in zip(self._stored.columns(), state["columns"], strict=True):
            column[: len(self)] = saved
