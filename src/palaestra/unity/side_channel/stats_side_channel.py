"""Side channel of statistics that a game records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage
from palaestra.wire.unity_channels import STATS


class StatsAggregationMethod(Enum):
    """Aggregation of a statistic's values in a summary period."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3


StatList: TypeAlias = "list[tuple[float, StatsAggregationMethod]]"
EnvironmentStats: TypeAlias = "Mapping[str, StatList]"


class StatsSideChannel(SideChannel):
    """Keeps statistics until they are taken."""

    def __init__(self) -> None:
        super().__init__(STATS)
        self._stats: defaultdict[str, StatList] = defaultdict(list)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Stores a value. Raises ValueError for an unknown aggregation."""
        key = msg.read_string()
        value = msg.read_float32()
        self._stats[key].append((value, StatsAggregationMethod(msg.read_int32())))

    def get_and_reset_stats(self) -> EnvironmentStats:
        """Returns all values since the last call, by name."""
        stats = self._stats
        self._stats = defaultdict(list)
        return stats
