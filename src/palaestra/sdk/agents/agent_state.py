"""State of each agent, and errors in the author's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from math import nan
from typing import Any, NoReturn

from palaestra.core.errors import EnvError, PalaestraError, exception_summary, user_code_location
from palaestra.sdk.agents.actions import ActionMask, Actions
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.sensors import Sensor, StackedSensor, VectorSensor

LARGEST = 3.4028234e38
"""Largest finite float32, the type in which rewards are sent."""


class UserCodeError(EnvError):
    """An error in the author's code, whose message already names the agent and the place."""


@dataclass(slots=True, eq=False)
class AgentState:
    """State of an agent in its area."""

    agent: Any  # the `sdk.Agent`
    academy: Any  # its `sdk.Academy`
    behavior: Behavior
    masks: InitVar[bool]  # the agent may forbid actions
    has_heuristic: bool
    actions: Actions = field(init=False)
    vector: VectorSensor = field(init=False)  # filled by collect_observations; no sensor if its size is 0
    own_sensor: Sensor | None = None  # sensor that reads `vector`, stacked or not
    sensors: list[Sensor] = field(default_factory=list)  # sorted by name once the agent was added
    id: int = -1  # unique in its academy
    global_id: int = -1  # unique among all areas: the id that trainers see
    mask: ActionMask | None = field(init=False)  # None: the agent never forbids an action
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
    group: object = None
    group_id: int = 0  # 0: none
    recorders: list[Any] = field(default_factory=list)  # each a DemonstrationRecorder

    def __post_init__(self, masks: bool) -> None:
        self.mask = ActionMask(self.behavior.action) if masks else None
        self.use(self.behavior)

    def use(self, behavior: Behavior) -> None:
        """Gives the agent a behavior, with a new sensor for `collect_observations`; sensors that were added stay."""
        added = [sensor for sensor in self.sensors if sensor is not self.own_sensor]
        self.behavior = behavior
        self.actions = Actions(behavior.action)
        self.vector = VectorSensor(behavior.observations)
        self.own_sensor = self.vector if behavior.stacked == 1 else StackedSensor(self.vector, behavior.stacked)
        self.sensors = [self.own_sensor, *added] if behavior.observations else added
        if self.mask is not None:
            self.mask = ActionMask(behavior.action)

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
        return f"{type(self.agent).__name__}{self.academy.registry.area_label}"

    def __str__(self) -> str:
        return f"behavior '{self.behavior.name}', agent {self.id} ({self.name})"


def call_user_code(state: AgentState | None, method: Callable[..., object], *arguments: Any) -> None:
    """Calls the author's code. Errors in the method become EnvErrors that name the agent, with the original error as
    the cause."""
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
