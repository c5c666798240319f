"""What an academy keeps of an agent, away from the names that its author uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any, NoReturn

from palaestra.core.errors import EnvError, PalaestraError, exception_summary, user_code_location
from palaestra.sdk.agents.actions import ActionMask, Actions
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.sensors import Sensor, VectorSensor

if TYPE_CHECKING:
    from palaestra.sdk.agents.agent import Agent
    from palaestra.sdk.agents.agent_registry import AgentRegistry
    from palaestra.sdk.agents.group import Group
    from palaestra.sdk.agents.observation_queue import Crowd
    from palaestra.sdk.agents.recorder import DemonstrationRecorder


LARGEST = 3.4028234e38
"""Of float32: what was earned between two decisions goes to trainers as one."""


class Blamed(EnvError):
    """What an author's code did wrong, with whose and where it was: nobody need add to it."""


@dataclass(slots=True, eq=False)
class AgentState:
    """An agent in its cast."""

    agent: Agent
    cast: AgentRegistry
    behavior: Behavior
    actions: Actions
    vector: VectorSensor  # what collect_observations adds to; of size 0 it is none of the sensors
    sensors: list[Sensor]  # sorted by name once the agent was added
    own: Sensor | None = None  # that of them which shows `vector`
    id: int = -1  # unique in its academy
    number: int = -1  # unique among all areas: what trainers know it by
    mask: ActionMask | None = None  # None: it never forbids anything
    crowd: Crowd = field(init=False)  # those with the same behavior and team
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
    group: Group | None = None
    group_id: int = 0  # 0: none
    recorders: list[DemonstrationRecorder] = field(default_factory=list)

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
        return f"{type(self.agent).__name__}{self.cast.place}"

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
