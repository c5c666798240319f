"""The game that is connected with a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from palaestra.core.errors import ProtocolError
from palaestra.envs.unity.game_tables import GameTables
from palaestra.envs.unity.table import Arrival
from palaestra.wire.decode import AgentInfos, GameMessage
from palaestra.wire.handshake import GameVersion
from palaestra.wire.readers import AgentInfoReader, check_tick


class ConnectedGame:
    """Knows the behaviors that the game has described, and reads its agents."""

    def __init__(self, copy: int, source: int, version: GameVersion, peer: str) -> None:
        self._copy = copy
        self.source = source
        """Number of the game among all games that have connected."""
        self.version = version
        self.peer = peer
        """The game's network address."""
        self.delivered = 0
        """Number of messages with agents."""
        self.decided = False
        """True once an agent of the game has requested a decision."""
        self._brains: dict[str, Any] = {}
        self._readers: dict[str, AgentInfoReader] = {}

    def learn(self, incoming: GameMessage) -> None:
        """Records the behaviors that a message describes."""
        if incoming.hello is not None:
            self._brains.update({brain.brain_name: brain for brain in incoming.hello.brain_parameters})

    def read(
        self, infos: Mapping[str, AgentInfos], max_mb: float | None, tables: GameTables, warn: Callable[[str], None]
    ) -> list[Arrival]:
        """Decodes the agents of a message. New behaviors are added after the whole message was read, so that a damaged
        message adds no behavior. Raises ProtocolError and NotFinite."""
        keys = sorted(infos)  # messages have no fixed order, and slots must not depend on it
        readers = {key: self._readers.get(key) or self._reader(key, infos[key]) for key in keys}
        check_tick(0, [(readers[key], len(infos[key].id), int(infos[key].id[0])) for key in keys], max_mb)
        arrivals = [self._arrival(key, readers[key], infos[key], warn) for key in keys]
        for key, reader in readers.items():
            if key not in self._readers:
                tables.add(reader)
                self._readers[key] = reader
        self.delivered += 1
        return arrivals

    def _reader(self, key: str, infos: AgentInfos) -> AgentInfoReader:
        brain = self._brains.get(key)
        if brain is None:
            known = ", ".join(self._brains) or "none"
            raise ProtocolError(f"it sent agents of behavior '{key}' without ever describing it (described: {known})")
        return AgentInfoReader(key, brain, infos, self.version.package)

    def _arrival(self, key: str, reader: AgentInfoReader, infos: AgentInfos, warn: Callable[[str], None]) -> Arrival:
        obs = reader.observations(infos)
        mask = reader.masks(infos)
        while reader.warnings:
            warn(reader.warnings.pop(0))
        return Arrival(reader.name, key, self._copy, self.source, reader.team, infos, obs, mask)
