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

from palaestra.sdk.agents.academy import Academy as Academy
from palaestra.sdk.agents.academy import Agent as Agent
from palaestra.sdk.agents.actions import ActionMask as ActionMask
from palaestra.sdk.agents.actions import Actions as Actions
from palaestra.sdk.agents.behavior import Behavior as Behavior
from palaestra.sdk.agents.group import Group as Group
from palaestra.sdk.agents.recorder import DemonstrationRecorder as DemonstrationRecorder
from palaestra.sdk.agents.sensors import BufferSensor as BufferSensor
from palaestra.sdk.agents.sensors import ImageSensor as ImageSensor
from palaestra.sdk.agents.sensors import RaySensor as RaySensor
from palaestra.sdk.agents.sensors import Sensor as Sensor
from palaestra.sdk.agents.sensors import StackedSensor as StackedSensor
from palaestra.sdk.agents.sensors import VectorSensor as VectorSensor
from palaestra.sdk.areas import Areas as Areas
from palaestra.sdk.game import Game as Game
from palaestra.sdk.game import game as game
from palaestra.sdk.protocol.game_channels import EnvironmentParameters as EnvironmentParameters
from palaestra.sdk.protocol.game_channels import FloatProperties as FloatProperties
from palaestra.sdk.protocol.game_channels import RawBytes as RawBytes
from palaestra.sdk.protocol.game_channels import StatAggregationMethod as StatAggregationMethod
from palaestra.sdk.protocol.game_channels import StatsRecorder as StatsRecorder
from palaestra.sdk.protocol.game_side_channels import IncomingMessage as IncomingMessage
from palaestra.sdk.protocol.game_side_channels import OutgoingMessage as OutgoingMessage
from palaestra.sdk.protocol.game_side_channels import SideChannel as SideChannel
