"""Numbers that a game measures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage
from palaestra.wire.unity_channels import STATS


class StatsAggregationMethod(Enum):
    """What a summary shows of the values of its period."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3


StatList: TypeAlias = "list[tuple[float, StatsAggregationMethod]]"
EnvironmentStats: TypeAlias = "Mapping[str, StatList]"


class StatsSideChannel(SideChannel):
    """Keeps them until they are asked for."""

    def __init__(self) -> None:
        super().__init__(STATS)
        self._stats: defaultdict[str, StatList] = defaultdict(list)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """A number. Raises ValueError for a way to summarize that there is not."""
        key, value = msg.read_string(), msg.read_float32()
        self._stats[key].append((value, StatsAggregationMethod(msg.read_int32())))

    def get_and_reset_stats(self) -> EnvironmentStats:
        """All since the last call, by name."""
        stats, self._stats = self._stats, defaultdict(list)
        return stats
