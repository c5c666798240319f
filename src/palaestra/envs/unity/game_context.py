"""Parts of the environment that all games use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.envs.copies import Copies, Log
from palaestra.envs.sampler_seeds import spacing
from palaestra.envs.unity.analytics import AnalyticsSender
from palaestra.envs.unity.game_tables import GameTables
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.timeouts import Phase
from palaestra.wire.handshake import GameVersion
from palaestra.wire.server import Inbox
from palaestra.wire.side_channels import SideChannel, SideChannels
from palaestra.wire.unity_channels import Engine, EngineSender, ParametersSender, StatsReceiver


class GameChannels(SideChannels):
    """All side channels; the channels that every game has are attributes."""

    def __init__(
        self, engine: Engine, copies: int, side_channels: Sequence[SideChannel], warn: Callable[[str], None]
    ) -> None:
        self.engine = EngineSender(engine)
        self.parameters = ParametersSender(copies)
        self.stats = StatsReceiver(warn)
        self.analytics = AnalyticsSender()
        super().__init__((self.engine, self.parameters, self.stats, self.analytics, *side_channels), copies, warn)
        self._version: GameVersion | None = None

    def greet(self, copy: int, version: GameVersion, seeds_used: int) -> bool:
        """Sends a newly connected game its settings. Returns whether its version differs from the version of the game
        that connected before."""
        if copy == 0:
            self.analytics.wanted = "trainingAnalytics" in version.capabilities
        self.parameters.shift_seeds(copy, spacing(seeds_used))
        self.connected(copy)
        is_new = version != self._version
        self._version = version
        return is_new


@dataclass(slots=True)
class GameContext:
    """Parts of one environment."""

    options: UnityOptions
    build: Path | None  # None: the Editor
    log: Log
    warn: Callable[[str], None]  # about data of a game; warnings that come too fast are counted instead
    inbox: Inbox
    copies: Copies[Any]
    tables: GameTables
    channels: GameChannels
    entered: Callable[[int, Phase], None]  # called when a copy enters another phase
    logs: Path = Path()  # their folder
    seed: int = 0
