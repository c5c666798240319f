"""Agents of a game: the class that a game's author derives from, and the state kept for each agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan
from random import Random
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from palaestra.core.errors import EnvError, PalaestraError, exception_summary, user_code_location
from palaestra.core.specs import BehaviorSpec
from palaestra.sdk.agents.actions import ActionMask, Actions
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.sensors import Sensor, VectorSensor
from palaestra.sdk.protocol.game_channels import EnvironmentParameters, StatsRecorder
from palaestra.sdk.protocol.game_side_channels import SideChannel
from palaestra.wire.unity_channels import Engine

AgentT = TypeVar("AgentT", bound="Agent")
CallT = TypeVar("CallT", bound=Callable[[], object])
SensorT = TypeVar("SensorT", bound=Sensor)

LARGEST = 3.4028234e38
"""Largest finite float32, the type in which rewards are sent."""


class UserCodeError(EnvError):
    """An error in the author's code, whose message already names the agent and the place."""


class AgentAcademy(Protocol):
    """Academy of an area, as its agents use it."""

    area: int
    random: Random
    rng: np.random.Generator
    environment_parameters: EnvironmentParameters
    stats_recorder: StatsRecorder
    side_channels: list[SideChannel]
    engine: Engine
    step_count: int
    total_step_count: int
    episode_count: int

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The enabled agents of the area."""
        ...

    def add(self, agent: AgentT, id: int | None = None) -> AgentT:
        """Adds an agent to the game and returns it."""
        ...

    def remove(self, agent: Agent) -> None:
        """Removes an agent from the game."""
        ...

    def on_step(self, function: CallT) -> CallT:
        """Registers a function to call after each step."""
        ...

    def on_reset(self, function: CallT) -> CallT:
        """Registers a function to call at each reset."""
        ...

    def on_close(self, function: CallT) -> CallT:
        """Registers a function to call when the game is closed."""
        ...


class AreaRegistry(Protocol):
    """Adds, ends and removes the agents of one area."""

    @property
    def academy(self) -> AgentAcademy:
        """The area's Academy."""
        ...

    @property
    def area_label(self) -> str:
        """Area for messages, such as ' of area 3'; empty if there is only one."""
        ...

    def new_group(self) -> int:
        """Returns an unused group id."""
        ...

    def enable(self, state: AgentState, /) -> None:
        """Puts an agent into the game."""
        ...

    def disable(self, state: AgentState, /) -> None:
        """Takes an agent out of the game."""
        ...

    def change_behavior(self, state: AgentState, behavior: Behavior, /) -> None:
        """Gives an agent another behavior or team."""
        ...

    def end_episode(self, state: AgentState, /, truncated: bool, what: str) -> None:
        """Ends an agent's episode; `what` is the method that asked for it."""
        ...


class BehaviorQueue(Protocol):
    """Collects what the agents of one behavior and team have to send."""

    key: str
    spec: BehaviorSpec

    def add_decision(self, state: AgentState, obs_bytes: Sequence[bytes], allowed: bytearray | None, /) -> None:
        """Adds an agent's decision request."""
        ...

    def add_end(self, state: AgentState, obs_bytes: Sequence[bytes], truncated: bool, /) -> None:
        """Adds the end of an agent's episode."""
        ...


class AgentGroup(Protocol):
    """Group of agents, as the registry of its members uses it."""

    def unregister_agent(self, agent: Agent) -> None:
        """Removes a member."""
        ...


class Recorder(Protocol):
    """Recorder of one agent's decisions."""

    def record_decision(self, state: AgentState, obs_bytes: Sequence[bytes], allowed: bytearray | None, /) -> None:
        """Records a decision request."""
        ...

    def record_end(self, state: AgentState, obs_bytes: Sequence[bytes], truncated: bool, /) -> None:
        """Records the end of an episode."""
        ...

    def close(self) -> None:
        """Finishes the file."""
        ...


@dataclass(slots=True, eq=False)
class AgentState:
    """State of an agent in its area."""

    agent: Agent
    registry: AreaRegistry
    behavior: Behavior
    actions: Actions
    vector: VectorSensor  # filled by collect_observations; not among the sensors if its size is 0
    sensors: list[Sensor]  # sorted by name once the agent was added
    own_sensor: Sensor | None = None  # sensor that reads `vector`, stacked or not
    id: int = -1  # unique in its academy
    global_id: int = -1  # unique among all areas: the id that trainers see
    mask: ActionMask | None = None  # None: the agent never forbids an action
    queue: BehaviorQueue = field(init=False)  # shared by agents of the same behavior and team
    vector_only: bool = False  # `vector` is the only sensor, which is read directly
    enabled: bool = False
    decision_requested: bool = False  # in this step or the next
    action_requested: bool = False
    episode_ended: bool = False  # the end of the episode was reported, and no decision was requested since
    in_episode_begin: bool = False  # during on_episode_begin
    steps: int = 0
    reward: float = 0.0  # since the last decision
    group_reward: float = 0.0
    cumulative_reward: float = 0.0  # of this episode
    episodes: int = 0
    group: AgentGroup | None = None
    group_id: int = 0  # 0: none
    recorders: list[Recorder] = field(default_factory=list)

    def begin(self) -> None:
        """Begins an episode: clears actions, step count and sensors."""
        self.steps = 0
        self.actions = Actions(self.behavior.action)
        for sensor in self.sensors:
            if hasattr(sensor, "reset"):
                sensor.reset()  # type: ignore[attr-defined]

    def forget_rewards(self) -> None:
        """Clears rewards and requests."""
        self.reward = self.group_reward = self.cumulative_reward = 0.0
        self.decision_requested = self.action_requested = False

    @property
    def name(self) -> str:
        """Class of the agent and, if there are several, its area; for messages."""
        return f"{type(self.agent).__name__}{self.registry.area_label}"

    def __str__(self) -> str:
        return f"behavior '{self.behavior.name}', agent {self.id} ({self.name})"


def call_user_code(state: AgentState | None, method: Callable[..., object], *arguments: Any) -> None:
    """Calls the author's code. Its errors become EnvErrors that name the agent, with the original as cause."""
    try:
        method(*arguments)
    except Exception as error:
        raise_user_error(error, state, getattr(method, "__name__", repr(method)))


def raise_user_error(error: Exception, state: AgentState | None, method: str) -> NoReturn:
    """Raises an error of the author's code as a UserCodeError that names the agent and the method."""
    where = "the game" if state is None else str(state)
    if isinstance(error, UserCodeError):
        raise error
    if isinstance(error, PalaestraError):
        text = f"{error}{user_code_location(error)}"
        raise UserCodeError(text if state is None or where in text else f"{where}: {text}") from error
    raise UserCodeError(f"{where}: {method} raised {exception_summary(error)}") from error


def reward_of(value: Any, before: float, agent: object, method: str) -> float:
    """Returns a reward as a float. Raises EnvError if it is not a number, or its sum with `before` exceeds float32."""
    try:
        number = float(0.0 + value)  # refuses strings, even of digits
    except (TypeError, ValueError):
        number = nan
    if not abs(before + number) <= LARGEST:
        raise EnvError(
            f"{agent} calls {method}({value!r}); expected a finite number (a common cause is a division by zero)"
        )
    return number


class Agent:
    """Base class of agents, as Unity's Agent. Derive from it, set `behavior`, override what you need."""

    behavior: Behavior
    decision_period: int | None = 5
    """Steps between decision requests, as Unity's DecisionRequester; None: only `request_decision` requests them."""
    take_actions_between_decisions: bool = True
    """True: `on_action_received` is also called between decisions, with the actions of the last one."""
    max_step: int = 0
    """Steps of the academy after which an episode is truncated; 0: never."""
    _agent_state: AgentState | None = None

    # For authors to override

    def initialize(self) -> None:
        """Prepares the agent: called once, when it is added. Call `add_sensor` here."""

    def on_episode_begin(self) -> None:
        """Prepares an episode: called when each begins, including the first."""

    def collect_observations(self, sensor: VectorSensor) -> None:
        """Adds as many numbers as the behavior declares: called before each decision and at an episode's end."""

    def write_action_mask(self, mask: ActionMask) -> None:
        """Forbids discrete actions: called before each decision."""

    def on_action_received(self, actions: Actions) -> None:
        """Applies the actions: called on each step on which the agent acts."""

    def heuristic(self, actions: Actions) -> None:
        """Fills in actions chosen by a rule; they are zeros before. Raises EnvError unless overridden."""
        raise EnvError(
            f"{self._require_state('heuristic')} has no heuristic; write 'def heuristic(self, actions)', which fills "
            "in its actions"
        )

    # For authors to call

    def add_sensor(self, sensor: SensorT) -> SensorT:
        """Adds a sensor and returns it. Raises EnvError outside `initialize`."""
        state = self._require_state("add_sensor")
        if state.enabled:
            raise EnvError(
                f"{state} calls add_sensor after it was added; call it in initialize(), so that trainers know what it "
                "sees"
            )
        if not isinstance(sensor, Sensor):
            raise EnvError(
                f"{state} adds a sensor of type {type(sensor).__name__}; expected one with name, shape and read()"
            )
        if any(sensor is other for other in state.sensors):
            raise EnvError(f"{state} adds sensor '{sensor.name}' twice")
        state.sensors.append(sensor)
        return sensor

    def add_reward(self, reward: float) -> None:
        """Adds to the reward since the last decision."""
        state = self._agent_state or self._require_state("add_reward")
        reward = reward_of(reward, state.reward, state, "add_reward")
        state.reward += reward
        state.cumulative_reward += reward

    def set_reward(self, reward: float) -> None:
        """Sets the reward since the last decision."""
        state = self._agent_state or self._require_state("set_reward")
        reward = reward_of(reward, 0.0, state, "set_reward")
        state.cumulative_reward += reward - state.reward
        state.reward = reward

    def end_episode(self) -> None:
        """Ends the episode as terminated; the next one begins at once."""
        state = self._require_state("end_episode")
        state.registry.end_episode(state, truncated=False, what="end_episode")

    def episode_interrupted(self) -> None:
        """Ends the episode as truncated; the next one begins at once."""
        state = self._require_state("episode_interrupted")
        state.registry.end_episode(state, truncated=True, what="episode_interrupted")

    def request_decision(self) -> None:
        """Requests a decision on the academy's next step."""
        state = self._require_state("request_decision")
        state.decision_requested = state.action_requested = state.enabled

    def request_action(self) -> None:
        """Requests a call of `on_action_received` on the academy's next step, with the actions of the last decision."""
        state = self._require_state("request_action")
        state.action_requested = state.enabled

    def disable(self) -> None:
        """Takes the agent out of the game until `enable`: ends its episode and removes it from its group."""
        state = self._require_state("disable")
        state.registry.disable(state)

    def enable(self) -> None:
        """Brings a disabled agent back, with a new id and a new episode."""
        state = self._require_state("enable")
        state.registry.enable(state)

    def set_team(self, team: int) -> None:
        """Moves the agent to another team and ends its episode for the old one."""
        old = self._require_state("set_team").behavior
        self.change_behavior(Behavior(old.name, old.observations, old.continuous, old.branches, team, old.stacked))

    def change_behavior(self, behavior: Behavior) -> None:
        """Gives the agent another behavior or team and ends its episode for the old one. Added sensors stay."""
        state = self._require_state("change_behavior")
        state.registry.change_behavior(state, behavior)

    @property
    def academy(self) -> AgentAcademy:
        """Academy to which the agent was added."""
        return self._require_state("academy").registry.academy

    @property
    def id(self) -> int:
        """Id, unique in its academy; changes after `disable` and `enable`."""
        return self._require_state("id").id

    @property
    def enabled(self) -> bool:
        """Whether the agent takes part in the game."""
        return self._agent_state is not None and self._agent_state.enabled

    @property
    def step_count(self) -> int:
        """Number of the academy's steps in this episode."""
        return self._require_state("step_count").steps

    @property
    def cumulative_reward(self) -> float:
        """Reward of this episode, without group rewards."""
        return self._require_state("cumulative_reward").cumulative_reward

    @property
    def completed_episodes(self) -> int:
        """Number of episodes that ended, except by `disable`."""
        return self._require_state("completed_episodes").episodes

    def _require_state(self, what: str) -> AgentState:
        """Returns the agent's state. Raises EnvError if it was not added."""
        if self._agent_state is None:
            name = type(self).__name__
            raise EnvError(f"{name}.{what} is used before the agent was added; call academy.add({name}(...)) first")
        return self._agent_state
