"""Chooses actions for a behavior whose slots the learning policy shares with its snapshots and with fixed opponents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.models.policy import Actor, NetworkPolicy, PendingDecision, whole
from palaestra.runtime.play.brain_policy import BrainPolicy
from palaestra.runtime.self_play.policy_snapshots import PolicySnapshots
from palaestra.scenario.self_play_schedule import EXPLOITER, LEARNING, NEWEST, fixed

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PolicyRows:
    """Slots that one player controls."""

    number: int
    rows: Tensor  # (R,) int64


class ExploitingActor(Protocol):
    """A learner that plays some slots of another learner's behavior."""

    slots: Tensor | None
    """The slots (S,) that the exploiter plays."""

    @property
    def network(self) -> Actor:
        """The network with which it acts."""
        ...

    def open(self, step: TimeStep, decision: Decision) -> None:
        """Stores the observations and actions of its agents, from which it learns."""
        ...


class MixedPolicy:
    """Gives each slot its player's action; each network runs once a tick, for all its slots."""

    def __init__(self, policy: NetworkPolicy, snapshots: PolicySnapshots, opponents: Sequence[BrainPolicy]) -> None:
        """`opponents`: the fixed ones."""
        self.policy = policy
        self.snapshots = snapshots
        self.brains = opponents
        """Brains whose streams of random numbers a checkpoint holds."""
        self._parts: list[PolicyRows] = []
        self.learned: Tensor | None = None
        """Slots (S,) that the learning policy plays; None before `assign` and after `forget`."""
        self.fixed: Tensor | None = None
        """Slots (S,) that fixed policies play."""
        self.fixed_slots = 0
        """Number of the slots in `fixed`."""
        self.exploiter: ExploitingActor | None = None
        """The learner that plays some slots against the learning policy."""

    def assign(self, players: Numbers) -> None:
        """Sets the player of each slot, (S,), beginning with this table."""
        device = self.policy.generator.device
        order = np.argsort(players, kind="stable")
        numbers, first = np.unique(players[order], return_index=True)
        pieces = zip(numbers.tolist(), np.split(order, first[1:]), strict=True)
        self._parts = [PolicyRows(number, torch.from_numpy(rows).to(device)) for number, rows in pieces]
        self.learned = torch.from_numpy(players == LEARNING).to(device)
        others = (players != LEARNING) & (players < EXPLOITER)
        self.fixed = torch.from_numpy(others).to(device)
        self.fixed_slots = int(others.sum())
        if self.exploiter is not None:
            self.exploiter.slots = torch.from_numpy(players == EXPLOITER).to(device)

    def choose(self, step: TimeStep) -> PendingDecision:
        """Returns the actions of all players; the decision for learning is the learning policy's."""
        recurrent_state = self.see(step)
        slots = len(step.acting)
        spec = self.policy.network.spec.action
        device = step.reward.device
        continuous = torch.zeros((slots, spec.continuous), device=device)
        discrete = torch.zeros((slots, len(spec.branches)), dtype=torch.int64, device=device)
        remembered = recurrent_state.clone() if recurrent_state.shape[1] else recurrent_state
        own: tuple[PendingDecision, Tensor] | None = None
        exploiting: tuple[PendingDecision, Tensor] | None = None
        for part in self._parts:
            if (which := fixed(part.number)) is not None:
                acting = step.acting & torch.zeros_like(step.acting).index_fill_(0, part.rows, True)
                action = self.brains[which].answer(replace(step, acting=acting))
                rows = part.rows
                continuous[rows] = action.continuous[rows]
                discrete[rows] = action.discrete[rows]
                continue
            rows = part.rows if self.policy.network.spec.steady else part.rows[step.acting[part.rows]]
            if not len(rows) and own is not None:
                continue
            is_own = part.number == LEARNING
            few, after = self.policy.choose_rows(step, rows, recurrent_state, self._network(part.number))
            exploiting = (few, rows) if part.number == EXPLOITER else exploiting
            for column, values in (
                (continuous, few.action.continuous),
                (discrete, few.action.discrete),
                (remembered, after),
            ):
                if values.numel():
                    column.index_copy_(0, rows, values)
            if is_own or own is None:
                own = few, rows
        self.policy.recurrent_state = remembered
        action = Action(continuous, discrete)

        def finish() -> Decision:
            if exploiting is not None and self.exploiter is not None:
                self.exploiter.open(step, whole(*exploiting, action, recurrent_state))
            return self._decision(own, action, recurrent_state)

        return PendingDecision(action, finish, self.learned)

    def _network(self, number: int) -> Actor:
        if number == EXPLOITER and self.exploiter is not None:
            return self.exploiter.network
        return self.policy.network if number in (LEARNING, NEWEST) else self.snapshots.network(number)

    def _decision(
        self, own: tuple[PendingDecision, Tensor] | None, action: Action, recurrent_state: Tensor
    ) -> Decision:
        if own is None:  # all slots are fixed opponents'
            components = action.continuous.shape[1] + action.discrete.shape[1]
            log_prob = action.continuous.new_zeros((len(recurrent_state), components))
            return Decision(action, action, log_prob, recurrent_state[:, : self.policy.network.memory_size])
        return whole(*own, action, recurrent_state)

    def see(self, step: TimeStep) -> Tensor:
        """Processes a table in which no agent asks for a decision. Returns the recurrent state (S, L) of all slots."""
        for opponent in self.brains:
            opponent.see(step)
        return self.policy.see(step)

    def forget(self) -> None:
        """Clears the state of all slots, because the slots now get other agents."""
        self.policy.forget()
        for opponent in self.brains:
            opponent.forget()
        self._parts = []
        self.learned = self.fixed = None
        self.fixed_slots = 0

    def blank(self, step: TimeStep) -> Decision:
        """Returns a decision with the shapes of all columns, and changes nothing."""
        return self.policy.blank(step)

    @property
    def recurrent_state(self) -> Tensor:
        """Recurrent state (S, ...) of the networks for all slots, followed by the state of each fixed opponent."""
        own = self.policy.recurrent_state
        return torch.cat([own, *(opponent.recurrent_state.to(own.device) for opponent in self.brains)], 1)

    @recurrent_state.setter
    def recurrent_state(self, recurrent_state: Tensor) -> None:
        size = self.policy.recurrent_state.shape[1]
        sizes = [opponent.recurrent_state.shape[1] for opponent in self.brains]
        own, others = recurrent_state.split([size, recurrent_state.shape[1] - size], 1)
        self.policy.recurrent_state = own.clone()
        if sizes and others.shape[1] == sum(sizes):  # else they are other opponents now, who begin anew
            for opponent, part in zip(self.brains, others.split(sizes, 1), strict=True):
                opponent.recurrent_state = part
