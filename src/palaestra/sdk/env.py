"""A game in Python as an environment in this process, with the same tables as a Unity game."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.metrics import Measurement
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Distribution
from palaestra.envs.slots import Ids
from palaestra.envs.traits import EnvTraits
from palaestra.envs.unity.table import Arrival, BehaviorTable
from palaestra.sdk.areas import STEP_SECONDS, MakesAreas
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs
from palaestra.sdk.protocol.game_channels import EnvironmentParameters
from palaestra.wire.unity_channels import KINDS


class SdkEnv:
    """Environment of a game's areas. A tick is one exchange: each area steps until it has outputs, so every tick has
    outputs of each area.

    Environment parameters have effect when the game next reads them, usually when an episode begins. `reset` makes a
    new game.
    """

    def __init__(self, game: MakesAreas, areas: int, options: Mapping[str, Any]) -> None:
        self.game = game
        self.num_areas = areas
        self.device = torch.device("cpu")
        self.traits = EnvTraits(
            summary=game.summary,
            shared_areas=True,  # an academy may hold many arenas
            timed=True,
            measures=True,
            samples_parameters=True,
            has_heuristic=True,
        )
        self.parameters = game.parameters
        self._options = dict(options)
        self._parameter_setters: dict[str, Callable[[EnvironmentParameters, int], None]] = {}
        """Sets a parameter, by its name, in an area, which is given with its number."""
        self._tables: dict[str, BehaviorTable] = {}
        self._slots: dict[str, dict[str, Ids]] = {}
        self._ticks = np.zeros(areas, np.int64)
        self._areas = game.make_areas(areas, 0, **options)
        self.tick_seconds = STEP_SECONDS
        """Game seconds of the last tick, as an estimate for the next tick, whose length is only known when it ends."""
        self._unused_seed: int | None = 0
        """Seed of the areas until their first step; None after it."""

    @property
    def behaviors(self) -> Mapping[str, BehaviorSpec]:
        """Specs of the behaviors whose agents have been added, by name."""
        return self._areas.behaviors

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Makes a new game and returns the tables of its first decision requests."""
        if self._unused_seed != seed:
            self._areas.close()
            self._areas = self.game.make_areas(self.num_areas, seed, **self._options)
        self._unused_seed = None
        for setter in self._parameter_setters.values():
            self._apply(setter)
        self._tables = {}
        self._slots = {}
        self._ticks[:] = 0
        return self._tables_of(self._areas.advance())

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Gives the actions to the agents and steps each area until it has outputs. Raises EnvError."""
        agent_actions: dict[str, AgentActions] = {}
        for name, slots_of_key in self._slots.items():
            action = actions.get(name)
            if action is None:
                continue
            continuous = action.continuous.numpy()
            discrete = action.discrete.numpy()
            for key, slots in slots_of_key.items():
                if len(slots):
                    agent_actions[key] = AgentActions(continuous[slots], discrete[slots])
        self._areas.answer(agent_actions)
        academy = self._areas.academies[0]
        before = academy.total_step_count
        outputs = self._areas.advance()
        self.tick_seconds = STEP_SECONDS * (academy.total_step_count - before)
        return self._tables_of(outputs)

    def _tables_of(self, outputs: Mapping[str, AgentOutputs]) -> dict[str, TimeStep]:
        self._ticks += 1
        arrivals: dict[str, list[Arrival]] = {name: [] for name in self._tables}
        for key, one in outputs.items():
            name, _, team = key.rpartition("?team=")
            areas = one.infos.id % self.num_areas if self.num_areas > 1 else None
            arrivals.setdefault(name, []).append(
                Arrival(name, key, 0, 0, int(team), one.infos, one.obs, one.mask, areas)
            )
        steps: dict[str, TimeStep] = {}
        for name, some in arrivals.items():
            if name not in self._tables:
                self._tables[name] = BehaviorTable(self.behaviors[name])
            steps[name], slots_of_key = self._tables[name].tick(some, (), self._ticks)
            self._slots[name] = {key: slots for (_, key), slots in slots_of_key.items()}
        return steps

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets environment parameters, (num_areas,) each. Raises EnvError for a name that the game does not declare."""
        for key, column in values.items():
            numbers = column.tolist()
            self._set(key, lambda area, at, key=key, numbers=numbers: area.set(key, numbers[at]))

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Sets a sampler in each area, which draws at each read. Raises EnvError as `set_parameters` does."""
        self._set(name, lambda area, at: area.sample(name, kind, numbers, seeds[at]))

    def _set(self, key: str, setter: Callable[[EnvironmentParameters, int], None]) -> None:
        if self.parameters and key not in self.parameters:
            known = ", ".join(self.parameters)
            raise EnvError(
                f"game '{self.game.name}' has no parameter '{key}'{nearest(key, self.parameters)} (it declares: "
                f"{known})"
            )
        self._parameter_setters[key] = setter
        if self._unused_seed is None:
            self._apply(setter)

    def _apply(self, setter: Callable[[EnvironmentParameters, int], None]) -> None:
        for at, academy in enumerate(self._areas.academies):
            setter(academy.environment_parameters, at)

    def take_measurements(self) -> list[Measurement]:
        """Returns the values added to the game's StatsRecorders since the last call, area after area."""
        stats = [stat for academy in self._areas.academies for stat in academy.stats_recorder.take()]
        return [Measurement(stat.key, stat.value, KINDS[stat.method]) for stat in stats]

    def heuristic(self, behavior: str, slots: Ids | None = None) -> Action | None:
        """Returns the actions of `heuristic` methods, for whole teams that have agents in `slots`; None without such
        methods."""
        spec = self.behaviors[behavior].action
        size = len(self._tables[behavior])
        action = Action(torch.zeros(size, spec.continuous), torch.zeros(size, len(spec.branches), dtype=torch.int64))
        for key, rows in self._slots.get(behavior, {}).items():
            if slots is not None and not np.isin(rows, slots).any():
                continue
            agent_actions = self._areas.heuristic(key)
            if agent_actions is None:
                return None
            action.continuous[rows] = torch.from_numpy(agent_actions.continuous)
            action.discrete[rows] = torch.from_numpy(agent_actions.discrete)
        return action

    def render(self, area: int) -> NDArray[np.uint8]:
        """Returns the image that `academy.render` draws. Raises EnvError if the game did not set it, or if the image
        has another shape or type than (H, W, 3) uint8."""
        draw = self._areas.academies[area].render
        if draw is None:
            raise EnvError(
                f"game '{self.game.name}' cannot be drawn; set academy.render to a function that returns (H, W, 3) "
                "uint8"
            )
        picture = np.asarray(draw())
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise EnvError(
                f"game '{self.game.name}': academy.render drew {picture.dtype} {picture.shape}; expected (H, W, 3) "
                "uint8"
            )
        return picture

    def state_dict(self) -> dict[str, Tensor]:
        """Returns an empty state: a game cannot be saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Accepts only the empty state. Raises EnvError for any other state."""
        if state:
            raise EnvError(f"a game in Python cannot be restored from a saved state (this one has {', '.join(state)})")

    def close(self) -> None:
        """Closes the game: calls its `on_close` functions and finishes demonstrations."""
        self._areas.close()
