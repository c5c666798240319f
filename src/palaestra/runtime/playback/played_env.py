"""An environment with brains that is played tick by tick, and facts about the newest tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.envs.ray_fans import RayFan
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.play.assigned_brains import AgentKey, AssignedBrains, BrainOf
from palaestra.runtime.playback.agent_slots import AgentSlots, Moves
from palaestra.runtime.playback.tally import Tally

USUAL_TICK = 0.05
"""Seconds of a tick of an environment that does not say how long one lasts."""
SHORTEST_TICK = 0.02
"""Least seconds of a tick for a game that keeps time by itself, at normal speed: Unity's usual physics step."""

Watcher = Callable[[Mapping[str, TimeStep], Mapping[str, Action], Mapping[str, TimeStep]], None]


class PlayedEnv:
    """Steps an environment, in one thread; other threads may read."""

    def __init__(self, env: Env, brain_of: BrainOf, seed: int) -> None:
        self.env = EnvWrapper.of(env)
        self.brains = AssignedBrains(self.env, brain_of)
        self.tally = Tally()
        self.slots: AgentSlots | None = AgentSlots() if self.env.traits.reassigns_slots else None
        """Slots that have agents, if an agent's episodes may be in different slots; None: agents stay in their
        slots."""
        self.steps: dict[str, TimeStep] = {}
        """Tables of the newest tick, which are never modified."""
        self.actions: dict[str, Action] = {}
        """Actions that led to the newest tick."""
        self.tick = -1
        """Number of the newest tick; -1 before the first."""
        self.made = 0.0
        """Time of the newest tick, by time.monotonic."""
        self.looked: AgentKey | None = None
        """The agent that the viewer looks at, in its present slot."""
        self.watchers: list[Watcher] = []
        """Functions that are called after each tick (tables before, actions, tables after) and after a restart (only
        the last)."""
        self.followers: list[Callable[[Moves], None]] = []
        """Functions that are called after the watchers if agents continue in other slots."""
        self._seed = seed

    @property
    def seconds(self) -> float:
        """Seconds of a tick at normal speed."""
        return self.env.tick_seconds or (SHORTEST_TICK if self.env.traits.real_time else USUAL_TICK)

    def restart(self, seed: int | None = None) -> None:
        """Begins all episodes anew."""
        self._seed = self._seed + 1 if seed is None else seed
        self.steps = self.env.reset(self._seed)
        self.brains.restart()
        self.tally.note(self.steps, first=True, agent_slots=self.slots)
        self._noted({}, {})

    def advance(self) -> None:
        """Makes one tick."""
        before = self.steps
        self.actions = self.brains.act(before)
        self.steps = self.env.step(self.actions)
        self.tally.note(self.steps, agent_slots=self.slots)
        self._noted(before, self.actions)

    def set_parameter(self, name: str, value: float) -> None:
        """Sets a parameter of the environment, from each area's next episode on."""
        self.env.set_parameters({name: torch.full((self.env.num_areas,), value, device=self.env.device)})

    def set_brains(self, brain_of: BrainOf, *, anew: bool) -> None:
        """Replaces the brains of all sides, but not the brains of single agents. `anew`: scores start again at 0."""
        self.brains.replace(brain_of)
        if anew:
            self.tally.begin_scores()

    def rays(self, behavior: str, slot: int) -> list[tuple[RayFan, NDArray[np.float32]]]:
        """Returns the ray sensors of an agent, each with its observation (n,); empty if it describes none."""
        step = self.steps.get(behavior)
        fans = self.env.traits.ray_fans.get(behavior, ())
        if not fans or step is None or slot >= len(step.acting):
            return []
        columns = {part.name: column for part, column in zip(self.env.behaviors[behavior].obs, step.obs, strict=True)}
        return [(fan, columns[fan.obs][slot].cpu().numpy()) for fan in fans if fan.obs in columns]

    def _noted(self, before: Mapping[str, TimeStep], actions: Mapping[str, Action]) -> None:
        self.tick += 1
        self.made = time.monotonic()
        for watcher in tuple(self.watchers):
            watcher(before, actions, self.steps)
        if self.slots is None or not (moves := self.slots.note(self.steps, first=not before)):
            return
        self.brains.move(moves)
        if self.looked in moves:
            self.looked = self.looked[0], moves[self.looked]
        for follower in tuple(self.followers):
            follower(moves)
