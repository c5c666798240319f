"""The areas of a game side by side: each has an academy and a clock of its own, and all speak with one voice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, Protocol

from palaestra.core.specs import BehaviorSpec
from palaestra.sdk.academy import Academy
from palaestra.sdk.agents.observation_queue import ObservationQueue
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs

STEP_SECONDS = 0.02
"""Of an academy's step, where a game is watched at the pace of a clock: Unity's."""


class Areas:
    """Makes the areas, and steps them together. On each exchange every area has something to say.

    An agent's id, as trainers know it, is `id in its area * areas + area`.
    """

    def __init__(
        self, make: Callable[[Academy], object], areas: int = 1, seed: int = 0, parameters: Mapping[str, float] | None = None
    ) -> None:
        """`make` is called with each area's academy, and adds its agents; `parameters` are there when it is."""
        self.outbox = ObservationQueue(areas)
        self.academies = tuple(Academy(seed, area, self.outbox) for area in range(areas))
        for academy in self.academies:
            for key, value in (parameters or {}).items():
                academy.environment_parameters.set(key, value)
            make(academy)

    @property
    def behaviors(self) -> Mapping[str, BehaviorSpec]:
        """Those of which an agent was ever added, by name."""
        return self.outbox.specs

    def advance(self) -> dict[str, AgentOutputs]:
        """Steps each area until it has something to say. Raises EnvError for what a game does wrong."""
        for academy in self.academies:
            academy.run()
        return self.outbox.take()

    def answer(self, told: Mapping[str, AgentActions]) -> None:
        """Has those that asked do this, and finishes the areas' steps. Raises EnvError for actions that are none."""
        self.outbox.answer(told)
        for academy in self.academies:
            academy.finish()

    def heuristic(self, key: str) -> AgentActions | None:
        """What those of a behavior key that asked would do by their own `heuristic`; None where nobody of them has one.

        Raises EnvError for actions that are none, and where only some have one.
        """
        return self.outbox.crowds[key].heuristic()

    def reset(self) -> None:
        """Begins all anew: nobody hears of the episodes that were."""
        self.outbox.drop()
        for academy in self.academies:
            academy.begin()

    def close(self) -> None:
        """The game is over. May be called again."""
        for academy in self.academies:
            academy.close()


class MakesAreas(Protocol):
    """A game: it makes its areas, and says what it is."""

    name: str
    summary: str
    parameters: Mapping[str, float]
    options: Mapping[str, Parameter]

    def stage(self, areas: int = 1, seed: int = 0, **options: Any) -> Areas:
        """Returns its areas, filled. Raises EnvError for what the author's function raises."""
        ...
