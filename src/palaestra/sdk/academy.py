"""The clock of one area: it asks, tells and ends agents, in the order of Unity's Academy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.sdk.agents.agent import Agent, SomeAgent, SomeCall, blame, call
from palaestra.sdk.agents.agent_registry import AgentRegistry
from palaestra.sdk.agents.observation_queue import ObservationQueue
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs
from palaestra.sdk.protocol.game_channels import EnvironmentParameters, StatsRecorder
from palaestra.sdk.protocol.game_side_channels import SideChannel
from palaestra.wire.unity_channels import Engine

PATIENCE = 10_000
"""Steps in which no agent asks and none ends, after which a game is taken for one in which nobody ever will."""


class Academy:
    """One area of a game: its agents, its time and its chance. There is one an area, and no global one.

    A game calls `add`, `on_step` and what stands with them; `advance`, `answer` and `reset` are for whoever decides for the agents.
    """

    def __init__(self, seed: int = 0, area: int = 0, outbox: ObservationQueue | None = None) -> None:
        self.area = area
        self.random, self.rng = Random(), np.random.default_rng()
        """The area's own chance: Python's and NumPy's kind."""
        self.environment_parameters = EnvironmentParameters()
        self.stats_recorder = StatsRecorder()
        self.side_channels: list[SideChannel] = []
        """The game's own: append them where the area is filled."""
        self.engine = Engine()
        """What a trainer asks of an engine, such as its time scale. A game in Python goes as fast as it can, and need not heed it."""
        self.render: Callable[[], NDArray[np.uint8]] | None = None
        """Set it to a function that draws the area: (H, W, 3) uint8."""
        self.step_count, self.total_step_count, self.episode_count = 0, 0, 0
        """Steps since the last reset, steps in all, and resets."""
        self.outbox = outbox or ObservationQueue()
        self.registry = AgentRegistry(self, self.outbox)
        self._on_step: list[Callable[[], object]] = []
        self._on_reset: list[Callable[[], object]] = []
        self._on_close: list[Callable[[], object]] = []
        self._in_step = False
        self.seed(seed)

    # For a game

    def add(self, agent: SomeAgent, id: int | None = None) -> SomeAgent:
        """Brings an agent into the game: `initialize` is called, and `on_episode_begin` unless the game is yet to begin.

        Ids count from 0 unless given. Raises EnvError for an agent that is there already, or an id that is taken.
        """
        self.registry.add(agent, id)
        return agent

    def remove(self, agent: Agent) -> None:
        """Takes it out of the game for good; its episode is over."""
        life = agent._alive("remove")
        self.registry.disable(life)
        for recorder in list(life.recorders):
            recorder.close()
        agent._life = None

    def on_step(self, function: SomeCall) -> SomeCall:
        """Has it called after each of the academy's steps, when agents have acted: the place for a world's physics."""
        self._on_step.append(function)
        return function

    def on_reset(self, function: SomeCall) -> SomeCall:
        """Has it called where all begins anew, before agents begin their episodes."""
        self._on_reset.append(function)
        return function

    def on_close(self, function: SomeCall) -> SomeCall:
        """Has it called when the game is over for good."""
        self._on_close.append(function)
        return function

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Those that take part now."""
        return tuple(life.agent for life in self.registry.lives)

    # For whoever decides

    def advance(self) -> dict[str, AgentOutputs]:
        """Steps until an agent asks or has ended, and gives what all said. Then comes `answer` or `reset`.

        Raises EnvError for what the game does wrong, and for one that never asks.
        """
        self.run()
        return self.outbox.take()

    def answer(self, told: Mapping[str, AgentActions]) -> None:
        """Has those that asked do this, and finishes the step. Raises EnvError for actions that are none."""
        self.outbox.answer(told)
        self.finish()

    def reset(self, seed: int | None = None) -> None:
        """Begins all anew: nobody hears of the episodes that were. With a seed, chance begins anew too."""
        if seed is not None:
            self.seed(seed)
        self.outbox.drop()
        self.begin()

    def seed(self, seed: int) -> None:
        """Begins the area's chance anew; areas of one seed have streams of their own."""
        stream = np.random.SeedSequence([seed & 0xFFFFFFFF, self.area])
        self.rng = np.random.default_rng(stream)
        self.random.seed(int(stream.generate_state(2, np.uint64)[0]))

    def close(self) -> None:
        """The game is over: calls what `on_close` was given, which finishes demonstrations too. May be called again."""
        functions, self._on_close = self._on_close, []
        for function in functions:
            call(None, function)

    # Parts of these, for several areas together

    def begin(self) -> None:
        """What `reset` does in one area; the outbox is left alone."""
        registry = self.registry
        self.step_count, self.episode_count = 0, self.episode_count + 1
        registry.spoke = registry.playing = self._in_step = False
        for function in self._on_reset:
            call(None, function)
        registry.playing = True
        for life in registry.lives:
            if life.enabled:
                life.forget_rewards()
                registry.begin_episode(life)

    def run(self) -> None:
        """Steps until an agent asks or has ended."""
        if self._in_step:
            raise EnvError("the game was advanced without an answer to what its agents asked; call answer() or reset() first")
        if not self.episode_count:
            self.begin()
        for _ in range(PATIENCE):
            self._ask()
            if self.registry.spoke:
                self.registry.spoke, self._in_step = False, True
                return
            self._act()
        raise EnvError(self._silence())

    def finish(self) -> None:
        """What is left of a step when agents know what to do."""
        if not self._in_step:
            raise EnvError("the game was answered without having asked; call advance() first")
        self._in_step = False
        self._act()

    def _ask(self) -> None:
        """A step's first half: up to where agents wait for their actions."""
        step, lives = self.step_count, self.registry.lives
        for life in lives:
            agent = life.agent
            period = agent.decision_period
            if period:
                if step % period == 0:
                    life.asks = life.acts = True
                elif agent.take_actions_between_decisions:
                    life.acts = True
            life.steps += 1
        self.step_count = step + 1
        self.total_step_count += 1
        for life in lives:
            if life.asks:
                self.registry.ask(life)

    def _act(self) -> None:
        """A step's second half."""
        for life in self.registry.lives:
            agent = life.agent
            if life.acts:
                life.acts = False
                try:
                    agent.on_action_received(life.actions)
                except Exception as error:
                    blame(error, life, "on_action_received")
            if 0 < agent.max_step <= life.steps and life.enabled:
                self.registry.end(life, cut=True, what="max_step")
        for function in self._on_step:
            call(None, function)

    def _silence(self) -> str:
        """Why nobody asks."""
        lives = self.registry.lives
        if not lives and self.registry.ever:
            away = f"{PATIENCE} steps passed with all agents{self.registry.place} disabled or removed"
            return f"{away}; call enable() of one, or end episodes with end_episode(), which begins the next"
        if not lives:
            return f"{PATIENCE} steps passed without an agent{self.registry.place}; call academy.add(...) in the game's function"
        mute = "; ".join(map(str, lives[:3])) + (f" and {len(lives) - 3} more" if len(lives) > 3 else "")
        return (
            f"{PATIENCE} steps passed and no agent asked for a decision ({mute}); "
            f"set decision_period = 5 in its class, or call its request_decision() when it is its turn"
        )
