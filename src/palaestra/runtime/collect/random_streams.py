"""Finds the streams of random numbers that an object and its parts use, by their type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch


def reseed(whole: object, seed: int) -> None:
    """Seeds every stream, the first with `seed`, the others with the numbers that follow."""
    for i, stream in enumerate(streams_of(whole)):
        stream.manual_seed(seed + i)


def streams_of(whole: object) -> Iterator[torch.Generator]:
    """Yields each stream once, in the order of the attributes."""
    seen = set[int]()
    waiting = [whole]
    while waiting:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, torch.Generator):
            yield each
        elif isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
        elif type(each).__module__.startswith("palaestra.") or each is whole:
            waiting.extend(vars(each).values() if hasattr(each, "__dict__") else ())
