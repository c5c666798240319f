"""What a game's author writes: something that sees, is told what to do, and is rewarded."""

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

SomeAgent = TypeVar("SomeAgent", bound="Agent")
SomeCall = TypeVar("SomeCall", bound=Callable[[], object])
SomeSensor = TypeVar("SomeSensor", bound=Sensor)

LARGEST = 3.4028234e38
"""Of float32: what was earned between two decisions goes to trainers as one."""


class Blamed(EnvError):
    """What an author's code did wrong, with whose and where it was: nobody need add to it."""


class AgentAcademy(Protocol):
    """The Academy of an agent's area, as its agents use it."""

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

    def add(self, agent: SomeAgent, id: int | None = None) -> SomeAgent:
        """Adds an agent to the game."""
        ...

    def remove(self, agent: Agent) -> None:
        """Removes an agent from the game."""
        ...

    def on_step(self, function: SomeCall) -> SomeCall:
        """Has a function called after each step."""
        ...

    def on_reset(self, function: SomeCall) -> SomeCall:
        """Has a function called at each reset."""
        ...

    def on_close(self, function: SomeCall) -> SomeCall:
        """Has a function called when the game is closed."""
        ...


class AreaRegistry(Protocol):
    """Adds, ends and removes the agents of one area."""

    @property
    def academy(self) -> AgentAcademy:
        """The area's Academy."""
        ...

    @property
    def place(self) -> str:
        """Names the area in messages, such as ' of area 3'; empty where there is only one."""
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

    def change(self, state: AgentState, behavior: Behavior, /) -> None:
        """Gives an agent another behavior or team."""
        ...

    def end(self, state: AgentState, /, cut: bool, what: str) -> None:
        """Ends an agent's episode; `cut`: truncated; `what`: the method that asked for it."""
        ...


class BehaviorQueue(Protocol):
    """Collects what the agents of one behavior and team have to send."""

    key: str
    spec: BehaviorSpec

    def ask(self, state: AgentState, seen: Sequence[bytes], allowed: bytearray | None, /) -> None:
        """Adds an agent that asks for a decision."""
        ...

    def end(self, state: AgentState, seen: Sequence[bytes], cut: bool, /) -> None:
        """Adds an agent whose episode ended."""
        ...


class AgentGroup(Protocol):
    """A group of agents, as its members' registry uses it."""

    def unregister_agent(self, agent: Agent) -> None:
        """Removes a member."""
        ...


class Recorder(Protocol):
    """Records the decisions of one agent."""

    def asked(self, state: AgentState, seen: Sequence[bytes], allowed: bytearray | None, /) -> None:
        """Records a decision."""
        ...

    def ended(self, state: AgentState, seen: Sequence[bytes], cut: bool, /) -> None:
        """Records the end of an episode."""
        ...

    def close(self) -> None:
        """Finishes the file."""
        ...


@dataclass(slots=True, eq=False)
class AgentState:
    """The state of an agent in its area."""

    agent: Agent
    registry: AreaRegistry
    behavior: Behavior
    actions: Actions
    vector: VectorSensor  # what collect_observations adds to; of size 0 it is none of the sensors
    sensors: list[Sensor]  # sorted by name once the agent was added
    own: Sensor | None = None  # that of them which shows `vector`
    id: int = -1  # unique in its academy
    number: int = -1  # unique among all areas: what trainers know it by
    mask: ActionMask | None = None  # None: it never forbids anything
    crowd: BehaviorQueue = field(init=False)  # those with the same behavior and team
    plain: bool = False  # `vector` is all it sees, as most do: read without a detour
    enabled: bool = False
    asks: bool = False  # for a decision, in this step or the next
    acts: bool = False
    over: bool = False  # its episode's end was told, and no decision was asked for since
    beginning: bool = False  # it is inside on_episode_begin
    steps: int = 0
    reward: float = 0.0  # since it was last told
    group_reward: float = 0.0
    total: float = 0.0  # of this episode
    episodes: int = 0
    group: AgentGroup | None = None
    group_id: int = 0  # 0: none
    recorders: list[Recorder] = field(default_factory=list)

    def begin(self) -> None:
        """Forgets the episode that was."""
        self.steps, self.actions = 0, Actions(self.behavior.action)
        for sensor in self.sensors:
            if hasattr(sensor, "reset"):
                sensor.reset()  # type: ignore[attr-defined]

    def forget_rewards(self) -> None:
        """What was earned was told, or is nobody's."""
        self.reward = self.group_reward = self.total = 0.0
        self.asks = self.acts = False

    @property
    def name(self) -> str:
        """For people: its class, and its area where there are several."""
        return f"{type(self.agent).__name__}{self.registry.place}"

    def __str__(self) -> str:
        return f"behavior '{self.behavior.name}', agent {self.id} ({self.name})"


def call(life: AgentState | None, method: Callable[..., object], *arguments: Any) -> None:
    """Calls what an author wrote. Whatever it raises is an EnvError that says whose it is, with the original as its cause."""
    try:
        method(*arguments)
    except Exception as error:
        blame(error, life, getattr(method, "__name__", repr(method)))


def blame(error: Exception, life: AgentState | None, method: str) -> NoReturn:
    """Raises the same error, with the agent and the method in which it was raised."""
    where = "the game" if life is None else str(life)
    if isinstance(error, Blamed):
        raise error
    if isinstance(error, PalaestraError):
        text = f"{error}{user_code_location(error)}"
        raise Blamed(text if life is None or where in text else f"{where}: {text}") from error
    raise Blamed(f"{where}: {method} raised {exception_summary(error)}") from error


def reward_of(value: Any, before: float, who: object, method: str) -> float:
    """A reward as a float. Raises EnvError for what is no number, or more than float32 holds with what was earned before."""
    try:
        number = float(0.0 + value)  # a string is no number, even one of digits
    except (TypeError, ValueError):
        number = nan
    if not abs(before + number) <= LARGEST:
        raise EnvError(f"{who} gets {method}({value!r}); expected a finite number (often a division by zero where it is computed)")
    return number


class Agent:
    """Unity's Agent: derive from it, say what its `behavior` is, and write the methods that matter. `Academy.add` brings it to life."""

    behavior: Behavior
    decision_period: int | None = 5
    """It asks for a decision on each step of the academy that this divides (Unity's DecisionRequester); None: by `request_decision`."""
    take_actions_between_decisions: bool = True
    """Between decisions `on_action_received` is called with the last one's actions."""
    max_step: int = 0
    """Steps of the academy after which an episode is cut; 0: never."""
    _life: AgentState | None = None

    # What an author writes

    def initialize(self) -> None:
        """Called once, when it is added: the place for `add_sensor`."""

    def on_episode_begin(self) -> None:
        """Called where an episode begins, the first one too."""

    def collect_observations(self, sensor: VectorSensor) -> None:
        """Called before each decision and at an episode's end: adds as many numbers as the behavior declares."""

    def write_action_mask(self, mask: ActionMask) -> None:
        """Called before each decision: forbids choices."""

    def on_action_received(self, actions: Actions) -> None:
        """Called on each step on which it acts: does what it is told."""

    def heuristic(self, actions: Actions) -> None:
        """Fills in what a rule of the author's own would do; they are zeros before."""
        raise EnvError(f"{self._alive('heuristic')} has no heuristic; write 'def heuristic(self, actions)', which fills in its actions")

    # What an author calls

    def add_sensor(self, sensor: SomeSensor) -> SomeSensor:
        """Has it see with that too; only in `initialize`. Gives it back."""
        life = self._alive("add_sensor")
        if life.enabled:
            raise EnvError(f"{life} calls add_sensor after it was added; call it in initialize(), so that trainers know what it sees")
        if not isinstance(sensor, Sensor):
            raise EnvError(f"{life} adds a sensor of type {type(sensor).__name__}; expected one with name, shape and read()")
        if any(sensor is other for other in life.sensors):
            raise EnvError(f"{life} adds sensor '{sensor.name}' twice")
        life.sensors.append(sensor)
        return sensor

    def add_reward(self, reward: float) -> None:
        """More reward since the last decision."""
        life = self._life or self._alive("add_reward")
        reward = reward_of(reward, life.reward, life, "add_reward")
        life.reward += reward
        life.total += reward

    def set_reward(self, reward: float) -> None:
        """The reward since the last decision, in place of what it was."""
        life = self._life or self._alive("set_reward")
        reward = reward_of(reward, 0.0, life, "set_reward")
        life.total += reward - life.reward
        life.reward = reward

    def end_episode(self) -> None:
        """The episode is over, by what happened in it; the next one begins at once."""
        life = self._alive("end_episode")
        life.registry.end(life, cut=False, what="end_episode")

    def episode_interrupted(self) -> None:
        """The episode is over, but not by what happened in it: it might have gone on."""
        life = self._alive("episode_interrupted")
        life.registry.end(life, cut=True, what="episode_interrupted")

    def request_decision(self) -> None:
        """Asks for a decision on the academy's next step."""
        life = self._alive("request_decision")
        life.asks = life.acts = life.enabled

    def request_action(self) -> None:
        """Has `on_action_received` called on the academy's next step, with the last decision's actions."""
        life = self._alive("request_action")
        life.acts = life.enabled

    def disable(self) -> None:
        """Takes it out of the game until `enable`; its episode is over, and it leaves its group."""
        life = self._alive("disable")
        life.registry.disable(life)

    def enable(self) -> None:
        """Brings it back, with a new id and a new episode."""
        life = self._alive("enable")
        life.registry.enable(life)

    def set_team(self, team: int) -> None:
        """Changes sides: the episode is over for its old team."""
        old = self._alive("set_team").behavior
        self.change_behavior(Behavior(old.name, old.observations, old.continuous, old.branches, team, old.stacked))

    def change_behavior(self, behavior: Behavior) -> None:
        """Goes on with another behavior or team; its old one hears that the episode is over. It goes on to see with its added sensors."""
        life = self._alive("change_behavior")
        life.registry.change(life, behavior)

    @property
    def academy(self) -> AgentAcademy:
        """Where it was added."""
        return self._alive("academy").registry.academy

    @property
    def id(self) -> int:
        """Unique in its academy; a new one after `disable` and `enable`."""
        return self._alive("id").id

    @property
    def enabled(self) -> bool:
        """Takes part in the game."""
        return self._life is not None and self._life.enabled

    @property
    def step_count(self) -> int:
        """Steps of the academy in this episode."""
        return self._alive("step_count").steps

    @property
    def cumulative_reward(self) -> float:
        """Of this episode, without its group's."""
        return self._alive("cumulative_reward").total

    @property
    def completed_episodes(self) -> int:
        """That ended otherwise than by `disable`."""
        return self._alive("completed_episodes").episodes

    def _alive(self, what: str) -> AgentState:
        """Raises EnvError where it was never added."""
        if self._life is None:
            name = type(self).__name__
            raise EnvError(f"{name}.{what} is used before the agent was added; call academy.add({name}(...)) first")
        return self._life
