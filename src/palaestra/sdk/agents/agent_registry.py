"""Agents of one area: adds, observes, begins, ends and removes them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from palaestra.core.errors import EnvError
from palaestra.sdk.agents.agent_state import AgentState, call_user_code, raise_user_error
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.observation_queue import ObservationQueue
from palaestra.sdk.agents.sensors import float_bytes

LAST_ID = 2**31 - 1
"""Largest agent id of the protocol, an int32."""


class AgentRegistry:
    """Holds the states of one academy's agents."""

    def __init__(self, area: int, observation_queue: ObservationQueue) -> None:
        self.states: tuple[AgentState, ...] = ()  # states of enabled agents; replaced when one comes or goes
        self.observation_queue = observation_queue
        self.has_outputs = False
        """True if an agent requested a decision or ended an episode since the last exchange."""
        self.running = False
        """True if episodes have begun, so that an added agent begins its own episode at once."""
        self.area_label = f" of area {area}" if observation_queue.areas > 1 else ""
        """Name of the area in messages; empty if there is only one area."""
        self._area = area
        self._observing: AgentState | None = None
        self._ids: set[int] = set()  # ids of all agents ever added
        self._next = 0

    def add(self, state: AgentState) -> None:
        """Adds an agent that has an id and is initialized."""
        for name, also in (("decision_period", ", or None (by request_decision)"), ("max_step", " (0: never)")):
            steps = getattr(state.agent, name)
            if (steps is not None or name == "max_step") and (not isinstance(steps, Integral) or steps < 0):
                raise EnvError(f"{state} has {name} = {steps!r}; expected a whole number of the academy's steps{also}")
        self._activate(state)

    def enable(self, state: AgentState) -> None:
        """Enables an agent, under a new id."""
        if not state.enabled:
            state.episode_ended = False
            self.assign_id(state, None)
            self._activate(state)

    def disable(self, state: AgentState) -> None:
        """Ends an agent's episode without beginning another."""
        if not state.enabled:
            return
        self._report_end(state, False, "disable")
        state.enabled = False
        state.group = None
        state.group_id = 0
        self.states = tuple(other for other in self.states if other is not state)

    def end_episode(self, state: AgentState, truncated: bool, what: str) -> None:
        """Ends an agent's episode and begins the next one; ignores a disabled agent."""
        if state.in_episode_begin:
            raise EnvError(
                f"{state} calls {what}() in on_episode_begin, which would end episodes forever; call it on a later step"
            )
        if state.enabled:
            state.episodes += not state.episode_ended
            self._report_end(state, truncated, what)
            self.begin_episode(state)

    def change_behavior(self, state: AgentState, behavior: Behavior) -> None:
        """Ends the episode under the old behavior and team and begins one under the new."""
        if state.enabled:
            self._report_end(state, False, "change_behavior")
        for recorder in list(state.recorders):  # a file holds one behavior
            recorder.close()
        state.agent.behavior = behavior
        state.use(behavior)
        if state.enabled:
            self._join_queue(state)
            self.begin_episode(state)

    def begin_episode(self, state: AgentState) -> None:
        """Begins an episode of an agent."""
        agent = state.agent
        if agent.behavior is not state.behavior:
            raise EnvError(
                f"{state} was given another behavior by assignment; call its change_behavior(...) or set_team(...)"
            )
        state.begin()
        state.in_episode_begin = True
        try:
            call_user_code(state, agent.on_episode_begin)
        finally:
            state.in_episode_begin = False

    def queue_decision(self, state: AgentState) -> None:
        """Queues a decision request of an agent, with its observations and rewards."""
        obs_bytes = self._observe(state)
        allowed = None
        if state.mask is not None:
            self._observing = state
            call_user_code(state, state.agent.write_action_mask, state.mask)
            self._observing = None
            try:
                allowed = state.mask.take()
            except EnvError as error:
                raise_user_error(error, state, "write_action_mask")
        self.observation_queue.queues[state.behavior.key].add_decision(state, obs_bytes, allowed)
        for recorder in state.recorders:
            recorder.record(obs_bytes, allowed)
        state.reward = state.group_reward = 0.0
        state.decision_requested = state.episode_ended = False
        self.has_outputs = True

    def _report_end(self, state: AgentState, truncated: bool, what: str) -> None:
        """Queues the end of an episode, unless it was queued before and no decision was requested since."""
        if self._observing is not None:
            raise EnvError(
                f"{state} calls {what}() while {self._observing} collects observations or writes its mask; "
                f"call it in on_action_received, or where the world changes"
            )
        if not state.episode_ended:
            obs_bytes = self._observe(state)
            self.observation_queue.queues[state.behavior.key].add_end(state, obs_bytes, truncated)
            for recorder in state.recorders:
                recorder.record(obs_bytes, None, done=True, truncated=truncated)
            state.episode_ended = self.has_outputs = True
        state.forget_rewards()

    def _observe(self, state: AgentState) -> Sequence[bytes]:
        self._observing = state
        try:
            state.agent.collect_observations(state.vector)
            if state.vector_only:
                return (state.vector.read(),)
            if not state.vector.shape[0]:
                state.vector.read()  # raises if anything was added
            return [float_bytes(sensor) for sensor in state.sensors]
        except Exception as error:
            raise_user_error(error, state, "collect_observations")
        finally:
            self._observing = None

    def assign_id(self, state: AgentState, id: int | None) -> None:
        """Gives an agent its id. Raises EnvError for an id that is taken."""
        while self._next in self._ids:
            self._next += 1
        chosen = self._next if id is None else id
        number = int(chosen) * self.observation_queue.areas + self._area if isinstance(chosen, Integral) else -1
        if chosen in self._ids or not 0 <= number <= LAST_ID:
            other = next((str(other) for other in self.states if other.id == chosen), "an agent that is gone")
            fault = f"is that of {other}" if chosen in self._ids else "cannot be"
            raise EnvError(
                f"behavior '{state.behavior.name}', {type(state.agent).__name__} is added with id {chosen!r}, which "
                f"{fault}; ids are whole numbers from 0 on, and unique: leave out id= to have them assigned"
            )
        self._ids.add(chosen)
        state.id = chosen
        state.global_id = number

    def _activate(self, state: AgentState) -> None:
        self._join_queue(state)
        state.enabled = True
        self.states += (state,)
        if self.running:
            self.begin_episode(state)

    def _join_queue(self, state: AgentState) -> None:
        state.sensors.sort(key=lambda sensor: (sensor.name.casefold(), sensor.name))  # Unity's order ignores case
        state.vector_only = state.sensors == [state.vector]
        self.observation_queue.add(state)

    @property
    def had_agents(self) -> bool:
        """Whether an agent was ever added."""
        return bool(self._ids)
