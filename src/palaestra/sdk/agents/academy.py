"""Agents of a game, and the academy that steps the agents of one area in the order of Unity's academy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.sdk.agents.actions import ActionMask, Actions
from palaestra.sdk.agents.agent_registry import AgentRegistry
from palaestra.sdk.agents.agent_state import AgentState, call_user_code, raise_user_error, reward_of
from palaestra.sdk.agents.behavior import Behavior
from palaestra.sdk.agents.observation_queue import ObservationQueue
from palaestra.sdk.agents.sensors import Sensor, VectorSensor
from palaestra.sdk.protocol.game_channels import EnvironmentParameters, StatsRecorder
from palaestra.sdk.protocol.game_side_channels import SideChannel
from palaestra.wire.unity_channels import Engine

AgentT = TypeVar("AgentT", bound="Agent")
CallT = TypeVar("CallT", bound=Callable[[], object])
SensorT = TypeVar("SensorT", bound=Sensor)

MAX_SILENT_STEPS = 10_000
"""Steps without a decision request or an end of an episode after which the game is considered stuck."""


class Agent:
    """Base class of agents, like Unity's Agent. Subclass it, set `behavior`, and override the methods you need."""

    behavior: Behavior
    decision_period: int | None = 5
    """Steps between decision requests, as Unity's DecisionRequester; None: only `request_decision` requests them."""
    take_actions_between_decisions: bool = True
    """True: `on_action_received` is also called between decisions, with the actions of the last one."""
    max_step: int = 0
    """Steps of the academy after which an episode is truncated (0: never)."""
    _agent_state: AgentState | None = None

    # For authors to override

    def initialize(self) -> None:
        """Prepares the agent: called once, when the agent is added to an academy. Call `add_sensor` here."""

    def on_episode_begin(self) -> None:
        """Prepares an episode: called when each episode begins, including the first."""

    def collect_observations(self, sensor: VectorSensor) -> None:
        """Adds as many numbers as the behavior declares: called before each decision and at the end of an episode."""

    def write_action_mask(self, mask: ActionMask) -> None:
        """Forbids discrete actions: called before each decision."""

    def on_action_received(self, actions: Actions) -> None:
        """Applies the actions: called on each step on which the agent acts."""

    def heuristic(self, actions: Actions) -> None:
        """Fills in the actions that a rule chooses; before the call, all actions are zero. Raises EnvError unless
        overridden."""
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
                f"{state} calls add_sensor after it was added to the academy; call add_sensor in initialize(), so "
                f"that trainers know the observations"
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
        state.academy.registry.end_episode(state, truncated=False, what="end_episode")

    def episode_interrupted(self) -> None:
        """Ends the episode as truncated; the next one begins at once."""
        state = self._require_state("episode_interrupted")
        state.academy.registry.end_episode(state, truncated=True, what="episode_interrupted")

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
        state.academy.registry.disable(state)

    def enable(self) -> None:
        """Brings a disabled agent back, with a new id and a new episode."""
        state = self._require_state("enable")
        state.academy.registry.enable(state)

    def set_team(self, team: int) -> None:
        """Moves the agent to another team; its episode ends under the old team."""
        old = self._require_state("set_team").behavior
        self.change_behavior(Behavior(old.name, old.observations, old.continuous, old.branches, team, old.stacked))

    def change_behavior(self, behavior: Behavior) -> None:
        """Gives the agent another behavior or team; its episode ends under the old behavior. Added sensors stay."""
        state = self._require_state("change_behavior")
        state.academy.registry.change_behavior(state, behavior)

    @property
    def academy(self) -> Academy:
        """Academy to which the agent was added."""
        return self._require_state("academy").academy

    @property
    def id(self) -> int:
        """Id of the agent, unique in its academy; changes after `disable` and `enable`."""
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
        if self._agent_state is None:
            name = type(self).__name__
            raise EnvError(f"{name}.{what} is used before the agent was added; call academy.add({name}(...)) first")
        return self._agent_state


class Academy:
    """One area of a game: its agents, its steps and its random generators. Each area has an academy.

    A game calls `add`, `on_step` and the other methods; `Areas` runs the academies of a game together.
    """

    def __init__(self, seed: int = 0, area: int = 0, observation_queue: ObservationQueue | None = None) -> None:
        self.area = area
        self.random, self.rng = Random(), np.random.default_rng()
        """Random generators of the area: Python's and NumPy's."""
        self.environment_parameters = EnvironmentParameters()
        self.stats_recorder = StatsRecorder()
        self.side_channels: list[SideChannel] = []
        """Side channels of the game: append them in the function that adds the agents."""
        self.engine = Engine()
        """Engine settings that the trainer sends, such as the time scale. A game in Python may ignore them."""
        self.render: Callable[[], NDArray[np.uint8]] | None = None
        """Function that draws the area as (H, W, 3) uint8; set by the game."""
        self.step_count = 0
        self.total_step_count = 0
        self.episode_count = 0
        """Steps since the last reset, steps since the start, and number of resets."""
        self.observation_queue = observation_queue or ObservationQueue()
        self.registry = AgentRegistry(area, self.observation_queue)
        self._on_step: list[Callable[[], object]] = []
        self._on_reset: list[Callable[[], object]] = []
        self._on_close: list[Callable[[], object]] = []
        self._in_step = False
        self.seed(seed)

    # For a game

    def add(self, agent: AgentT, id: int | None = None) -> AgentT:
        """Adds an agent: calls its `initialize`, and its `on_episode_begin` if the game has begun. Returns the agent.

        Ids count from 0 unless given. Raises EnvError for an agent that was added before, or an id that is taken.
        """
        kind = type(agent)
        name = kind.__name__
        if not isinstance(agent, Agent):
            raise EnvError(f"academy.add was given a {name}; expected an instance of a class derived from sdk.Agent")
        if agent._agent_state is not None:
            raise EnvError(
                f"{agent._agent_state} is added a second time; make another {name}, or use disable() and enable()"
            )
        if not isinstance(getattr(agent, "behavior", None), Behavior):
            raise EnvError(
                f"{name} has no behavior; write in its class: behavior = sdk.Behavior('{name}', observations=8, "
                "continuous=2)"
            )
        masks = kind.write_action_mask is not Agent.write_action_mask
        has_heuristic = kind.heuristic is not Agent.heuristic
        state = AgentState(agent, self, agent.behavior, masks, has_heuristic)
        self.registry.assign_id(state, id)
        agent._agent_state = state
        call_user_code(state, agent.initialize)
        self.registry.add(state)
        return agent

    def remove(self, agent: Agent) -> None:
        """Removes an agent for good and ends its episode."""
        state = agent._require_state("remove")
        self.registry.disable(state)
        for recorder in list(state.recorders):
            recorder.close()
        agent._agent_state = None

    def on_step(self, function: CallT) -> CallT:
        """Registers a function to call after each step, such as the game's physics. Returns it."""
        self._on_step.append(function)
        return function

    def on_reset(self, function: CallT) -> CallT:
        """Registers a function to call at each reset, before the agents' episodes begin. Returns it."""
        self._on_reset.append(function)
        return function

    def on_close(self, function: CallT) -> CallT:
        """Registers a function to call when the game is closed. Returns it."""
        self._on_close.append(function)
        return function

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Enabled agents of the area."""
        return tuple(state.agent for state in self.registry.states)

    def seed(self, seed: int) -> None:
        """Seeds the area's generators; areas with the same seed get different streams."""
        stream = np.random.SeedSequence([seed & 0xFFFFFFFF, self.area])
        self.rng = np.random.default_rng(stream)
        self.random.seed(int(stream.generate_state(2, np.uint64)[0]))

    def close(self) -> None:
        """Calls the functions given to `on_close` and finishes demonstrations. May be called again."""
        functions = self._on_close
        self._on_close = []
        for function in functions:
            call_user_code(None, function)

    # For `Areas`, which runs several academies together

    def begin(self) -> None:
        """Begins new episodes in this area without clearing the observation queue."""
        registry = self.registry
        self.step_count = 0
        self.episode_count = self.episode_count + 1
        registry.has_outputs = registry.running = self._in_step = False
        for function in self._on_reset:
            call_user_code(None, function)
        registry.running = True
        for state in registry.states:
            if state.enabled:
                state.forget_rewards()
                registry.begin_episode(state)

    def run(self) -> None:
        """Steps until an agent requests a decision or ends an episode."""
        if self._in_step:
            raise EnvError(
                "advance() was called before the agents' decision requests were answered; call answer() or reset() "
                "first"
            )
        if not self.episode_count:
            self.begin()
        for _ in range(MAX_SILENT_STEPS):
            self._ask()
            if self.registry.has_outputs:
                self.registry.has_outputs = False
                self._in_step = True
                return
            self._act()
        raise EnvError(self._no_decision_message())

    def finish(self) -> None:
        """Finishes a step after the agents have their actions."""
        if not self._in_step:
            raise EnvError("answer() was called without open decision requests; call advance() first")
        self._in_step = False
        self._act()

    def _ask(self) -> None:
        step = self.step_count
        states = self.registry.states
        for state in states:
            agent = state.agent
            period = agent.decision_period
            if period:
                if step % period == 0:
                    state.decision_requested = state.action_requested = True
                elif agent.take_actions_between_decisions:
                    state.action_requested = True
            state.steps += 1
        self.step_count = step + 1
        self.total_step_count += 1
        for state in states:
            if state.decision_requested:
                self.registry.queue_decision(state)

    def _act(self) -> None:
        for state in self.registry.states:
            agent = state.agent
            if state.action_requested:
                state.action_requested = False
                try:
                    agent.on_action_received(state.actions)
                except Exception as error:
                    raise_user_error(error, state, "on_action_received")
            if 0 < agent.max_step <= state.steps and state.enabled:
                self.registry.end_episode(state, truncated=True, what="max_step")
        for function in self._on_step:
            call_user_code(None, function)

    def _no_decision_message(self) -> str:
        states = self.registry.states
        if not states and self.registry.had_agents:
            away = f"{MAX_SILENT_STEPS} steps passed with all agents{self.registry.area_label} disabled or removed"
            return f"{away}; call enable() of one, or end episodes with end_episode(), which begins the next"
        if not states:
            return (
                f"{MAX_SILENT_STEPS} steps passed without an agent{self.registry.area_label}; call "
                "academy.add(...) in the game's function"
            )
        silent = "; ".join(map(str, states[:3])) + (f" and {len(states) - 3} more" if len(states) > 3 else "")
        return (
            f"{MAX_SILENT_STEPS} steps passed and no agent asked for a decision ({silent}); "
            f"set decision_period = 5 in its class, or call its request_decision() when it is its turn"
        )
