"""Side channel for environment parameters: values that a game reads by name, or distributions to sample them from."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from palaestra.unity.exception import UnityCommunicationException
from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage, message_of
from palaestra.wire.unity_channels import PARAMETERS


class EnvironmentParametersChannel(SideChannel):
    """Sends parameters. A Unity game samples a distribution at each read, other environments at each episode."""

    class EnvironmentDataTypes(IntEnum):
        """Kinds of data: the number that follows the name in a message."""

        FLOAT = 0
        SAMPLER = 1

    class SamplerTypes(IntEnum):
        """Kinds of distributions: the number that follows the seed in a message."""

        UNIFORM = 0
        GAUSSIAN = 1
        MULTIRANGEUNIFORM = 2

    def __init__(self) -> None:
        super().__init__(PARAMETERS)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Raises UnityCommunicationException: games send nothing on this channel."""
        raise UnityCommunicationException(
            "the game sent on the channel of its parameters, which only sends; do two channels share an id?"
        )

    def set_float_parameter(self, key: str, value: float) -> None:
        """Sets a value."""
        self.queue_message_to_send(message_of(key, self.EnvironmentDataTypes.FLOAT, float(value)))

    def set_uniform_sampler_parameters(self, key: str, min_value: float, max_value: float, seed: int) -> None:
        """Sets a uniform distribution."""
        self._send_sampler(key, seed, self.SamplerTypes.UNIFORM, float(min_value), float(max_value))

    def set_gaussian_sampler_parameters(self, key: str, mean: float, st_dev: float, seed: int) -> None:
        """Sets a normal distribution."""
        self._send_sampler(key, seed, self.SamplerTypes.GAUSSIAN, float(mean), float(st_dev))

    def set_multirangeuniform_sampler_parameters(
        self, key: str, intervals: Sequence[tuple[float, float]], seed: int
    ) -> None:
        """Sets a distribution that is uniform over several ranges."""
        ends = [end for interval in intervals for end in interval]
        self._send_sampler(key, seed, self.SamplerTypes.MULTIRANGEUNIFORM, ends)

    def _send_sampler(self, key: str, seed: int, kind: IntEnum, *numbers: float | Sequence[float]) -> None:
        self.queue_message_to_send(message_of(key, self.EnvironmentDataTypes.SAMPLER, seed, kind, *numbers))
