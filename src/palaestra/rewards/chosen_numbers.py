"""Numbers of observations that are chosen by the names of sensors and by ranges, such as `Body[63:126]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec, ObsSpec, named, shape_text

_ENTRY = re.compile(r"(.+)\[([^\[\]]*)\]", re.DOTALL)
_PART = re.compile(r"(\d+)|(\d*):(\d*)")
Span = tuple[int, int | None]
"""Index of the first number, and of the one after the last; None: up to the end."""


@dataclass(frozen=True)
class ChosenSensor:
    """Some numbers of a vector observation."""

    index: int
    """Index of the observation in the spec."""
    name: str
    size: int
    """How many numbers the observation has."""
    numbers: tuple[int, ...]
    """Indices of the chosen numbers, rising."""

    def __str__(self) -> str:
        return self.name if len(self.numbers) == self.size else f"{self.name}[{_ranges(self.numbers)}]"

    @property
    def names(self) -> list[str]:
        """Names of the numbers, such as 'Body[63]'."""
        return [f"{self.name}[{i}]" for i in self.numbers]


def parse_numbers(entry: object) -> tuple[str, list[Span]]:
    """Returns the name of a sensor, or a pattern of names, and the ranges after it: none for all numbers.

    Raises ValueError for text of another form.
    """
    if not isinstance(entry, str) or not entry.strip():
        raise ValueError(f"expected the name of a sensor, such as Body or Body[0:12], got {entry!r}")
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        return entry.strip(), []
    spans = list[Span]()
    for text in match[2].split(","):
        part = _PART.fullmatch(text.strip())
        first, end = (None, None) if part is None else (part[1] or part[2] or "0", part[3])
        if part is not None and part[1]:
            end = str(int(part[1]) + 1)
        if first is None or (end and int(end) <= int(first)):
            raise ValueError(
                f"{entry}: expected numbers such as [0, 3:6], each from 0 on and each range rising, got "
                f"{text.strip()!r}"
            )
        spans.append((int(first), int(end) if end else None))
    return match[1].strip(), spans


def choose_numbers(entries: Sequence[str] | None, spec: BehaviorSpec, where: str) -> tuple[ChosenSensor, ...]:
    """Returns the chosen numbers in the order of the spec; without entries, all vectors except goals.

    `where`: the setting's name in messages. Raises ConfigError.
    """
    chosen: dict[int, set[int]] = {}
    if entries is None:
        chosen = {i: set(range(obs.shape[0])) for i, obs in enumerate(spec.obs) if obs.is_vector and not obs.goal}
        if not chosen:
            raise ConfigError(f"{where}: the behavior has no vector observation except goals ({_listed(spec.obs)})")
    for entry in entries or ():
        name, spans = parse_numbers(entry)
        known = [obs.name for obs in spec.obs]
        if entry.strip() in known:  # a name that ends in brackets
            name, spans = entry.strip(), []
        found = named(name, known)
        if not found:
            raise ConfigError(
                f"{where}: no observation is named '{name}'{nearest(name, known)} (there are: {_listed(spec.obs)})"
            )
        for i in found:
            chosen.setdefault(i, set()).update(_numbers(entry, spans, spec.obs[i], where))
    return tuple(
        ChosenSensor(i, spec.obs[i].name, spec.obs[i].shape[0], tuple(sorted(chosen[i]))) for i in sorted(chosen)
    )


def without(sensors: Iterable[ChosenSensor], names: Iterable[str]) -> str:
    """Returns entries that choose the same numbers without those in `names`, as a list in YAML."""
    out = set(names)
    left = [
        (each, tuple(i for i, name in zip(each.numbers, each.names, strict=True) if name not in out))
        for each in sensors
    ]
    entries = [ChosenSensor(each.index, each.name, each.size, numbers) for each, numbers in left if numbers]
    return f"[{', '.join(repr(str(entry)) for entry in entries)}]" if entries else ""


def _numbers(entry: str, spans: list[Span], obs: ObsSpec, where: str) -> Iterable[int]:
    if not obs.is_vector:
        kind = "an image" if obs.is_visual else "a list of entities"
        why = "they would fill memory" if obs.is_visual else "their rows have no order"
        raise ConfigError(
            f"{where}: '{obs.name}' is {kind} {obs.shape}; expected vectors: pairs of states are compared number by "
            f"number and {'100,000 of them are kept, and ' if obs.is_visual else ''}{why} (gail takes any observation)"
        )
    size = obs.shape[0]
    numbers = list[int]()
    for first, end in spans or [(0, None)]:
        last = size if end is None else end
        if first >= size or last > size:
            raise ConfigError(
                f"{where}: {entry} asks for number {max(first, last - 1)}; '{obs.name}' has 0 to {size - 1}"
            )
        numbers += range(first, last)
    return numbers


def _ranges(numbers: Sequence[int]) -> str:
    """Returns rising numbers as ranges, such as '0, 3:6'."""
    spans = list[list[int]]()
    for i in numbers:
        if spans and spans[-1][1] == i:
            spans[-1][1] = i + 1
        else:
            spans.append([i, i + 1])
    return ", ".join(str(a) if b == a + 1 else f"{a}:{b}" for a, b in spans)


def _listed(observations: Sequence[ObsSpec]) -> str:
    return ", ".join(f"{obs.name} {shape_text(obs.shape)}" for obs in observations)
