"""What was said of an environment parameter: a number, or a distribution to draw numbers from, as Unity does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from palaestra.envs.unity.side_channels import IncomingMessage
from palaestra.unity.exception import UnitySideChannelException
from palaestra.unity.side_channel.environment_parameters_channel import EnvironmentParametersChannel

_Data, _Kind = EnvironmentParametersChannel.EnvironmentDataTypes, EnvironmentParametersChannel.SamplerTypes


class Sampler:
    """Draws an area's values."""

    def __init__(self, draw: Callable[[int], NDArray], varies: bool) -> None:
        self._draw, self.varies = draw, varies

    def draw(self, count: int) -> NDArray[np.float32]:
        """(count,)."""
        return np.asarray(self._draw(count), np.float32)


def read_parameter(message: IncomingMessage) -> tuple[str, Sampler]:
    """A message of EnvironmentParametersChannel. Raises UnitySideChannelException for a kind that there is not."""
    name, data = message.read_string(), message.read_int32()
    if data == _Data.FLOAT:
        value = message.read_float32()
        return name, Sampler(lambda count: np.full(count, value), varies=False)
    random, kind = np.random.default_rng(message.read_int32() & 0xFFFFFFFF), message.read_int32()
    if kind == _Kind.UNIFORM:
        low, high = message.read_float32(), message.read_float32()
        return name, Sampler(lambda count: random.uniform(low, high, count), varies=True)
    if kind == _Kind.GAUSSIAN:
        mean, deviation = message.read_float32(), message.read_float32()
        return name, Sampler(lambda count: random.normal(mean, deviation, count), varies=True)
    if kind == _Kind.MULTIRANGEUNIFORM:
        return name, Sampler(_of_ranges(np.reshape(message.read_float32_list(), (-1, 2)), random), varies=True)
    raise UnitySideChannelException(
        f"environment parameter '{name}': there is no distribution of kind {kind} (there are 0 to {max(_Kind)})"
    )


def _of_ranges(ranges: NDArray, random: np.random.Generator) -> Callable[[int], NDArray]:
    """Any number of several ranges, the wider the likelier."""
    widths = ranges[:, 1] - ranges[:, 0]

    def draw(count: int) -> NDArray:
        chosen = random.choice(len(ranges), count, p=widths / widths.sum())
        return random.uniform(ranges[chosen, 0], ranges[chosen, 1])

    return draw
