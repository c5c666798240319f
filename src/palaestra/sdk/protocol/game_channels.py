"""Side channels that every game has, and two for authors to use: float properties and raw bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from math import isfinite
from random import Random
from typing import NamedTuple, Protocol
from uuid import UUID

from palaestra.core.errors import EnvError
from palaestra.envs.unity.analytics import ANALYTICS
from palaestra.envs.unity.options import Engine
from palaestra.sdk.protocol.game_side_channels import SideChannel
from palaestra.wire.side_channels import IncomingMessage, message_of
from palaestra.wire.unity_channels import ENGINE, FLOAT_PROPERTIES, PARAMETERS, STATS, read_parameter

_ENGINE_FIELDS = ("quality_level", "time_scale", "target_frame_rate", "capture_frame_rate")


class HasEngine(Protocol):
    """Area that keeps the engine settings of the trainer."""

    engine: Engine


class ParametersChannel(SideChannel):
    """Sets environment parameters in all areas; each area samples on its own."""

    def __init__(self, areas: Sequence[EnvironmentParameters]) -> None:
        super().__init__(PARAMETERS)
        self._areas = areas

    def on_message_received(self, message: IncomingMessage) -> None:
        """Sets a value or a sampler. Raises ProtocolError for an unknown kind."""
        name, kind, numbers, seed = read_parameter(message)
        for at, area in enumerate(self._areas):
            if kind == "value":
                area.set(name, numbers[0])
            else:
                area.sample(name, kind, numbers, seed + at)


class EngineChannel(SideChannel):
    """Receives Unity's engine settings, which areas keep for games that use them."""

    def __init__(self, areas: Sequence[HasEngine]) -> None:
        super().__init__(ENGINE)
        self._areas = areas

    def on_message_received(self, message: IncomingMessage) -> None:
        """Keeps one setting; ignores unknown kinds, as Unity does."""
        kind = message.read_int32()
        if kind == 0:
            change: dict[str, float] = {"width": message.read_int32(), "height": message.read_int32()}
        elif 1 <= kind <= len(_ENGINE_FIELDS):
            field = _ENGINE_FIELDS[kind - 1]
            change = {field: message.read_float32() if field == "time_scale" else message.read_int32()}
        else:
            return
        for area in self._areas:
            area.engine = replace(area.engine, **change)  # pyright: ignore[reportArgumentType]


class StatsChannel(SideChannel):
    """Sends the values of a game's StatsRecorders."""

    def __init__(self) -> None:
        super().__init__(STATS)

    def add(self, stats: Sequence[Stat]) -> None:
        """Sends one message for each value."""
        for stat in stats:
            self.send(message_of(*stat))


class AnalyticsChannel(SideChannel):
    """Receives the analytics that trainers send to Unity, and ignores them."""

    def __init__(self) -> None:
        super().__init__(ANALYTICS)

    def on_message_received(self, message: IncomingMessage) -> None:
        """Ignores the message."""


class FloatProperties(SideChannel):
    """Side channel of named numbers that both sides set and read."""

    def __init__(self, channel_id: UUID | str = FLOAT_PROPERTIES) -> None:
        super().__init__(channel_id)
        self._values: dict[str, float] = {}
        self._callbacks: defaultdict[str, list[Callable[[float], None]]] = defaultdict(list)

    def get(self, name: str, default: float = 0.0) -> float:
        """Returns the value last set by either side, or `default`."""
        return self._values.get(name, default)

    def names(self) -> list[str]:
        """Returns the names that have a value."""
        return list(self._values)

    def set(self, name: str, value: float) -> None:
        """Sets a value and sends it to the trainer."""
        message = message_of(name, float(value))
        self._values[name] = value
        self.send(message)

    def on_change(self, name: str, act: Callable[[float], None]) -> None:
        """Registers `act` to be called with each value that the trainer sets."""
        self._callbacks[name].append(act)

    def on_message_received(self, message: IncomingMessage) -> None:
        """Stores a value from the trainer and calls the functions registered for its name."""
        name = message.read_string()
        value = message.read_float32()
        self._values[name] = value
        for act in self._callbacks.get(name, ()):
            act(value)


class RawBytes(SideChannel):
    """Side channel of raw bytes in both directions."""

    def __init__(self, channel_id: UUID | str) -> None:
        super().__init__(channel_id)
        self._received: list[bytes] = []

    def send_raw_data(self, data: bytes | bytearray) -> None:
        """Sends bytes to the trainer."""
        self.send(message_of(bytes(data)))

    def take(self) -> list[bytes]:
        """Returns the messages received since the last call."""
        received = self._received
        self._received = []
        return received

    def on_message_received(self, message: IncomingMessage) -> None:
        """Keeps a message for `take`."""
        self._received.append(message.get_raw_bytes())


class EnvironmentParameters:
    """Environment parameters, as in Unity: a game reads them, usually in `on_episode_begin`, with a default."""

    def __init__(self, values: Mapping[str, float] | None = None) -> None:
        self._draws: dict[str, Callable[[], float]] = {}
        self._callbacks: dict[str, list[Callable[[float], object]]] = {}
        for key, value in (values or {}).items():
            self.set(key, value)

    def get_with_default(self, key: str, default: float) -> float:
        """Returns the value, or `default` if it is not set; a sampler draws at each call."""
        draw = self._draws.get(key)
        return default if draw is None else draw()

    def keys(self) -> list[str]:
        """Returns the names that are set."""
        return list(self._draws)

    def register_callback(self, key: str, callback: Callable[[float], object]) -> None:
        """Registers a function to call with each value that is set; a sampler's draws do not call it."""
        self._callbacks.setdefault(key, []).append(callback)

    def set(self, key: str, value: float) -> None:
        """Sets a value and calls the functions registered for it."""
        number = float(value)
        self._draws[key] = lambda: number
        for callback in self._callbacks.get(key, ()):
            callback(number)

    def sample(self, key: str, kind: str, numbers: Sequence[float], seed: int) -> None:
        """Sets a sampler: "uniform" (low, high), "gaussian" (mean, deviation), or "multirangeuniform" (both ends of
        each range)."""
        random = Random(seed)
        if kind == "multirangeuniform":
            ranges = list(zip(numbers[::2], numbers[1::2], strict=True))
            weights = [high - low for low, high in ranges]
            self._draws[key] = lambda: random.uniform(*random.choices(ranges, weights if sum(weights) else None)[0])
        else:
            draw = random.uniform if kind == "uniform" else random.gauss
            self._draws[key] = lambda: draw(*numbers)


class StatAggregationMethod(IntEnum):
    """Aggregation of a curve's values in a summary period, with the numbers of the protocol."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3


class Stat(NamedTuple):
    """One value of a curve."""

    key: str
    value: float
    method: StatAggregationMethod


class StatsRecorder:
    """Records values for the trainer's curves, as in Unity; they are sent with the next exchange."""

    def __init__(self) -> None:
        self._stats: list[Stat] = []

    def add(self, key: str, value: float, method: StatAggregationMethod = StatAggregationMethod.AVERAGE) -> None:
        """Adds a value to the curve named `key`, such as 'Game/Score'. Raises EnvError for NaN and infinity."""
        if not isfinite(value):
            raise EnvError(f"stat '{key}' is {value}; expected a finite number")
        self._stats.append(Stat(key, float(value), StatAggregationMethod(method)))

    def take(self) -> list[Stat]:
        """Returns all values since the last call."""
        stats = self._stats
        self._stats = []
        return stats
