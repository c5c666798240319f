"""Steps several areas of a game together. Each area has its own academy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, Protocol

from palaestra.core.specs import BehaviorSpec
from palaestra.sdk.agents.academy import Academy
from palaestra.sdk.agents.observation_queue import ObservationQueue
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs

STEP_SECONDS = 0.02
"""Seconds of an academy's step when a game runs in real time, as in Unity."""


class Areas:
    """All areas of a game. An agent's id in an exchange is `id in its area * number of areas + area`."""

    def __init__(
        self,
        make: Callable[[Academy], object],
        areas: int = 1,
        seed: int = 0,
        parameters: Mapping[str, float] | None = None,
    ) -> None:
        """Calls `make` with the academy of each area, to add its agents; environment parameters are set before that."""
        self.observation_queue = ObservationQueue(areas)
        self.academies = tuple(Academy(seed, area, self.observation_queue) for area in range(areas))
        for academy in self.academies:
            for key, value in (parameters or {}).items():
                academy.environment_parameters.set(key, value)
            make(academy)

    @property
    def behaviors(self) -> Mapping[str, BehaviorSpec]:
        """Specs of the behaviors whose agents have been added, by name."""
        return self.observation_queue.specs

    def advance(self) -> dict[str, AgentOutputs]:
        """Steps each area until an agent requests a decision or ends an episode. Raises EnvError."""
        for academy in self.academies:
            academy.run()
        return self.observation_queue.take()

    def answer(self, actions: Mapping[str, AgentActions]) -> None:
        """Gives actions to the agents that requested decisions and finishes the step. Raises EnvError."""
        self.observation_queue.answer(actions)
        for academy in self.academies:
            academy.finish()

    def heuristic(self, key: str) -> AgentActions | None:
        """Returns the actions of `heuristic` methods for a behavior key; None without such methods. Raises EnvError."""
        return self.observation_queue.queues[key].heuristic()

    def reset(self) -> None:
        """Begins new episodes in all areas and discards the open ones without reporting their ends."""
        self.observation_queue.drop()
        for academy in self.academies:
            academy.begin()

    def close(self) -> None:
        """Closes all areas. May be called again."""
        for academy in self.academies:
            academy.close()


class MakesAreas(Protocol):
    """Protocol of games that make their own areas, such as `Game`."""

    name: str
    summary: str
    parameters: Mapping[str, float]
    options: Mapping[str, Parameter]

    def make_areas(self, areas: int = 1, seed: int = 0, **options: Any) -> Areas:
        """Returns the game's areas with their agents. Raises EnvError for an error in the author's function."""
        ...
