"""Games in Python with the concepts of Unity ML-Agents: agents in an academy, with sensors and actions.

>>> class Ball(sdk.Agent): ...
>>> @sdk.game
... def ball(academy: sdk.Academy) -> None:
...     academy.add(Ball())

`palaestra learn --env python:module:ball` trains it in the trainer's process; `ball.play()` runs it as a separate
process that speaks the protocol of a Unity game, so any ML-Agents trainer can use it. Inside, an `Academy` steps the
agents of one area, which an `AgentRegistry` holds, and `Areas` steps all areas. An `ObservationQueue` collects the
agents' outputs for `env` (tables) or `protocol` (messages).
"""

from palaestra.sdk.agents.academy import Academy, Agent
from palaestra.sdk.agents.actions import ActionMask, Actions
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.group import Group
from palaestra.sdk.agents.recorder import DemonstrationRecorder
from palaestra.sdk.agents.sensors import BufferSensor, ImageSensor, RaySensor, Sensor, StackedSensor, VectorSensor
from palaestra.sdk.areas import Areas
from palaestra.sdk.game import Game, game
from palaestra.sdk.protocol.game_channels import (
    EnvironmentParameters,
    FloatProperties,
    RawBytes,
    StatAggregationMethod,
    StatsRecorder,
)
from palaestra.sdk.protocol.game_side_channels import IncomingMessage, OutgoingMessage, SideChannel

__all__ = [
    "Academy",
    "ActionMask",
    "Actions",
    "Agent",
    "Areas",
    "Behavior",
    "BufferSensor",
    "DemonstrationRecorder",
    "EnvironmentParameters",
    "FloatProperties",
    "Game",
    "Group",
    "ImageSensor",
    "IncomingMessage",
    "OutgoingMessage",
    "RawBytes",
    "RaySensor",
    "Sensor",
    "SideChannel",
    "StackedSensor",
    "StatAggregationMethod",
    "StatsRecorder",
    "VectorSensor",
    "game",
]
