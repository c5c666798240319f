"""The side channels that every game has, and two ready-made ones for users: float properties and raw bytes."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import UUID

from palaestra.core.errors import ProtocolError
from palaestra.core.metrics import Aggregation, Measurement
from palaestra.wire.limits import truncate
from palaestra.wire.side_channels import IncomingMessage, SideChannel, message_of

ENGINE = UUID("e951342c-4f7e-11ea-b238-784f4387d1f7")
PARAMETERS = UUID("534c891e-810f-11ea-a9d0-822485860400")
FLOAT_PROPERTIES = UUID("60ccf7d0-4f7e-11ea-b238-784f4387d1f7")
STATS = UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520")

_Parameter: TypeAlias = "tuple[Any, ...]"  # a value, or a seed, a kind of distribution and its numbers
KINDS: tuple[Aggregation, ...] = ("mean", "latest", "total", "spread")  # by Unity's StatAggregationMethod
DISTRIBUTIONS = ("uniform", "gaussian", "multirangeuniform")  # by Unity's SamplerType
MAX_STATISTICS = 1000
"""Most different names of statistics; further ones are ignored."""
LONGEST_NAME = 200
"""Longest name of a statistic in characters; longer ones are shortened."""
MAX_MEASUREMENTS = 100_000
"""Most measurements held until `take`; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Unity's engine settings, which are sent before the first tick."""

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
        """Sends one message for each setting."""
        engine = self.engine
        scale = float(engine.time_scale)
        self.send(message_of(0, engine.width, engine.height), copy)
        for kind, number in enumerate(
            (engine.quality_level, scale, engine.target_frame_rate, engine.capture_frame_rate), 1
        ):
            self.send(message_of(kind, number), copy)

    def set_time_scale(self, time_scale: float) -> None:
        """Sends another time scale to all copies, and to copies that connect later."""
        self.engine = replace(self.engine, time_scale=time_scale)
        self.send(message_of(2, float(time_scale)))


class ParametersSender(SideChannel):
    """Sends environment parameters, a value or a distribution, to each copy: changes as they happen, and all when it
    connects.

    The game samples from a distribution each time it reads the parameter. Sending a distribution again would restart
    its random numbers, so a game that replaces a crashed game gets it with another seed (`shift_seeds`).
    """

    restates = True

    def __init__(self, copies: int) -> None:
        super().__init__(PARAMETERS)
        self._latest: list[dict[str, _Parameter]] = [{} for _ in range(copies)]  # by copy and name
        self._shifts = [0] * copies  # added to the seeds of each copy

    def shift_seeds(self, copy: int, shift: int) -> None:
        """Adds a number to all seeds that are sent to a copy from now on. Call it before a copy connects again."""
        self._shifts[copy] = shift

    def set(self, name: str, value: float, copy: int | None = None) -> None:
        """Sets a constant, for one copy or all."""
        self._update(name, (float(value),), copy)

    def sample(self, name: str, kind: str, numbers: Sequence[float], seed: int, copy: int | None = None) -> None:
        """Sets one of DISTRIBUTIONS; `numbers` are its two parameters, or both ends of each range."""
        ends = tuple(map(float, numbers))
        several = kind == "multirangeuniform"
        self._update(name, (seed, DISTRIBUTIONS.index(kind), *((ends,) if several else ends)), copy)

    def on_connect(self, copy: int) -> None:
        """Sends all parameters of the copy again."""
        for name, parameter in self._latest[copy].items():
            self._send(name, parameter, copy)

    def _update(self, name: str, parameter: _Parameter, copy: int | None) -> None:
        for each in range(len(self._latest)) if copy is None else (copy,):
            if self._latest[each].get(name) != parameter:
                self._send(name, parameter, each)
                self._latest[each][name] = parameter

    def _send(self, name: str, parameter: _Parameter, copy: int) -> None:
        first, *rest = parameter
        if rest and (shift := self._shifts[copy]):
            first = (int(first) + shift) & 0x7FFFFFFF
        self.send(message_of(name, 1 if rest else 0, first, *rest), copy)


def read_parameter(message: IncomingMessage) -> tuple[str, str, list[float], int]:
    """Returns name, kind ("value" or one of DISTRIBUTIONS), numbers and seed. Raises ProtocolError for other kinds."""
    name = message.read_string()
    if (data := message.read_int32()) == 0:
        return name, "value", [message.read_float32()], 0
    seed = message.read_int32()
    sampler = message.read_int32()
    if data != 1 or not 0 <= sampler < len(DISTRIBUTIONS):
        raise ProtocolError(
            f"the parameter '{name}' is of kind {data} with sampler {sampler}; expected kind 0 or 1, sampler 0 to 2"
        )
    several = DISTRIBUTIONS[sampler] == "multirangeuniform"
    numbers = message.read_float32_list() if several else [message.read_float32(), message.read_float32()]
    return name, DISTRIBUTIONS[sampler], numbers, seed


class StatsReceiver(SideChannel):
    """Collects the measurements of a game (C#'s StatsRecorder) until `take`."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """`warn` is called once for each name that is not finite, and once for names too long or too many."""
        super().__init__(STATS)
        self._measured: deque[Measurement] = deque(maxlen=MAX_MEASUREMENTS)
        self._warn = warn
        self._warned = set[str]()
        self._names = set[str]()
        self.ignored = 0
        """Number of measurements ignored because there are more than MAX_STATISTICS names."""

    def receive(self, message: IncomingMessage, copy: int) -> None:
        """Stores one measurement; 'latest' values only from copy 0, because copies have no common order."""
        name = message.read_string()
        value = message.read_float32()
        kind = message.read_int32()
        if not 0 <= kind < len(KINDS):
            raise ProtocolError(
                f"the statistic '{name}' is to be aggregated by method {kind}; expected 0 to {len(KINDS) - 1}"
            )
        name = self._known(name)
        if name is None:
            self.ignored += 1
        elif not math.isfinite(value):
            if name not in self._warned:
                self._warned.add(name)
                self._warn(f"the game's statistic '{name}' is {value} (copy {copy}); such values are ignored")
        elif KINDS[kind] != "latest" or copy == 0:
            self._measured.append(Measurement(name, value, KINDS[kind]))

    def _known(self, name: str) -> str | None:
        if len(name) > LONGEST_NAME:
            if "" not in self._warned:
                self._warned.add("")
                self._warn(
                    f"the game's statistic '{truncate(name, LONGEST_NAME)}' has too long a name; such names are cut"
                )
            name = name[:LONGEST_NAME]
        if name not in self._names and len(self._names) >= MAX_STATISTICS:
            if not self.ignored:
                self._warn(
                    f"the game has sent more than {MAX_STATISTICS:,} different statistics; '{name}' and all further "
                    "names are ignored (a name should say what is measured, not which agent or episode it is of)"
                )
            return None
        self._names.add(name)
        return name

    def take(self) -> list[Measurement]:
        """Returns and removes the measurements since the last call, in the order of their arrival."""
        return [self._measured.popleft() for _ in range(len(self._measured))]


class FloatProperties(SideChannel):
    """Named numbers that the game and Python both set and read."""

    restates = True

    def __init__(self, channel_id: UUID = FLOAT_PROPERTIES) -> None:
        super().__init__(channel_id)
        self._everywhere: dict[str, float] = {}
        self._by_copy: defaultdict[int, dict[str, float]] = defaultdict(dict)  # set for one copy
        # by copy: received, and not set here since
        self._received: defaultdict[int, dict[str, float]] = defaultdict(dict)

    def set(self, name: str, value: float, copy: int | None = None) -> None:
        """Sets a number and sends it to one copy or all; copies that restart get it again."""
        if copy is None:
            self._everywhere[name] = value
        else:
            self._by_copy[copy][name] = value
        for values in (*self._received.values(), *self._by_copy.values()) if copy is None else (self._received[copy],):
            values.pop(name, None)
        self._update(name, value, copy)

    def get(self, name: str, copy: int = 0) -> float | None:
        """Returns the number last set by either side; None: never set."""
        return self._values(copy).get(name)

    def names(self, copy: int = 0) -> list[str]:
        """Returns the names that are set."""
        return list(self._values(copy))

    def receive(self, message: IncomingMessage, copy: int) -> None:
        """Stores a number that the game sets."""
        name = message.read_string()
        value = message.read_float32()
        self._received[copy][name] = value

    def on_connect(self, copy: int) -> None:
        """Sends all numbers that were set on this side, and forgets the numbers of an earlier game."""
        self._received.pop(copy, None)
        for name, value in self._values(copy).items():
            self._update(name, value, copy)

    def _values(self, copy: int) -> dict[str, float]:
        return {**self._everywhere, **self._by_copy.get(copy, {}), **self._received.get(copy, {})}

    def _update(self, name: str, value: float, copy: int | None) -> None:
        self.send(message_of(name, float(value)), copy)


class RawBytes(SideChannel):
    """Raw bytes, in both directions."""

    def __init__(self, channel_id: UUID) -> None:
        super().__init__(channel_id)
        self._received: defaultdict[int, list[bytes]] = defaultdict(list)

    def send_raw_data(self, data: bytes | bytearray, copy: int | None = None) -> None:
        """Sends bytes to one copy or all."""
        self.send(message_of(bytes(data)), copy)

    def take(self, copy: int = 0) -> list[bytes]:
        """Returns and removes the messages that a copy sent since the last call."""
        return self._received.pop(copy, [])

    def receive(self, message: IncomingMessage, copy: int) -> None:
        """Stores a message for `take`."""
        self._received[copy].append(message.get_raw_bytes())
