"""Decides which brain acts for which agent: one brain for each team of a behavior, and separate brains for single
agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Brain
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.runtime.play.brain_policy import TableAnswers, as_action, no_actions

Side = tuple[str, int]
"""A behavior and one of its teams."""
AgentKey = tuple[str, int]
"""A behavior and the slot of one of its agents."""
BrainOf = Callable[[str, int], Brain]
"""Returns the brain of a behavior's team. Raises PolicyError if there is none."""


class AssignedBrains:
    """Brains of sides, which can be replaced between two ticks, and brains of single agents, which take precedence."""

    def __init__(self, env: Env, brain_of: BrainOf) -> None:
        self._env = env
        self._brain_of = brain_of
        self._sides: dict[Side, TableAnswers] = {}
        self._agents: dict[AgentKey, TableAnswers] = {}

    @property
    def taken(self) -> set[AgentKey]:
        """Agents that have their own brain."""
        return set(self._agents)

    def brain(self, behavior: str, team: int) -> Brain | None:
        """Returns the brain of a side; None if it has not acted yet."""
        answers = self._sides.get((behavior, team))
        return None if answers is None else answers.brain

    def assign(self, behavior: str, slot: int, brain: Brain) -> None:
        """Lets a brain act for one agent from the next tick on."""
        self._agents[behavior, slot] = self._answers(behavior, brain)

    def release(self, behavior: str, slot: int) -> None:
        """Gives an agent back to the brain of its side, which treats it as in a new episode."""
        self._agents.pop((behavior, slot), None)
        for (name, _), answers in self._sides.items():
            if name == behavior:
                answers.forget()

    def move(self, moves: Mapping[AgentKey, int]) -> None:
        """Lets brains of single agents follow their agents to other slots."""
        moved = {(key[0], moves[key]): self._agents.pop(key) for key in [*self._agents] if key in moves}
        for answers in moved.values():
            answers.forget()
        self._agents |= moved

    def replace(self, brain_of: BrainOf) -> None:
        """Gets the brains of all sides from another function."""
        self._brain_of = brain_of
        self._sides.clear()

    def restart(self) -> None:
        """Begins all episodes anew."""
        for answers in (*self._sides.values(), *self._agents.values()):
            answers.forget()

    def act(self, steps: Mapping[str, TimeStep]) -> dict[str, Action]:
        """Returns the actions of all agents. Raises PolicyError for a side without a brain."""
        return {name: self._act(name, step) for name, step in steps.items()}

    def _act(self, name: str, step: TimeStep) -> Action:
        acting = step.acting.cpu().numpy()
        columns = no_actions(len(acting), self._env.behaviors[name].action)
        by_sides = acting.copy()
        for (behavior, slot), answers in self._agents.items():
            if behavior == name and slot < len(acting):
                by_sides[slot] = False
                answers.see(step)
                answers.fill(step, np.flatnonzero(acting & (np.arange(len(acting)) == slot)), *columns)
        parts = self._parts(name, np.flatnonzero(by_sides), step.team.cpu().numpy())
        for answers in {id(one): one for (behavior, _), one in self._sides.items() if behavior == name}.values():
            answers.see(step)  # ends matter too where nobody of a side acts
        for answers, rows in parts:
            answers.fill(step, rows, *columns)
        return as_action(step, *columns)

    def _parts(
        self, name: str, rows: NDArray[np.int64], teams: NDArray[np.int64]
    ) -> list[tuple[TableAnswers, NDArray[np.int64]]]:
        """Returns each brain with the rows it acts for; a brain that plays several teams gets their rows together."""
        parts: dict[int, tuple[TableAnswers, list[int]]] = {}
        for team in np.unique(teams[rows]).tolist():
            if (name, team) not in self._sides:
                brain = self._brain_of(name, team)
                same = (one for (behavior, _), one in self._sides.items() if behavior == name and one.brain is brain)
                self._sides[name, team] = next(same, None) or self._answers(name, brain)
            answers = self._sides[name, team]
            parts.setdefault(id(answers), (answers, []))[1].append(team)
        return [(answers, rows[np.isin(teams[rows], own)]) for answers, own in parts.values()]

    def _answers(self, behavior: str, brain: Brain) -> TableAnswers:
        return TableAnswers(brain, self._env.behaviors[behavior].action)
