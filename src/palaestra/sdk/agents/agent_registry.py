"""The agents of one area: how they come, see, begin, end and go."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from palaestra.core.errors import EnvError
from palaestra.sdk.agents.actions import ActionMask, Actions
from palaestra.sdk.agents.agent import Agent, AgentAcademy, AgentState, blame, call
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.observation_queue import ObservationQueue
from palaestra.sdk.agents.sensors import Sensor, StackedSensor, VectorSensor, float_bytes

LAST_ID = 2**31 - 1
"""The wire's ids are int32."""


class AgentRegistry:
    """Owns the lives of one academy's agents."""

    def __init__(self, academy: AgentAcademy, outbox: ObservationQueue) -> None:
        self.lives: tuple[AgentState, ...] = ()  # of those that take part; another tuple where one comes or goes
        self.outbox = outbox
        self.spoke = False
        """Somebody asked or ended since the last exchange."""
        self.playing = False
        """Episodes have begun: a newcomer begins at once."""
        self._academy = academy
        self._observed: AgentState | None = None
        self._ids: set[int] = set()  # of all that ever took part
        self._next = 0

    def add(self, agent: Agent, id: int | None) -> None:
        """Brings it to life. Raises EnvError for what is no agent, has no behavior, or is here already."""
        name = type(agent).__name__
        if not isinstance(agent, Agent):
            raise EnvError(f"academy.add was given a {name}; expected an instance of a class derived from sdk.Agent")
        if agent._life is not None:
            raise EnvError(f"{agent._life} is added a second time; make another {name}, or use disable() and enable()")
        behavior = getattr(agent, "behavior", None)
        if not isinstance(behavior, Behavior):
            raise EnvError(f"{name} has no behavior; write in its class: behavior = sdk.Behavior('{name}', observations=8, continuous=2)")
        vector, sensors = _vector(behavior)
        life = AgentState(agent, self, behavior, Actions(behavior.action), vector, sensors)
        life.own = sensors[0] if sensors else None
        self._name(life, id)
        if type(agent).write_action_mask is not Agent.write_action_mask:
            life.mask = ActionMask(behavior.action)
        agent._life = life
        call(life, agent.initialize)
        _check_periods(life)
        self._enter(life)

    def enable(self, life: AgentState) -> None:
        """In the game again, by another id."""
        if not life.enabled:
            life.over = False
            self._name(life, None)
            self._enter(life)

    def disable(self, life: AgentState) -> None:
        """Its episode is over, and no other begins."""
        if not life.enabled:
            return
        self._tell_end(life, False, "disable")
        life.enabled = False
        if life.group is not None:
            life.group.unregister_agent(life.agent)
        self.lives = tuple(other for other in self.lives if other is not life)

    def end(self, life: AgentState, cut: bool, what: str) -> None:
        """Its episode is over, and the next one begins. Nothing where it is disabled."""
        if life.beginning:
            raise EnvError(f"{life} calls {what}() in on_episode_begin, so that episodes would end without end; call it on a later step")
        if life.enabled:
            life.episodes += not life.over
            self._tell_end(life, cut, what)
            self.begin_episode(life)

    def change(self, life: AgentState, behavior: Behavior) -> None:
        """The episode is over for its old behavior and team, and the next one begins with the new one."""
        if life.enabled:
            self._tell_end(life, False, "change_behavior")
        for recorder in list(life.recorders):  # a file holds one behavior
            recorder.close()
        others = [sensor for sensor in life.sensors if sensor is not life.own]
        life.agent.behavior = life.behavior = behavior
        life.vector, life.sensors = _vector(behavior)
        life.own = life.sensors[0] if life.sensors else None
        life.sensors += others
        if life.mask is not None:
            life.mask = ActionMask(behavior.action)
        if life.enabled:
            self._join(life)
            self.begin_episode(life)

    def begin_episode(self, life: AgentState) -> None:
        """Has it begin anew, whatever it was at."""
        agent = life.agent
        if agent.behavior is not life.behavior:
            raise EnvError(f"{life} was given another behavior by assignment; call its change_behavior(...) or set_team(...)")
        life.begin()
        life.beginning = True
        try:
            call(life, agent.on_episode_begin)
        finally:
            life.beginning = False

    def ask(self, life: AgentState) -> None:
        """It asks for a decision: what it sees and earned is told."""
        seen, allowed = self._observe(life), None
        if life.mask is not None:
            self._observed = life
            call(life, life.agent.write_action_mask, life.mask)
            self._observed = None
            try:
                allowed = life.mask.take()
            except EnvError as error:
                blame(error, life, "write_action_mask")
        life.crowd.ask(life, seen, allowed)
        for recorder in life.recorders:
            recorder.asked(life, seen, allowed)
        life.reward = life.group_reward = 0.0
        life.asks = life.over = False
        self.spoke = True

    def _tell_end(self, life: AgentState, cut: bool, what: str) -> None:
        """Unless it was told, and no decision was asked for since."""
        if self._observed is not None:
            raise EnvError(
                f"{life} calls {what}() while {self._observed} collects observations or writes its mask; "
                f"call it in on_action_received, or where the world changes"
            )
        if not life.over:
            seen = self._observe(life)
            life.crowd.end(life, seen, cut)
            for recorder in life.recorders:
                recorder.ended(life, seen, cut)
            life.over = self.spoke = True
        life.forget_rewards()

    def _observe(self, life: AgentState) -> Sequence[bytes]:
        """What it sees, a sensor each."""
        self._observed = life
        try:
            life.agent.collect_observations(life.vector)
            if life.plain:
                return (life.vector.read(),)
            if not life.vector.shape[0]:
                life.vector.read()  # nothing may have been added
            return [float_bytes(sensor) for sensor in life.sensors]
        except Exception as error:
            blame(error, life, "collect_observations")
        finally:
            self._observed = None

    def _name(self, life: AgentState, id: int | None) -> None:
        """Gives it an id. Raises EnvError for one that is taken."""
        while self._next in self._ids:
            self._next += 1
        chosen = self._next if id is None else id
        number = int(chosen) * self.outbox.areas + self._academy.area if isinstance(chosen, Integral) else -1
        if chosen in self._ids or not 0 <= number <= LAST_ID:
            other = next((str(other) for other in self.lives if other.id == chosen), "an agent that is gone")
            fault = f"is that of {other}" if chosen in self._ids else "cannot be"
            raise EnvError(
                f"behavior '{life.behavior.name}', {type(life.agent).__name__} is added with id {chosen!r}, which {fault}; "
                f"ids are whole numbers from 0 on, and unique: leave id= out to have them given"
            )
        self._ids.add(chosen)
        life.id, life.number = chosen, number

    def _enter(self, life: AgentState) -> None:
        self._join(life)
        life.enabled = True
        self.lives += (life,)
        if self.playing:
            self.begin_episode(life)

    def _join(self, life: AgentState) -> None:
        """It speaks with those of its behavior and team."""
        life.sensors.sort(key=_by_name)
        life.plain = life.sensors == [life.vector]
        life.crowd = self.outbox.crowd(life)

    def new_group(self) -> int:
        """Returns an unused group id."""
        return self.outbox.new_group()

    @property
    def academy(self) -> AgentAcademy:
        """Whose agents they are."""
        return self._academy

    @property
    def ever(self) -> bool:
        """An agent was ever added."""
        return bool(self._ids)

    @property
    def place(self) -> str:
        """' of area 3' where there are several."""
        return f" of area {self._academy.area}" if self.outbox.areas > 1 else ""


def _check_periods(life: AgentState) -> None:
    """Raises EnvError for steps that cannot be counted."""
    for name, also in (("decision_period", ", or None (by request_decision)"), ("max_step", " (0: never)")):
        steps = getattr(life.agent, name)
        if (steps is not None or name == "max_step") and (not isinstance(steps, Integral) or steps < 0):
            raise EnvError(f"{life} has {name} = {steps!r}; expected a whole number of the academy's steps{also}")


def _vector(behavior: Behavior) -> tuple[VectorSensor, list[Sensor]]:
    """What `collect_observations` adds to, and the sensors that come of it."""
    vector = VectorSensor(behavior.observations)
    if not behavior.observations:
        return vector, []
    return vector, [vector if behavior.stacked == 1 else StackedSensor(vector, behavior.stacked)]


def _by_name(sensor: Sensor) -> tuple[str, str]:
    return sensor.name.casefold(), sensor.name  # as Unity: its order knows no case
