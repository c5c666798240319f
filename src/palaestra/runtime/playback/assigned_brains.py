"""Decides which brain acts for which agent: one for each team of a behavior, and others in single seats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.brains.base import Brain
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.runtime.play.brain_policy import TableAnswers, no_actions
from palaestra.runtime.play.players import BrainOf, Side

Seat = tuple[str, int]
"""A behavior and the slot of one of its agents."""


class AssignedBrains:
    """Brains by side, which can be replaced between two ticks, and by seat, which go before them."""

    def __init__(self, behaviors: Mapping[str, BehaviorSpec], brain_of: BrainOf) -> None:
        self._behaviors = behaviors
        self._brain_of = brain_of
        self._sides: dict[Side, TableAnswers] = {}
        self._seats: dict[Seat, TableAnswers] = {}

    @property
    def taken(self) -> set[Seat]:
        """AssignedBrains that have a brain of their own."""
        return set(self._seats)

    def brain(self, behavior: str, team: int) -> Brain | None:
        """Returns the brain of a side; None if it has not acted so far."""
        answers = self._sides.get((behavior, team))
        return None if answers is None else answers.brain

    def seat(self, behavior: str, slot: int, brain: Brain) -> None:
        """Lets a brain act for one agent from the next tick on."""
        self._seats[behavior, slot] = TableAnswers(brain, self._behaviors[behavior].action)

    def leave(self, behavior: str, slot: int) -> None:
        """Gives a seat back to the brain of its side, which begins as in a new episode."""
        self._seats.pop((behavior, slot), None)
        for (name, _), answers in self._sides.items():
            if name == behavior:
                answers.forget()

    def move(self, moves: Mapping[Seat, int]) -> None:
        """Lets brains of single seats follow their agents to other slots."""
        moved = {
            (name, moves[name, slot]): self._seats.pop((name, slot))
            for name, slot in [*self._seats]
            if (name, slot) in moves
        }
        for answers in moved.values():
            answers.forget()
        self._seats |= moved

    def replace(self, brain_of: BrainOf) -> None:
        """Asks another function for the brains of all sides."""
        self._brain_of = brain_of
        self._sides.clear()

    def restart(self) -> None:
        """Tells every brain that all episodes begin anew."""
        for answers in (*self._sides.values(), *self._seats.values()):
            answers.forget()

    def act(self, steps: Mapping[str, TimeStep]) -> dict[str, Action]:
        """Returns the actions of all agents. Raises PolicyError for a side without a brain."""
        return {name: self._act(name, step) for name, step in steps.items()}

    def _act(self, name: str, step: TimeStep) -> Action:
        acting = step.acting.cpu().numpy()
        teams = step.team.cpu().numpy()
        continuous, discrete = no_actions(len(acting), self._behaviors[name].action)
        seated = np.zeros(len(acting), np.bool_)
        for (behavior, slot), answers in self._seats.items():
            if behavior == name and slot < len(acting):
                seated[slot] = True
                answers.see(step)
                answers.fill(step, np.flatnonzero(acting & (np.arange(len(acting)) == slot)), continuous, discrete)
        parts = self._parts(name, np.flatnonzero(acting & ~seated), teams)
        for answers in {id(one): one for (behavior, _), one in self._sides.items() if behavior == name}.values():
            answers.see(step)  # ends matter too where nobody of a side acts
        for answers, rows in parts:
            answers.fill(step, rows, continuous, discrete)
        return Action(
            torch.from_numpy(continuous).to(step.reward.device), torch.from_numpy(discrete).to(step.reward.device)
        )

    def _parts(
        self, name: str, rows: NDArray[np.int64], teams: NDArray[np.int64]
    ) -> list[tuple[TableAnswers, NDArray[np.int64]]]:
        """Returns each brain with the rows it acts for; a brain that plays several teams gets their rows together."""
        parts: dict[int, tuple[TableAnswers, list[int]]] = {}
        for team in np.unique(teams[rows]).tolist():
            if (name, team) not in self._sides:
                brain = self._brain_of(name, team)
                same = (one for (behavior, _), one in self._sides.items() if behavior == name and one.brain is brain)
                self._sides[name, team] = next(same, None) or TableAnswers(brain, self._behaviors[name].action)
            parts.setdefault(id(self._sides[name, team]), (self._sides[name, team], []))[1].append(team)
        return [(answers, rows[np.isin(teams[rows], own)]) for answers, own in parts.values()]
