"""Seeds of the distributions from which games draw parameters."""

from __future__ import annotations

_APART = 0x9E3779B9


def sampler_seeds(seed: int, copies: int) -> list[int]:
    """Returns a 31-bit seed for each copy of a game, the first `seed`. The seeds are so far apart that consecutive
    seeds never coincide."""
    return [(seed + spacing(copy)) & 0x7FFFFFFF for copy in range(copies)]


def spacing(copies: int) -> int:
    """Returns the difference between the seeds of two copies whose numbers differ by `copies`. A restarted game gets
    the seed of a copy that does not exist, so that it does not draw the values again with which it crashed."""
    return _APART * copies & 0x7FFFFFFF
