"""Replay of one behavior's past decisions, from which a trainer draws at random.

Observations are in one table, images as bytes if possible; actions and rewards in a table of decisions. A
decision's next observation is the observation of its slot's next decision, so each is stored once (see `replay_index`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.device_copies import to_device
from palaestra.data.n_step import ONE_STEP, Ahead, decisions_ahead, discounted_sum, largest_return
from palaestra.data.replay_index import NONE, ReplayIndex
from palaestra.data.rollout import Rollout
from palaestra.data.transitions import Transitions

SPARE, LEAST_SPARE = 8, 1024
"""Spare rows for final observations and waiting slots: one for SPARE decisions, LEAST_SPARE at least."""
WHITE = 255.0
COLORS = 3
ROUNDING = 1e-3
"""How far beyond 0..1 an image may go and still be stored as bytes."""

Slots = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ReplayBatch:
    """N decisions drawn from a replay, and U observations: the ones at these decisions and the ones that followed them.

    If decisions were drawn one by one, `now` is the first N observations, `after` the other N.
    """

    obs: tuple[Tensor, ...]  # each (U, *shape)
    masks: Tensor | None  # (U, choices) bool
    now: slice | Tensor  # which observations the decisions were made at, (N,)
    after: slice | Tensor  # and which they led to, (N,)
    sequences: Sequences | None
    """Sequences of observations that follow one another; None: decisions were drawn one by one."""
    action: Action  # as the environment got it: (N, continuous), (N, B)
    reward: Tensor  # (N,)
    terminated: Tensor  # (N,) bool
    ended: Tensor  # (N,) bool
    steps: Tensor | None = None
    """(N,) number of decisions whose discounted rewards `reward` sums, until `after`; None: one."""

    def transitions(self) -> Transitions:
        """Returns the batch in the form for reward signals."""
        obs, next_obs = (tuple(x[at] for x in self.obs) for at in (self.now, self.after))
        return Transitions(obs, self.action, next_obs, self.reward, self.terminated, self.ended)


class DecisionTable(NamedTuple):
    """Stored columns of decisions, (size, ...); of a rollout (T, S, ...)."""

    continuous: Tensor  # as the environment got it
    discrete: Tensor  # int32
    reward: Tensor
    terminated: Tensor  # bool
    ended: Tensor  # bool
    recurrent_state: Tensor  # before the decision


def decisions_of(rollout: Rollout, action: Action, reward: Tensor) -> DecisionTable:
    """Returns a rollout's decisions in stored form; `action` as the environment received it."""
    return DecisionTable(
        action.continuous,
        action.discrete.to(torch.int32),
        reward,
        rollout.terminated,
        rollout.terminated | rollout.truncated,
        rollout.recurrent_state,
    )


class Replay:
    """Holds the last `size` decisions, or a few less if many episodes end. The first rollout that is added creates the
    tables."""

    def __init__(
        self, spec: BehaviorSpec, size: int, device: torch.device, *, memory: int = 0, stretch: int = 0
    ) -> None:
        """`memory`: numbers of recurrent state; `stretch`: decisions of a sequence, 0: drawn one by one."""
        self.spec = spec
        self.size = size
        self.device = device
        self.memory = memory
        self.as_bytes = [obs.is_visual for obs in spec.obs]
        """Whether each observation is stored as bytes: images are, until one has a number beyond 0..1."""
        self._obs: list[Tensor] = []
        self._masks: Tensor | None = None
        self._decisions: DecisionTable  # made with the first rollout, as all tables are
        self.rows = size + max(size // SPARE, LEAST_SPARE)
        self._stretch = stretch
        self._index = None

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    @property
    def bytes_needed(self) -> int:
        """Size of all tables in bytes, known before they are made; assumes that images have numbers within 0..1."""
        sizes = [
            math.prod(obs.shape) * (1 if as_bytes else 4)
            for obs, as_bytes in zip(self.spec.obs, self.as_bytes, strict=True)
        ]
        observation = self.spec.action.choices + sum(sizes)
        action = self.spec.action
        decision = 4 * (action.continuous + len(action.branches) + 1 + self.memory) + 2
        on_host = 4 + 4 + 8 + 1 + 1 + 8
        return self.rows * (observation + 4) + self.size * (decision + on_host)

    @torch.no_grad()
    def add(self, rollout: Rollout, action: Action, reward: Tensor) -> None:
        """Adds all decisions of a rollout. `action` (T, S, ...) as the environment got it, `reward` (T, S).

        Waits for an accelerator once, with images twice. Raises ConfigError if the replay cannot hold so many agents.
        """
        time, slots = rollout.shape
        self._widen(rollout)
        if self._index is None:
            self._index = self._make(rollout)
        index = self._index
        index.resize(slots)
        if rollout.anew is not None:
            index.part(np.flatnonzero(rollout.anew.cpu().numpy()))
        joins, ended, lengths = self._on_host(rollout, index)
        final_rows = np.full(time * slots, NONE, np.int64)
        if rollout.final_rows.shape[0]:
            final_rows[rollout.final_rows.cpu().numpy()] = np.arange(len(rollout.final_rows))
        decisions = decisions_of(rollout, action, reward)
        for t in range(time):
            acted = np.flatnonzero(lengths > t)
            if t == 0:
                self._continue(rollout, index, acted, joins)
            final = final_rows[t * slots + acted]
            places, seen, kept = index.decide(acted, ended[t, acted], final != NONE)
            self._put(self._decisions, places, [column[t] for column in decisions], acted)
            self._see(kept, rollout.final_obs, None, final[final != NONE])
            goes_on = lengths[acted] > t + 1
            if goes_on.any():
                mask = None if rollout.action_mask is None else rollout.action_mask[t + 1]
                self._see(seen[goes_on], tuple(obs[t + 1] for obs in rollout.obs), mask, acted[goes_on])
            if not goes_on.all():
                self._see(seen[~goes_on], rollout.last_obs, rollout.last_mask, acted[~goes_on])

    def _widen(self, rollout: Rollout) -> None:
        """Stores images with numbers that bytes cannot hold as float32 from now on."""
        images = [i for i, as_bytes in enumerate(self.as_bytes) if as_bytes]
        if not images:
            return
        here = (
            None
            if rollout.lengths is None
            else torch.arange(len(rollout.reward), device=self.device).unsqueeze(1) < rollout.lengths
        )
        fits = []
        for i in images:
            seen = rollout.obs[i] if here is None else rollout.obs[i][here]
            fits += [torch.stack([in_range(x) for x in (seen, rollout.last_obs[i], rollout.final_obs[i])]).all()]
        for i, fit in zip(images, torch.stack(fits).tolist(), strict=True):
            if not fit:
                self.as_bytes[i] = False
                if self._index is not None:
                    self._obs[i] = decoded(self._obs[i])

    def _make(self, rollout: Rollout) -> ReplayIndex:
        """Makes all tables, empty."""

        def table(rows: int, like: Tensor, dtype: torch.dtype) -> Tensor:
            return empty_table((rows, *like.shape[2:]), dtype, self.device)

        kinds = [torch.uint8 if as_bytes else torch.float32 for as_bytes in self.as_bytes]
        self._obs = [table(self.rows, obs, kind) for obs, kind in zip(rollout.obs, kinds, strict=True)]
        self._masks = None if rollout.action_mask is None else table(self.rows, rollout.action_mask, torch.bool)
        decisions = decisions_of(rollout, rollout.sample, rollout.reward)
        self._decisions = DecisionTable(*(table(self.size, column, column.dtype) for column in decisions))
        return ReplayIndex(self.size, self.rows, self._stretch)

    def _on_host(self, rollout: Rollout, index: ReplayIndex) -> tuple[NDArray[np.int8], NDArray[np.bool_], Slots]:
        """Returns how each slot continues (S,), which decisions ended an episode (T, S), and the decisions of each slot
        (S,).

        2: the same episode; 1: the same observation, but a new episode begins; 0: it continues elsewhere, as after a
        lost episode.
        """
        time, slots = rollout.shape
        rows = to_device(index.waiting.astype(np.int64).clip(0), self.device)
        same = torch.ones(slots, dtype=torch.bool, device=self.device)
        for table, as_bytes, obs in zip(self._obs, self.as_bytes, rollout.obs, strict=True):
            same &= (picked(table, rows) == encoded(obs[0], as_bytes)).flatten(1).all(1)
        if self._masks is not None and rollout.action_mask is not None:
            same &= (self._masks.index_select(0, rows) == rollout.action_mask[0]).all(1)
        # an episode that goes on remembers something
        joins = same.to(torch.int8)
        if self.memory:
            joins = joins * (1 + (rollout.recurrent_state[0] != 0).any(1).to(torch.int8))
        table = torch.cat([joins.unsqueeze(0), (rollout.terminated | rollout.truncated).to(torch.int8)]).cpu().numpy()
        lengths = np.full(slots, time, np.int64) if rollout.lengths is None else rollout.lengths.cpu().numpy()
        if not self.memory:
            table[0] *= 2
        return table[0], table[1:].astype(np.bool_), lengths

    def _continue(self, rollout: Rollout, index: ReplayIndex, acted: Slots, joins: NDArray[np.int8]) -> None:
        """Starts a new stream in each slot whose first decision does not follow its last waiting observation."""
        waits = index.waiting[acted] != NONE
        index.part(acted[waits & (joins[acted] == 0)])
        index.begin(acted[waits & (joins[acted] == 1)])
        new = acted[index.waiting[acted] == NONE]
        if len(new):
            mask = None if rollout.action_mask is None else rollout.action_mask[0]
            self._see(index.welcome(new), tuple(obs[0] for obs in rollout.obs), mask, new)

    def _see(self, rows: NDArray[np.int32], obs: tuple[Tensor, ...], mask: Tensor | None, which: Slots) -> None:
        """Writes observations, each (_, *shape), and their `mask`; without a mask every choice is allowed."""
        if not len(rows):
            return
        self._put(self._obs, rows, list(obs), which, self.as_bytes)
        if self._masks is not None:
            allowed = self._masks.new_ones((len(which), self._masks.shape[1])) if mask is None else mask
            self._put([self._masks], rows, [allowed], which if mask is not None else np.arange(len(which)))

    def _put(
        self,
        tables: Iterable[Tensor],
        rows: NDArray[Any],
        values: Sequence[Tensor],
        which: Slots,
        as_bytes: list[bool] | None = None,
    ) -> None:
        at = to_device(rows.astype(np.int64), self.device)
        whole = np.array_equal(which, np.arange(len(values[0])))
        chosen = None if whole else to_device(which, self.device)
        for i, (table, value) in enumerate(zip(tables, values, strict=True)):
            if table.shape[1:].numel():
                value = value if chosen is None else value.index_select(0, chosen)
                table.index_copy_(0, at, encoded(value, as_bytes is not None and as_bytes[i]))

    def draw(self, count: int, generator: torch.Generator, ahead: Ahead = ONE_STEP) -> ReplayBatch:
        """Draws `count` decisions with equal probability, with replacement; or whole sequences of about `count`
        decisions. `ahead`: how many rewards each decision sums; in sequences each has only its own reward.

        `generator` is on the CPU: the rows are known without waiting for an accelerator.
        """
        index = self._index
        assert index is not None
        if self._stretch:
            return self._draw_sequences(index, count, generator)
        places = (index.oldest + randint(len(index), count, generator)) % index.size
        if ahead.steps > 1:
            return self._draw_ahead(index, places, ahead)
        chosen = np.concatenate([index.obs[places], index.after[places], places])
        rows, places = to_device(chosen, self.device).split([2 * count, count])
        return self._recall(rows, places, slice(0, count), slice(count, 2 * count), None)

    def _draw_ahead(self, index: ReplayIndex, places: Slots, ahead: Ahead) -> ReplayBatch:
        count = len(places)
        grid, steps = decisions_ahead(index, places, ahead.steps)
        chosen = np.concatenate([index.obs[places], index.after[grid[-1]], steps, grid.ravel()])
        rows, steps, grid = to_device(chosen, self.device).split([2 * count, count, grid.size])
        batch = self._recall(rows, grid[:count], slice(0, count), slice(count, 2 * count), None)
        decisions = self._decisions
        earned = decisions.reward.index_select(0, grid).view(ahead.steps, count)
        terminated, ended = (x.index_select(0, grid[-count:]) for x in (decisions.terminated, decisions.ended))
        reward = discounted_sum(earned, steps, ahead.gamma)
        return replace(batch, reward=reward, terminated=terminated, ended=ended, steps=steps)

    def _draw_sequences(self, index: ReplayIndex, count: int, generator: torch.Generator) -> ReplayBatch:
        """Draws sequences, each with one observation more than decisions, so that each decision has its next one."""
        number = max(1, round(count * index.sequences / len(index)))
        numbers = index.sequence_starts(randint(index.sequences, number, generator))
        grid = np.full((self._stretch, number), NONE, np.int64)
        for t in range(self._stretch):
            grid[t] = numbers
            if not (numbers != NONE).any():
                break
            numbers = np.where(numbers == NONE, NONE, index.following[numbers % index.size])
        lengths = (grid != NONE).sum(0)
        steps = int(lengths.max())
        grid = grid[:steps] % index.size * (grid[:steps] != NONE) + NONE * (grid[:steps] == NONE)  # places now
        seen = np.full((steps + 1, number), NONE, np.int64)
        seen[:steps] = np.where(grid != NONE, index.obs[grid], NONE)
        ends = grid[lengths - 1, np.arange(number)]
        seen[lengths, np.arange(number)] = index.after[ends]
        place = np.flatnonzero(seen.ravel() != NONE)
        row_of = np.cumsum(seen.ravel() != NONE).reshape(seen.shape) - 1
        real = grid != NONE
        parts = [seen.ravel()[place], grid[real], row_of[:-1][real], row_of[1:][real], place, grid[0]]
        rows, places, now, after, place, firsts = to_device(np.concatenate(parts), self.device).split(
            [len(part) for part in parts]
        )
        memory = self._decisions.recurrent_state.index_select(0, firsts)
        return self._recall(rows, places, now, after, Sequences(steps + 1, place, memory))

    def _recall(
        self, rows: Tensor, places: Tensor, now: slice | Tensor, after: slice | Tensor, sequences: Sequences | None
    ) -> ReplayBatch:
        obs = tuple(decoded(picked(table, rows)) for table in self._obs)
        masks = None if self._masks is None else self._masks.index_select(0, rows)
        decisions = self._decisions
        discrete = decisions.discrete
        choices = discrete.index_select(0, places).long() if discrete.shape[1] else places.new_empty((len(places), 0))
        action = Action(decisions.continuous.index_select(0, places), choices)
        reward, terminated, ended = (
            column.index_select(0, places) for column in (decisions.reward, decisions.terminated, decisions.ended)
        )
        return ReplayBatch(obs, masks, now, after, sequences, action, reward, terminated, ended)

    def largest_return(self, gamma: float) -> float:
        """Returns the largest absolute discounted return within an episode."""
        return 0.0 if self._index is None else largest_return(self._index, self._decisions.reward.cpu().numpy(), gamma)

    def state_dict(self) -> dict[str, Any]:
        """Returns all written data, without a copy; empty if there is none."""
        index = self._index
        if index is None:
            return {}
        used = min(index.end, self.size)
        return {
            "size": self.size,
            "sequence_length": self._stretch,
            "obs": [table[: index.highest] for table in self._obs],
            "masks": None if self._masks is None else self._masks[: index.highest],
            "decisions": {name: column[:used] for name, column in self._decisions._asdict().items()},
            "index": index.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> bool:
        """Restores a saved state; returns False if the state does not fit.

        The replay stays empty if nothing was saved, or if its size or its sequences differ.
        """
        self._index = None
        if not state:
            return state is not None
        if state["size"] != self.size or state["sequence_length"] != self._stretch:
            return False
        masks = state["masks"]
        self._obs = [table_of(table, self.rows, self.device) for table in state["obs"]]
        self._masks = None if masks is None else table_of(masks, self.rows, self.device)
        self._decisions = DecisionTable(
            **{name: table_of(column, self.size, self.device) for name, column in state["decisions"].items()}
        )
        self.as_bytes = [table.dtype == torch.uint8 for table in self._obs]
        self._index = ReplayIndex(self.size, self.rows, self._stretch)
        self._index.load_state_dict(state["index"])
        return True


def empty_table(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns a new table of rows. Images of many channels are stored pixel by pixel, with all channels of a pixel
    together: the gradients of their convolutions then take a third of the time on a CPU."""
    by_pixels = len(shape) == 4 and shape[1] > COLORS and device.type == "cpu"
    order = torch.channels_last if by_pixels else torch.contiguous_format
    return torch.empty(tuple(shape), dtype=dtype, device=device, memory_format=order)


def table_of(saved: Tensor, rows: int, device: torch.device) -> Tensor:
    """Returns a table that begins with the saved rows."""
    table = empty_table((rows, *saved.shape[1:]), saved.dtype, device)
    table[: len(saved)].copy_(saved)
    return table


def picked(table: Tensor, rows: Tensor) -> Tensor:
    """Returns rows of a table, in the table's memory layout."""
    if table.is_contiguous():
        return table.index_select(0, rows)
    return table.permute(0, 2, 3, 1).index_select(0, rows).permute(0, 3, 1, 2)


def in_range(image: Tensor) -> Tensor:
    """Returns whether bytes can hold all numbers of an image, (); true without images."""
    return ((image >= -ROUNDING) & (image <= 1 + ROUNDING)).all()


def encoded(obs: Tensor, as_bytes: bool) -> Tensor:
    """Returns an observation in stored form: an image's numbers, within 0..1, as bytes."""
    return (obs * WHITE).round_().clamp_(0, WHITE).to(torch.uint8) if as_bytes else obs


def decoded(stored: Tensor) -> Tensor:
    """Returns a stored observation as it was before; images are exact to within half of 1 / 255."""
    return stored.float().div_(WHITE) if stored.dtype == torch.uint8 else stored


def randint(most: int, count: int, generator: torch.Generator) -> Slots:
    """Draws `count` whole numbers from 0 to below `most`."""
    return torch.randint(most, (count,), generator=generator).numpy()
