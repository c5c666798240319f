"""The channels that every game has, and the two that an author may take as they are: float properties and raw bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from palaestra.core.errors import ProtocolError
from palaestra.envs.unity.analytics import ANALYTICS
from palaestra.envs.unity.channels import ENGINE, FLOAT_PROPERTIES, PARAMETERS, STATS
from palaestra.envs.unity.options import Engine
from palaestra.envs.unity.side_channels import IncomingMessage, OutgoingMessage
from palaestra.sdk.parameters import EnvironmentParameters
from palaestra.sdk.side_channels import SideChannel
from palaestra.sdk.stats import Stat

_ENGINE_FIELDS = ("quality_level", "time_scale", "target_frame_rate", "capture_frame_rate")


class HasEngine(Protocol):
    """An area that keeps what a trainer asks of the engine."""

    engine: Engine


class ParametersChannel(SideChannel):
    """Environment parameters, the same ones in every area; each area draws from a sampler for itself."""

    def __init__(self, areas: Sequence[EnvironmentParameters]) -> None:
        super().__init__(PARAMETERS)
        self._areas = areas

    def on_message_received(self, message: IncomingMessage) -> None:
        """A number, or how to draw one. Raises ProtocolError for a kind that is not known."""
        name, kind = message.read_string(), message.read_int32()
        if kind == 0:
            value = message.read_float32()
            for area in self._areas:
                area.set(name, value)
            return
        seed, shape = message.read_int32(), message.read_int32()
        if kind != 1 or not 0 <= shape <= 2:
            raise ProtocolError(f"the parameter '{name}' is of kind {kind} with sampler {shape}; expected kind 0 or 1, sampler 0 to 2")
        if shape == 2:
            ends = message.read_float32_list()
            intervals = list(zip(ends[::2], ends[1::2], strict=True))
            for at, area in enumerate(self._areas):
                area.set_multirange_uniform(name, intervals, seed + at)
            return
        first, second = message.read_float32(), message.read_float32()
        for at, area in enumerate(self._areas):
            draw = area.set_uniform if shape == 0 else area.set_gaussian
            draw(name, first, second, seed + at)


class EngineChannel(SideChannel):
    """Unity's engine settings. A game in Python has no engine to set; areas keep them for a game that wants to know."""

    def __init__(self, areas: Sequence[HasEngine]) -> None:
        super().__init__(ENGINE)
        self._areas = areas

    def on_message_received(self, message: IncomingMessage) -> None:
        """One setting; kinds that are not known are passed over, as by Unity."""
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
    """What a game measures itself."""

    def __init__(self) -> None:
        super().__init__(STATS)

    def tell(self, stats: Sequence[Stat]) -> None:
        """One message a value."""
        for stat in stats:
            message = OutgoingMessage()
            message.write_string(stat.key)
            message.write_float32(stat.value)
            message.write_int32(int(stat.method))
            self.send(message)


class AnalyticsChannel(SideChannel):
    """What trainers say of themselves to Unity's statistics: of no use here."""

    def __init__(self) -> None:
        super().__init__(ANALYTICS)

    def on_message_received(self, message: IncomingMessage) -> None:
        """Is not looked at."""


class FloatProperties(SideChannel):
    """Named numbers that both sides set and read."""

    def __init__(self, channel_id: UUID | str = FLOAT_PROPERTIES) -> None:
        super().__init__(channel_id)
        self._values: dict[str, float] = {}
        self._heeding: defaultdict[str, list[Callable[[float], None]]] = defaultdict(list)

    def get(self, name: str, default: float = 0.0) -> float:
        """What was said last, on either side."""
        return self._values.get(name, default)

    def names(self) -> list[str]:
        """Those that have a value."""
        return list(self._values)

    def set(self, name: str, value: float) -> None:
        """The trainer is told."""
        message = OutgoingMessage()
        message.write_string(name)
        message.write_float32(value)
        self._values[name] = value
        self.send(message)

    def on_change(self, name: str, act: Callable[[float], None]) -> None:
        """`act` is called with each value that the trainer sets."""
        self._heeding[name].append(act)

    def on_message_received(self, message: IncomingMessage) -> None:
        """A number that the trainer sets."""
        name, value = message.read_string(), message.read_float32()
        self._values[name] = value
        for act in self._heeding.get(name, ()):
            act(value)


class RawBytes(SideChannel):
    """Bytes as they are, in both directions."""

    def __init__(self, channel_id: UUID | str) -> None:
        super().__init__(channel_id)
        self._received: list[bytes] = []

    def send_raw_data(self, data: bytes | bytearray) -> None:
        """To the trainer."""
        message = OutgoingMessage()
        message.set_raw_bytes(data)
        self.send(message)

    def take(self) -> list[bytes]:
        """What the trainer sent since the last call."""
        received, self._received = self._received, []
        return received

    def on_message_received(self, message: IncomingMessage) -> None:
        """Keeps it for `take`."""
        self._received.append(message.get_raw_bytes())
