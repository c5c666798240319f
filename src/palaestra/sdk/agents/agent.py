"""What a game's author writes: something that sees, is told what to do, and is rewarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from palaestra.core.errors import EnvError
from palaestra.sdk.agents.actions import ActionMask, Actions
from palaestra.sdk.agents.agent_state import reward_of
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.sensors import Sensor, VectorSensor

if TYPE_CHECKING:
    from palaestra.sdk.academy import Academy
    from palaestra.sdk.agents.agent_state import AgentState

SomeSensor = TypeVar("SomeSensor", bound=Sensor)


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
        life.cast.end(life, cut=False, what="end_episode")

    def episode_interrupted(self) -> None:
        """The episode is over, but not by what happened in it: it might have gone on."""
        life = self._alive("episode_interrupted")
        life.cast.end(life, cut=True, what="episode_interrupted")

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
        life.cast.disable(life)

    def enable(self) -> None:
        """Brings it back, with a new id and a new episode."""
        life = self._alive("enable")
        life.cast.enable(life)

    def set_team(self, team: int) -> None:
        """Changes sides: the episode is over for its old team."""
        old = self._alive("set_team").behavior
        self.change_behavior(Behavior(old.name, old.observations, old.continuous, old.branches, team, old.stacked))

    def change_behavior(self, behavior: Behavior) -> None:
        """Goes on with another behavior or team; its old one hears that the episode is over. It goes on to see with its added sensors."""
        life = self._alive("change_behavior")
        life.cast.change(life, behavior)

    @property
    def academy(self) -> Academy:
        """Where it was added."""
        return self._alive("academy").cast.academy

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
