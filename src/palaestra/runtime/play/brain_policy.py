"""Lets a brain choose the actions for the table of a behavior: for teachers, opponents in self-play, and play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.brains.base import Brain, Seen
from palaestra.core.rng_state import restore_rng, save_rng
from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action, TimeStep

if TYPE_CHECKING:
    from palaestra.brains.checked import CheckedBrain


class TableAnswers:
    """Asks a brain for the actions of rows of a table, and tells it when episodes begin."""

    def __init__(self, brain: Brain, action: ActionSpec) -> None:
        self.brain = brain
        self._action = action
        self._fresh = np.zeros(0, np.bool_)  # (S,) the brain has not begun the episode there

    def see(self, step: TimeStep) -> None:
        """Records the slots in which episodes ended, so that the brain begins new episodes in them."""
        over = step.terminated | step.truncated if step.lost is None else step.terminated | step.truncated | step.lost
        self._fresh = np.pad(self._fresh, (0, max(len(over) - len(self._fresh), 0)), constant_values=True)
        self._fresh |= over.cpu().numpy()

    def fill(
        self, step: TimeStep, rows: NDArray[np.int64], continuous: NDArray[np.float32], discrete: NDArray[np.int64]
    ) -> None:
        """Writes the brain's actions for these rows into columns (S, ...). Call `see` first. Raises PolicyError."""
        new = rows[self._fresh[rows]]
        if len(new):
            self.brain.begin(new)
            self._fresh[new] = False
        if len(rows):
            mask = None if step.action_mask is None else step.action_mask.cpu().numpy()[rows]
            seen = Seen(rows, tuple(x.cpu().numpy()[rows] for x in step.obs), mask, step.team.cpu().numpy()[rows])
            choice = self.brain.decide(seen)
            continuous[rows] = choice.continuous
            discrete[rows] = choice.discrete

    def answer(self, step: TimeStep) -> Action:
        """Returns actions for the acting slots, zeros elsewhere. Call `see` first."""
        columns = no_actions(len(step.reward), self._action)
        self.fill(step, step.acting.cpu().numpy().nonzero()[0], *columns)
        return as_action(step, *columns)

    def nothing(self, step: TimeStep) -> Action:
        """Returns zeros for every slot, without asking the brain."""
        return as_action(step, *no_actions(len(step.reward), self._action))

    def forget(self) -> None:
        """Treats the agents of all slots as new agents."""
        self._fresh = self._fresh[:0]


class BrainPolicy(TableAnswers):
    """A brain in training; checkpoints save its memory and its random stream."""

    def __init__(self, brain: CheckedBrain, action: ActionSpec) -> None:
        super().__init__(brain, action)
        self._brain = brain

    @property
    def recurrent_state(self) -> Tensor:
        """(S, 1 + L): 1 where an episode begins, then the LSTM memory of a model; a user's own brain has none here."""
        remembered = self._remembered(len(self._fresh))
        return torch.from_numpy(np.concatenate([self._fresh[:, None].astype(np.float32), remembered], 1))

    @recurrent_state.setter
    def recurrent_state(self, recurrent_state: Tensor) -> None:
        columns = recurrent_state.cpu().numpy()
        self._fresh = columns[:, 0] > 0
        if columns.shape[1] > 1:
            self._brain.memory = columns[:, 1:].copy()

    @property
    def random_state(self) -> dict[str, Any]:
        """State of the brain's random stream; empty if the brain has no `rng`."""
        generator = self._brain.rng
        return {} if generator is None else save_rng(generator)

    @random_state.setter
    def random_state(self, position: Mapping[str, Any]) -> None:
        generator = self._brain.rng
        if generator is not None and position:
            restore_rng(generator, position)

    def _remembered(self, slots: int) -> NDArray[np.float32]:
        memory = self._brain.memory
        return np.pad(memory, ((0, max(slots - len(memory), 0)), (0, 0)))[:slots]


def no_actions(slots: int, action: ActionSpec) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Returns columns (slots, continuous) and (slots, branches) of zeros."""
    return np.zeros((slots, action.continuous), np.float32), np.zeros((slots, len(action.branches)), np.int64)


def as_action(step: TimeStep, continuous: NDArray[np.float32], discrete: NDArray[np.int64]) -> Action:
    """Returns columns of actions as tensors on the device of a table."""
    device = step.reward.device
    return Action(torch.from_numpy(continuous).to(device), torch.from_numpy(discrete).to(device))
