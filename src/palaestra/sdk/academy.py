"""Steps the agents of one area in the order of Unity's Academy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.sdk.agents.agent import Agent, AgentT, CallT, call_user_code, raise_user_error
from palaestra.sdk.agents.agent_registry import AgentRegistry
from palaestra.sdk.agents.observation_queue import ObservationQueue
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs
from palaestra.sdk.protocol.game_channels import EnvironmentParameters, StatsRecorder
from palaestra.sdk.protocol.game_side_channels import SideChannel
from palaestra.wire.unity_channels import Engine

MAX_SILENT_STEPS = 10_000
"""Steps without a decision request or an end of an episode after which the game is considered stuck."""


class Academy:
    """One area of a game: its agents, its steps and its random generators. Each area has its own; there is no global
    academy.

    A game calls `add`, `on_step` and the methods beside them. The trainer's side calls `advance`, `answer` and `reset`.
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
        """Engine settings that the trainer asks for, such as the time scale. A game in Python may ignore them."""
        self.render: Callable[[], NDArray[np.uint8]] | None = None
        """Function that draws the area as (H, W, 3) uint8; set by the game."""
        self.step_count = 0
        self.total_step_count = 0
        self.episode_count = 0
        """Steps since the last reset, steps in all, and resets."""
        self.observation_queue = observation_queue or ObservationQueue()
        self.registry = AgentRegistry(self, self.observation_queue)
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
        self.registry.add(agent, id)
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

    # For the trainer's side

    def advance(self) -> dict[str, AgentOutputs]:
        """Steps until an agent requests a decision or ends an episode, and returns the outputs. Raises EnvError."""
        self.run()
        return self.observation_queue.take()

    def answer(self, actions: Mapping[str, AgentActions]) -> None:
        """Gives actions to the agents that requested decisions and finishes the step. Raises EnvError."""
        self.observation_queue.answer(actions)
        self.finish()

    def reset(self, seed: int | None = None) -> None:
        """Begins new episodes and discards the open ones without reporting their ends. A seed also reseeds the area."""
        if seed is not None:
            self.seed(seed)
        self.observation_queue.drop()
        self.begin()

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

    # Steps of the above, for `Areas`, which runs several academies together

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
        """Runs the first half of a step: collects the observations of agents that request decisions."""
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
        """Runs the second half of a step: agents act, episodes reach `max_step`, and `on_step` functions are called."""
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
        """Returns an error message that explains why no agent requests a decision."""
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
