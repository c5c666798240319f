"""A game in Python, written as one writes it in Unity: agents in an academy, that see with sensors and are told what to do.

>>> class Ball(sdk.Agent): ...
>>> @sdk.game
... def ball(academy: sdk.Academy) -> None:
...     academy.add(Ball())

`palaestra learn --env python:module:ball` trains it in one process; `ball.play()` plays it as a process of its own, which any
trainer of ML-Agents takes for a Unity game. Inside, a `cast` is an area's agents, an `academy` its clock, and a `stage` all areas; what
they say is gathered in an `outbox` and goes either into tables (`env`) or over a wire.
"""

from palaestra.sdk.academy import Academy
from palaestra.sdk.agents.actions import ActionMask, Actions
from palaestra.sdk.agents.agent import Agent
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.group import Group
from palaestra.sdk.agents.recorder import DemonstrationRecorder
from palaestra.sdk.agents.sensors import BufferSensor, ImageSensor, RaySensor, Sensor, StackedSensor, VectorSensor
from palaestra.sdk.areas import Areas
from palaestra.sdk.game import Game, game
from palaestra.sdk.protocol.game_channels import EnvironmentParameters, FloatProperties, RawBytes, StatAggregationMethod, StatsRecorder
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
