"""Distributions of environment parameters, and their streams of random numbers.

A stream is a function of its purpose, not a generator with state: the k-th episode of an area always gets the k-th
number of that area's stream, whatever the timing, and only k has to be saved.
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
    """Distribution of an environment parameter."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """Returns the smallest and the largest value; None: no bounds."""
        ...

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """Returns samples made from two independent float64 uniforms within 0..1, in their shape."""
        ...

    def __str__(self) -> str:
        """Returns the distribution as text, in ML-Agents' words."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant value."""

    value: float

    @property
    def ends(self) -> tuple[float, float]:
        """Returns the value twice."""
        return self.value, self.value

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """Returns the value in the shape of `u`."""
        return torch.full_like(u, self.value)

    def __str__(self) -> str:
        return f"Float: value={self.value}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform distribution over a range."""

    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float]:
        """Returns both ends of the range."""
        return self.low, self.high

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """Returns samples that are linear in `u`."""
        return self.low + u * (self.high - self.low)

    def __str__(self) -> str:
        return f"Uniform sampler: min={self.low}, max={self.high}"


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Normal distribution."""

    mean: float
    st_dev: float

    @property
    def ends(self) -> None:
        """Returns None: the distribution has no bounds."""
        return

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """Returns normal samples. Box and Muller 1958, https://doi.org/10.1214/aoms/1177706645."""
        return self.mean + self.st_dev * torch.sqrt(-2 * torch.log(u)) * torch.cos(2 * torch.pi * v)

    def __str__(self) -> str:
        return f"Gaussian sampler: mean={self.mean}, stddev={self.st_dev}"


@dataclass(frozen=True, slots=True)
class MultiRangeUniform:
    """Uniform distribution over several ranges, each chosen in proportion to its width, unless all have a width of
    0."""

    intervals: tuple[tuple[float, float], ...]

    @property
    def ends(self) -> tuple[float, float]:
        """Returns the smallest and the largest value of all ranges."""
        return min(low for low, _ in self.intervals), max(high for _, high in self.intervals)

    def values(self, u: Tensor, v: Tensor) -> Tensor:
        """Returns samples: `u` chooses the range, `v` the place in it."""
        widths = [high - low for low, high in self.intervals]
        widths = widths if any(widths) else [1.0] * len(widths)
        values = torch.zeros_like(u)
        # plain numbers: copying a tensor to the device would wait
        for k, (low, high) in reversed([*enumerate(self.intervals)]):
            within = (
                u * sum(widths) < sum(widths[: k + 1]) if k + 1 < len(widths) else torch.ones_like(u, dtype=torch.bool)
            )
            values = torch.where(within, low + v * (high - low), values)
        return values

    def __str__(self) -> str:
        return f"MultiRangeUniform sampler: intervals={[tuple(interval) for interval in self.intervals]}"


def sampler_of(value: float | SamplerSettings) -> Sampler:
    """Returns the distribution of a setting."""
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
    """Returns the seed that settings give a sampler; None: it is derived from the run's seed."""
    seed = value.sampler_parameters.seed if isinstance(value, SamplerSettings) else -1
    return None if seed == -1 else seed


def key_of(seed: int, parameter: str, lesson: int) -> tuple[int, int]:
    """Returns the key, two 32-bit words, of a parameter's streams in a lesson."""
    words = np.random.SeedSequence([seed & _WORD, lesson, *parameter.encode()]).generate_state(2)
    return int(words[0]), int(words[1])


class Stream:
    """Values of a parameter in one lesson, one for each episode of each area."""

    def __init__(self, sampler: Sampler, key: tuple[int, int], bounds: tuple[float, float] | None = None) -> None:
        """Clips values to `bounds`."""
        self._sampler = sampler
        self._key = key
        self._bounds = bounds

    def drawn(self, episodes: Tensor) -> Tensor:
        """Returns the values of episodes (areas, N) int64, as (areas, N) float32."""
        area = torch.arange(len(episodes), device=episodes.device)[:, None].expand_as(episodes)
        words = philox((episodes & _WORD, episodes >> 32, area, torch.zeros_like(area)), self._key)
        values = self._sampler.values(*[(word.double() + 0.5) / 2**32 for word in words[:2]])
        return (values if self._bounds is None else values.clamp(*self._bounds)).float()


def philox(counter: Sequence[Tensor], key: tuple[int, int]) -> tuple[Tensor, ...]:
    """Returns four random 32-bit words (int64 tensors) for every four words of a counter: Philox4x32-10.

    Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", https://doi.org/10.1145/2063384.2063405. With one
    key no two counters give the same four words, so streams with different counters never meet.
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        # modulo 2^64: the sign bit is an ordinary bit
        left = a * _MULTIPLIERS[0]
        right = c * _MULTIPLIERS[1]
        a = ((right >> 32) & _WORD) ^ b ^ k0
        b = right & _WORD
        c = ((left >> 32) & _WORD) ^ d ^ k1
        d = left & _WORD
        k0 = (k0 + _WEYL[0]) & _WORD
        k1 = (k1 + _WEYL[1]) & _WORD
    return a, b, c, d
