"""Tracks which slots have an agent, if agents appear and leave, and the slot of each agent's next episode."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np
from numpy.typing import NDArray

from palaestra.core.timestep import TimeStep
from palaestra.runtime.play.assigned_brains import AgentKey, Side

Moves = Mapping[AgentKey, int]
"""New slot of each agent that continues in another one, by its behavior and slot before."""
MOST = 64
"""Most agents of a team for which a new episode waits."""


class AgentSlots:
    """Follows agents whose next episode may be in another slot, as in Unity games, which give an agent a new id for
    each episode.

    The environment does not tell to which agent a new id belongs. A slot that is taken again is taken to have the same
    agent; other new agents continue the agents of their team that left last, in the order of their slots.
    """

    def __init__(self) -> None:
        self._present: dict[str, NDArray[np.bool_]] = {}
        self._gone: dict[Side, list[tuple[int, int]]] = {}  # tick and slot of each agent that went
        self._teams: dict[str, NDArray[np.int64]] = {}
        self._numbers: dict[AgentKey, int] = {}
        self._tick = 0

    def present(self, behavior: str, slots: int) -> NDArray[np.bool_]:
        """Returns which slots have an agent."""
        present = self._present.get(behavior, np.zeros(0, np.bool_))
        return np.pad(present, (0, max(slots - len(present), 0)))[:slots]

    def number(self, behavior: str, slot: int) -> int:
        """Returns an agent's number among the agents of its behavior; the agent keeps it in other slots."""
        return self._numbers.get((behavior, slot), slot)

    def note(self, steps: Mapping[str, TimeStep], *, first: bool = False) -> dict[AgentKey, int]:
        """Adds a tick, or the tables of `reset`. Returns the new slot of each agent that continues in another slot."""
        if first:
            self._gone.clear()
            for name, before in self._present.items():  # all begin anew, in any slots
                for slot in before.nonzero()[0].tolist():
                    self._gone.setdefault((name, int(self._teams[name][slot])), []).append((self._tick, slot))
            self._present.clear()
        self._tick += 1
        moves: dict[AgentKey, int] = {}
        for name, step in steps.items():
            moves |= self._note(name, step)
        return moves

    def _note(self, name: str, step: TimeStep) -> dict[AgentKey, int]:
        acting = step.acting.cpu().numpy()
        team = step.team.cpu().numpy()
        over = (step.terminated | step.truncated).cpu().numpy()
        if step.lost is not None:
            over = over | step.lost.cpu().numpy()
        before = self.present(name, len(acting))
        for slot in (over & ~acting & before).nonzero()[0].tolist():
            self._gone.setdefault((name, int(team[slot])), []).append((self._tick, slot))
        self._present[name] = (before & ~over) | acting
        self._teams[name] = team
        new = (acting & ~before).nonzero()[0]
        moves = {
            (name, old): slot
            for number in np.unique(team[new]).tolist()
            for old, slot in self._continued(name, number, new[team[new] == number].tolist())
        }
        self._number(name, new.tolist(), moves)
        return moves

    def _number(self, name: str, new: list[int], moves: Moves) -> None:
        """Gives new agents the numbers of the agents that they continue, else free numbers."""
        for (_, old), slot in moves.items():
            self._numbers[name, slot] = self._numbers.pop((name, old), old)
        for slot in new:
            if (name, slot) not in self._numbers:
                taken = {number for (other, _), number in self._numbers.items() if other == name}
                self._numbers[name, slot] = next(number for number in count() if number not in taken)

    def _continued(self, name: str, team: int, new: list[int]) -> list[tuple[int, int]]:
        """Returns the slot before and the slot of each new agent that continues another one."""
        gone = self._gone.get((name, team), [])
        known = {slot for _, slot in gone}
        again = known.intersection(new)
        waiting = [(tick, slot) for tick, slot in gone if slot not in again]
        waiting.sort(key=lambda one: (-one[0], one[1]))
        strangers = [slot for slot in new if slot not in again]
        moved = [(old, slot) for (_, old), slot in zip(waiting, strangers, strict=False)]
        self._gone[name, team] = waiting[len(moved) :][:MOST]
        return moved
