"""How large what a game or a demonstration file shows may be: a few bytes can ask for all of a machine's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

from palaestra.core.errors import ProtocolError
from palaestra.core.memory import size_of

MOST_NUMBERS = 1 << 26
"""Numbers of all observations of one agent, beyond which a message is damaged rather than a game large; 256 MiB."""
SLACK = 1 << 16
"""Bytes of an observation's message beside its numbers: names, compressed headers."""
MB = 1_000_000


class Observed(Protocol):
    """One observation of a behavior, as far as its size goes."""

    name: str
    sent: tuple[int, ...]


class Read(Protocol):
    """A behavior's observations, as far as their size goes."""

    name: str

    @property
    def sensors(self) -> Sequence[Observed]:
        """One for each observation."""
        ...


def most_bytes(shape: tuple[int, ...]) -> int:
    """Of the message of an observation of this shape: twice what its numbers take, for PNGs of more channels than are used, and SLACK."""
    return 8 * prod(shape) + SLACK


def check_agent(behavior: str, agent: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ProtocolError where an agent announces more numbers than any has. `shapes` by observation."""
    total = sum(map(prod, shapes.values()))
    if total > MOST_NUMBERS:
        name, shape = max(shapes.items(), key=lambda item: prod(item[1]))
        raise ProtocolError(
            f"behavior '{behavior}', agent {agent}: observation '{name}' has shape {shape}, and all observations {total:,} numbers; "
            f"expected at most {MOST_NUMBERS:,} ({size_of(4 * MOST_NUMBERS)}) of one agent"
        )


def check_tick(length: int, agents: Sequence[tuple[Read, int, int]], most: float | None) -> None:
    """Raises ProtocolError where a message is larger than `most` megabytes, as it came or as numbers.

    `length`: its bytes; `agents`: each behavior in it, with how many agents it has there and the id of one. None: anything goes.
    """
    if most is None:
        return
    raises = f"at most {most:,g} MB a message, which env_settings.max_message_mb sets"
    if length > most * MB:
        raise ProtocolError(f"a message of {length / MB:,.1f} MB came; expected {raises}")
    sizes = [(4 * prod(sensor.sent) * count, read, sensor, count, agent) for read, count, agent in agents for sensor in read.sensors]
    total = sum(size for size, *_ in sizes)
    if total > most * MB:
        size, read, sensor, count, agent = max(sizes, key=lambda one: one[0])
        raise ProtocolError(
            f"behavior '{read.name}', agent {agent}: observation '{sensor.name}' of shape {sensor.sent} takes {size / MB:,.1f} MB as "
            f"numbers for the {count:,} agents of a message, and all observations {total / MB:,.1f} MB; expected {raises}"
        )
