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
from palaestra.sdk.actions import ActionMask, Actions
from palaestra.sdk.agent import Agent
from palaestra.sdk.behavior import Behavior
from palaestra.sdk.channels import FloatProperties, RawBytes
from palaestra.sdk.game import Game, game
from palaestra.sdk.group import Group
from palaestra.sdk.parameters import EnvironmentParameters
from palaestra.sdk.recorder import DemonstrationRecorder
from palaestra.sdk.sensors import BufferSensor, ImageSensor, RaySensor, Sensor, StackedSensor, VectorSensor
from palaestra.sdk.side_channels import IncomingMessage, OutgoingMessage, SideChannel
from palaestra.sdk.stage import Stage
from palaestra.sdk.stats import StatAggregationMethod, StatsRecorder

__all__ = [
    "Academy",
    "ActionMask",
    "Actions",
    "Agent",
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
    "Stage",
    "StatAggregationMethod",
    "StatsRecorder",
    "VectorSensor",
    "game",
]
