"""Distributions that environment parameters are drawn from, and the streams of random numbers that they are drawn with.

A stream is a function of what it is for, not a generator with a state: the k-th episode of an area always gets the k-th number of
that area's stream, whatever the timing, and all that has to be saved is k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from palaestra.scenario.settings import (
    ConstantSettings,
    GaussianSettings,
    MultiRangeUniformSettings,
    SamplerSettings,
    UniformSettings,
)

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


class Sampler(Protocol):
    """A distribution."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """Least and greatest of what is drawn; None: it has no bounds."""
        ...

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """What two independent float64 numbers within 0..1 make, of their shape."""
        ...

    def __str__(self) -> str:
        """In logs, in ML-Agents' words."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same number."""

    value: float

    @property
    def ends(self) -> tuple[float, float]:
        """The number."""
        return self.value, self.value

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """The number."""
        return torch.full_like(u, self.value)

    def __str__(self) -> str:
        return f"Float: value={self.value}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any number of a range."""

    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float]:
        """Those of the range."""
        return self.low, self.high

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """Linear in the first."""
        return self.low + u * (self.high - self.low)

    def __str__(self) -> str:
        return f"Uniform sampler: min={self.low}, max={self.high}"


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A normal distribution."""

    mean: float
    st_dev: float

    @property
    def ends(self) -> None:
        """None: any number may come."""
        return

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """Box and Muller 1958, https://doi.org/10.1214/aoms/1177706645."""
        return self.mean + self.st_dev * torch.sqrt(-2 * torch.log(u)) * torch.cos(2 * torch.pi * v)

    def __str__(self) -> str:
        return f"Gaussian sampler: mean={self.mean}, stddev={self.st_dev}"


@dataclass(frozen=True, slots=True)
class MultiRangeUniform:
    """Any number of one of several ranges: of a wider one more often; where none has a width, of each as often."""

    intervals: tuple[tuple[float, float], ...]

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest of all."""
        return min(low for low, _ in self.intervals), max(high for _, high in self.intervals)

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """The first chooses the range, the second the place in it."""
        widths = [high - low for low, high in self.intervals]
        widths = widths if any(widths) else [1.0] * len(widths)
        values = torch.zeros_like(u)
        for k, (low, high) in reversed([*enumerate(self.intervals)]):  # numbers, no tensors: bringing one to an accelerator waits
            within = u * sum(widths) < sum(widths[: k + 1]) if k + 1 < len(widths) else torch.ones_like(u, dtype=torch.bool)
            values = torch.where(within, low + v * (high - low), values)
        return values

    def __str__(self) -> str:
        return f"MultiRangeUniform sampler: intervals={[tuple(interval) for interval in self.intervals]}"


def sampler_of(value: float | SamplerSettings) -> Sampler:
    """The distribution that settings mean."""
    if not isinstance(value, SamplerSettings):
        return Constant(float(value))
    match value.sampler_parameters:
        case ConstantSettings(value=number):
            return Constant(number)
        case UniformSettings(min_value=low, max_value=high):
            return Uniform(low, high)
        case GaussianSettings(mean=mean, st_dev=st_dev):
            return Gaussian(mean, st_dev)
        case MultiRangeUniformSettings(intervals=intervals):
            return MultiRangeUniform(intervals)


def own_seed(value: float | SamplerSettings) -> int | None:
    """The seed that settings give a sampler; None: it is derived from the run's."""
    seed = value.sampler_parameters.seed if isinstance(value, SamplerSettings) else -1
    return None if seed == -1 else seed


def key_of(seed: int, parameter: str, lesson: int) -> tuple[int, int]:
    """Two words of 32 bits: which streams a parameter has in a lesson. Other parameters and lessons have others, of whatever seed."""
    words = np.random.SeedSequence([seed & _WORD, lesson, *parameter.encode()]).generate_state(2)
    return int(words[0]), int(words[1])


def seeds_of(seed: int, copies: int) -> list[int]:
    """One of 31 bits for each copy of a game that draws by itself, the first `seed`; so far apart that seeds counted up never meet."""
    return [(seed + _WEYL[0] * copy) & 0x7FFFFFFF for copy in range(copies)]


class Stream:
    """A parameter's values in one lesson: of each area one an episode."""

    def __init__(self, sampler: Sampler, key: tuple[int, int], bounds: tuple[float, float] | None = None) -> None:
        """Values beyond `bounds` are moved there."""
        self._sampler, self._key, self._bounds = sampler, key, bounds

    def drawn(self, episodes: Tensor) -> Tensor:
        """(areas, N) float32: those of any episodes, (areas, N) int64."""
        area = torch.arange(len(episodes), device=episodes.device)[:, None].expand_as(episodes)
        words = philox((episodes & _WORD, episodes >> 32, area, torch.zeros_like(area)), self._key)
        values = self._sampler.values(*[(word.double() + 0.5) / 2**32 for word in words[:2]])
        return (values if self._bounds is None else values.clamp(*self._bounds)).float()


def philox(counter: Sequence[Tensor], key: tuple[int, int]) -> tuple[Tensor, ...]:
    """Four random words of 32 bits (int64 tensors) for each four of a counter: Philox4x32-10.

    Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", https://doi.org/10.1145/2063384.2063405. Of one key no two
    counters give the same four words, so that streams whose counters differ never meet.
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]  # modulo 2^64: the sign bit is a digit like any other
        a, b, c, d = ((right >> 32) & _WORD) ^ b ^ k0, right & _WORD, ((left >> 32) & _WORD) ^ d ^ k1, left & _WORD
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return a, b, c, d
