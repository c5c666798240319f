"""Side channel for settings of Unity's engine."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from palaestra.unity.exception import UnityCommunicationException, UnitySideChannelException
from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.wire.side_channels import IncomingMessage, message_of
from palaestra.wire.unity_channels import ENGINE


class EngineConfig(NamedTuple):
    """Engine settings; None leaves a setting unchanged."""

    width: int | None  # of the window, in pixels
    height: int | None
    quality_level: int | None
    time_scale: float | None
    target_frame_rate: int | None  # -1: as fast as it goes
    capture_frame_rate: int | None

    @staticmethod
    def default_config() -> EngineConfig:
        """Returns settings for training: a small window, at twenty times real time."""
        return EngineConfig(80, 80, 1, 20.0, -1, 60)


class EngineConfigurationChannel(SideChannel):
    """Sends engine settings; environments other than Unity games ignore them."""

    class ConfigurationType(IntEnum):
        """Kinds of settings, the first number of a message."""

        SCREEN_RESOLUTION = 0
        QUALITY_LEVEL = 1
        TIME_SCALE = 2
        TARGET_FRAME_RATE = 3
        CAPTURE_FRAME_RATE = 4

    def __init__(self) -> None:
        super().__init__(ENGINE)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Raises UnityCommunicationException: games send nothing on this channel."""
        raise UnityCommunicationException(
            "the game sent on the channel of engine settings, which only sends; do two channels share an id?"
        )

    def set_configuration_parameters(
        self,
        width: int | None = None,
        height: int | None = None,
        quality_level: int | None = None,
        time_scale: float | None = None,
        target_frame_rate: int | None = None,
        capture_frame_rate: int | None = None,
    ) -> None:
        """Sends the given settings. Raises UnitySideChannelException if only one of width and height is given."""
        if (width is None) != (height is None):
            raise UnitySideChannelException(
                f"a window has a width and a height, not one of the two; {width} x {height} was given"
            )
        kinds = self.ConfigurationType
        if width is not None and height is not None:
            self.queue_message_to_send(message_of(kinds.SCREEN_RESOLUTION, width, height))
        scale = None if time_scale is None else float(time_scale)
        for kind, number in zip(
            list(kinds)[1:], (quality_level, scale, target_frame_rate, capture_frame_rate), strict=True
        ):
            if number is not None:
                self.queue_message_to_send(message_of(kind, number))

    def set_configuration(self, config: EngineConfig) -> None:
        """Sends all settings that are not None."""
        self.set_configuration_parameters(**config._asdict())
