"""The tables of all behaviors of all games."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

import numpy as np
from numpy.typing import NDArray

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.slots import Ids
from palaestra.envs.unity.table import Arrival, BehaviorTable
from palaestra.wire.encode import ActionWriter
from palaestra.wire.readers import AgentInfoReader


class GameTables:
    """Puts the agents of each tick into tables, and the actions for them into messages."""

    def __init__(self) -> None:
        self.specs: dict[str, BehaviorSpec] = {}
        self._tables: dict[str, BehaviorTable] = {}
        self._writers: dict[str, ActionWriter] = {}
        self._waiting: dict[str, dict[tuple[int, str], Ids]] = {}
        """Slots that wait for an action, by behavior, and by copy and key."""
        self._lost: list[int] = []
        self._sources = count(1)

    def new_source(self) -> int:
        """Returns a number for a game that has connected; a restarted game gets another number."""
        return next(self._sources)

    def lose(self, source: int) -> None:
        """Marks the agents of a game that ended as lost in the next tables."""
        self._lost.append(source)

    def add(self, reader: AgentInfoReader) -> None:
        """Adds the behavior of a copy and a team to the table of its name. Raises ProtocolError if a behavior of this
        name has another spec."""
        known = self.specs.get(reader.name)
        if known is None:
            self.specs[reader.name] = reader.spec
            self._tables[reader.name] = BehaviorTable(reader.spec)
            self._writers[reader.name] = ActionWriter(reader.spec.action)
        else:
            reader.matches(known)

    def clear(self) -> None:
        """Forgets all agents."""
        self._tables = {name: BehaviorTable(spec) for name, spec in self.specs.items()}
        self._lost = []
        self._waiting = {}

    def tick(self, found: Iterable[Arrival], messages: NDArray[np.int64]) -> dict[str, TimeStep]:
        """Returns the tables of a tick. `messages` (copies,) counts the messages of each copy's current game."""
        arrivals: dict[str, list[Arrival]] = {name: [] for name in self._tables}
        for arrival in found:
            arrivals[arrival.name].append(arrival)
        lost = self._lost
        self._lost = []
        steps: dict[str, TimeStep] = {}
        for name, table in self._tables.items():
            if arrivals[name] or len(table):
                steps[name], self._waiting[name] = table.tick(arrivals[name], lost, messages)
        return steps

    def write(self, actions: Mapping[str, Action]) -> dict[int, dict[str, bytes]]:
        """Returns the actions for the agents of the last tick, by copy and behavior key; zeros without actions."""
        written: dict[int, dict[str, bytes]] = {}
        for name, waiting in self._waiting.items():
            action = actions.get(name)
            slots = len(self._tables[name])
            spec = self.specs[name].action
            continuous = np.zeros((slots, spec.continuous), np.float32) if action is None else action.continuous.numpy()
            discrete = np.zeros((slots, len(spec.branches)), np.int64) if action is None else action.discrete.numpy()
            for (copy, key), asking in waiting.items():
                if len(asking):
                    written.setdefault(copy, {})[key] = self._writers[name].write(continuous[asking], discrete[asking])
        self._waiting = {}
        return written
