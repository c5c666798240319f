"""The channels that every game has, and the two that a user may take as they are: float properties and raw bytes."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from palaestra.core.errors import ProtocolError
from palaestra.core.metrics import Aggregation, Measurement
from palaestra.wire.limits import truncate
from palaestra.wire.side_channels import IncomingMessage, OutgoingMessage, SideChannel

ENGINE = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
PARAMETERS = UUID("534c891e-810f-11ea-a9d0-822485860400")
FLOAT_PROPERTIES = UUID("60ccf7d0-4f7e-11ea-b238-784f4387d1f7")
STATS = UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")

KINDS: tuple[Aggregation, ...] = ("mean", "latest", "total", "spread")  # by Unity's StatAggregationMethod
MAX_STATISTICS = 1000
"""Different names of statistics that a game may have; further ones are passed over."""
LONGEST_NAME = 200
"""Letters of a statistic's name; longer ones are cut."""
KEPT = 100_000
"""Measurements held for whoever takes them; the oldest go."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Unity's engine settings, sent before the first tick."""

    width: int = 84
    height: int = 84
    quality_level: int = 5
    time_scale: float = 20.0
    target_frame_rate: int = -1
    capture_frame_rate: int = 60


class EngineSender(SideChannel):
    """Sends Unity's engine settings to each copy that connects."""

    restates = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(ENGINE)
        self.engine = engine

    def on_connect(self, copy: int) -> None:
        """One message a setting."""
        engine = self.engine
        for kind, numbers in enumerate(
            (
                (engine.width, engine.height),
                (engine.quality_level,),
                (engine.time_scale,),
                (engine.target_frame_rate,),
                (engine.capture_frame_rate,),
            )
        ):
            message = OutgoingMessage()
            message.write_int32(kind)
            for number in numbers:
                if kind == 2:  # only the time scale is a fraction
                    message.write_float32(number)
                else:
                    message.write_int32(int(number))
            self.send(message, copy)


class ParametersSender(SideChannel):
    """Environment parameters, a value or a distribution for each copy. A copy is told of what changed, and of all where it connects.

    From a distribution the game draws a number each time it reads the parameter; sending it again would start its random numbers anew.
    """

    restates = True

    def __init__(self, copies: int) -> None:
        super().__init__(PARAMETERS)
        self._told: list[dict[str, bytes]] = [{} for _ in range(copies)]  # by name: the message that said it last

    def set(self, name: str, value: float, copy: int | None = None) -> None:
        """A number, for one copy or all."""
        message = _parameter(name, 0)
        message.write_float32(value)
        self._tell(name, message, copy)

    def set_uniform(self, name: str, low: float, high: float, seed: int, copy: int | None = None) -> None:
        """Any number of a range."""
        self._tell(name, _sampler(name, seed, 0, low, high), copy)

    def set_gaussian(self, name: str, mean: float, st_dev: float, seed: int, copy: int | None = None) -> None:
        """A normal distribution."""
        self._tell(name, _sampler(name, seed, 1, mean, st_dev), copy)

    def set_multirange_uniform(self, name: str, intervals: Sequence[tuple[float, float]], seed: int, copy: int | None = None) -> None:
        """Any number of one of several ranges."""
        message = _sampler(name, seed, 2)
        message.write_float32_list([end for interval in intervals for end in interval])
        self._tell(name, message, copy)

    def on_connect(self, copy: int) -> None:
        """All that the copy has been told."""
        for payload in self._told[copy].values():
            self.send(_raw(payload), copy)

    def _tell(self, name: str, message: OutgoingMessage, copy: int | None) -> None:
        payload = bytes(message.buffer)
        for each in range(len(self._told)) if copy is None else (copy,):
            if self._told[each].get(name) != payload:
                self._told[each][name] = payload
                self.send(message, each)


class StatsReceiver(SideChannel):
    """What a game measures itself (C#'s StatsRecorder), until someone takes it."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """`warn` is told once of each name whose value is not finite, which is passed over; of names that are too long or too many."""
        super().__init__(STATS)
        self._measured: deque[Measurement] = deque(maxlen=KEPT)
        self._warn, self._warned = warn, set[str]()
        self._names = set[str]()
        self.passed_over = 0
        """Measurements of names beyond MOST_STATISTICS."""

    def receive(self, message: IncomingMessage, copy: int) -> None:
        """One measurement. The latest value is that of copy 0: of several copies, none is later than another."""
        name, value, kind = message.read_string(), message.read_float32(), message.read_int32()
        if not 0 <= kind < len(KINDS):
            raise ProtocolError(f"the statistic '{name}' is to be aggregated by method {kind}; expected 0 to {len(KINDS) - 1}")
        name = self._known(name)
        if name is None:
            self.passed_over += 1
        elif not math.isfinite(value):
            if name not in self._warned:
                self._warned.add(name)
                self._warn(f"the game's statistic '{name}' is {value} (copy {copy}); such values are passed over")
        elif KINDS[kind] != "latest" or copy == 0:
            self._measured.append(Measurement(name, value, KINDS[kind]))

    def _known(self, name: str) -> str | None:
        """The name, as far as it is used; None: there are too many."""
        if len(name) > LONGEST_NAME:
            if "" not in self._warned:
                self._warned.add("")
                self._warn(f"the game's statistic '{truncate(name, LONGEST_NAME)}' has too long a name; such names are cut")
            name = name[:LONGEST_NAME]
        if name not in self._names and len(self._names) >= MAX_STATISTICS:
            if not self.passed_over:
                self._warn(
                    f"the game has sent more than {MAX_STATISTICS:,} different statistics; '{name}' and all further names are passed over "
                    f"(a name should say what is measured, not which agent or episode it is of)"
                )
            return None
        self._names.add(name)
        return name

    def take(self) -> list[Measurement]:
        """All since the last call, in the order in which they came."""
        return [self._measured.popleft() for _ in range(len(self._measured))]


class FloatProperties(SideChannel):
    """Named numbers that both sides set and read."""

    restates = True

    def __init__(self, channel_id: UUID = FLOAT_PROPERTIES) -> None:
        super().__init__(channel_id)
        self._everywhere: dict[str, float] = {}
        self._own: defaultdict[int, dict[str, float]] = defaultdict(dict)  # by copy: set for it alone
        self._heard: defaultdict[int, dict[str, float]] = defaultdict(dict)  # by copy: said by it, and later than what was set

    def set(self, name: str, value: float, copy: int | None = None) -> None:
        """For one copy or all, which are told; copies that start again are told anew."""
        if copy is None:
            self._everywhere[name] = value
        else:
            self._own[copy][name] = value
        for values in (*self._heard.values(), *self._own.values()) if copy is None else (self._heard[copy],):
            values.pop(name, None)
        self._tell(name, value, copy)

    def get(self, name: str, copy: int = 0) -> float | None:
        """What was said last, on either side; None: nothing."""
        return self._values(copy).get(name)

    def names(self, copy: int = 0) -> list[str]:
        """Those that have a value."""
        return list(self._values(copy))

    def receive(self, message: IncomingMessage, copy: int) -> None:
        """A number that the game sets."""
        name, value = message.read_string(), message.read_float32()
        self._heard[copy][name] = value

    def on_connect(self, copy: int) -> None:
        """All that was set here; what an earlier game said is forgotten."""
        self._heard.pop(copy, None)
        for name, value in self._values(copy).items():
            self._tell(name, value, copy)

    def _values(self, copy: int) -> dict[str, float]:
        return {**self._everywhere, **self._own.get(copy, {}), **self._heard.get(copy, {})}

    def _tell(self, name: str, value: float, copy: int | None) -> None:
        message = OutgoingMessage()
        message.write_string(name)
        message.write_float32(value)
        self.send(message, copy)


class RawBytes(SideChannel):
    """Bytes as they are, in both directions."""

    def __init__(self, channel_id: UUID) -> None:
        super().__init__(channel_id)
        self._received: defaultdict[int, list[bytes]] = defaultdict(list)

    def send_raw_data(self, data: bytes | bytearray, copy: int | None = None) -> None:
        """To one copy or all."""
        self.send(_raw(data), copy)

    def take(self, copy: int = 0) -> list[bytes]:
        """What a copy sent since the last call."""
        return self._received.pop(copy, [])

    def receive(self, message: IncomingMessage, copy: int) -> None:
        """Keeps it for `take`."""
        self._received[copy].append(message.get_raw_bytes())


def _parameter(name: str, kind: int) -> OutgoingMessage:
    message = OutgoingMessage()
    message.write_string(name)
    message.write_int32(kind)
    return message


def _sampler(name: str, seed: int, kind: int, *numbers: float) -> OutgoingMessage:
    message = _parameter(name, 1)
    message.write_int32(seed)
    message.write_int32(kind)
    for number in numbers:
        message.write_float32(number)
    return message


def _raw(data: bytes | bytearray) -> OutgoingMessage:
    message = OutgoingMessage()
    message.set_raw_bytes(data)
    return message
