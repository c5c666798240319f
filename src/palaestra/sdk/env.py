"""A game in Python, played in this process: no wire, no copy, the same tables as a Unity game's."""

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
from palaestra.envs.unity.table import Arrival, BehaviorTable
from palaestra.sdk.areas import STEP_SECONDS, Areas, MakesAreas
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs
from palaestra.sdk.protocol.game_channels import EnvironmentParameters
from palaestra.wire.unity_channels import KINDS


class SdkEnv:
    """A game's areas as one environment: a tick is one exchange. Each area has a clock of its own, so on each tick all speak.

    Parameters take hold where the game next asks for them, mostly where an episode begins. `reset` makes the game anew.
    """

    shared_areas = True
    """An academy may hold many arenas."""

    def __init__(self, game: MakesAreas, areas: int, options: Mapping[str, Any]) -> None:
        self.game, self.num_areas, self.device = game, areas, torch.device("cpu")
        self.summary, self.parameters = game.summary, game.parameters
        self._options = dict(options)
        self._said: dict[str, Callable[[EnvironmentParameters, int], None]] = {}
        """By parameter: tells an area, which has a number, what was said of it."""
        self._tables: dict[str, BehaviorTable] = {}
        self._asked: dict[str, dict[str, Ids]] = {}
        self._ticks = np.zeros(areas, np.int64)
        self._stage = self._made(0)
        self.tick_seconds = STEP_SECONDS
        """Of the last tick, which the next one mostly equals: when agents ask next, nobody knows."""
        self._fresh_for: int | None = 0
        """The seed with which the stage was made, while it is untouched."""

    def _made(self, seed: int) -> Areas:
        return self.game.stage(self.num_areas, seed, **self._options)

    @property
    def behaviors(self) -> Mapping[str, BehaviorSpec]:
        """Those whose agents were ever seen, by name."""
        return self._stage.behaviors

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Makes the game anew, and shows its agents' first questions."""
        if self._fresh_for != seed:
            self._stage.close()
            self._stage = self._made(seed)
        self._fresh_for = None
        for say in self._said.values():
            self._tell(say)
        self._tables, self._asked = {}, {}
        self._ticks[:] = 0
        return self._show(self._stage.advance())

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Answers all areas, and steps each until it has something to say. Raises EnvError for what the game does wrong."""
        told: dict[str, AgentActions] = {}
        for name, asked in self._asked.items():
            action = actions.get(name)
            if action is None:
                continue
            continuous, discrete = action.continuous.numpy(), action.discrete.numpy()
            for key, slots in asked.items():
                if len(slots):
                    told[key] = AgentActions(continuous[slots], discrete[slots])
        self._stage.answer(told)
        before = self._steps()
        said = self._stage.advance()
        self.tick_seconds = STEP_SECONDS * (self._steps() - before)
        return self._show(said)

    def _steps(self) -> int:
        return self._stage.academies[0].total_step_count

    def _show(self, said: Mapping[str, AgentOutputs]) -> dict[str, TimeStep]:
        """The tables of this tick."""
        self._ticks += 1
        arrivals: dict[str, list[Arrival]] = {name: [] for name in self._tables}
        for key, one in said.items():
            name, _, team = key.rpartition("?team=")
            areas = one.infos.id % self.num_areas if self.num_areas > 1 else None
            arrivals.setdefault(name, []).append(Arrival(name, key, 0, 0, int(team), one.infos, one.obs, one.mask, areas))
        steps: dict[str, TimeStep] = {}
        for name, some in arrivals.items():
            if name not in self._tables:
                self._tables[name] = BehaviorTable(self.behaviors[name])
            steps[name], asked = self._tables[name].tick(some, (), self._ticks)
            self._asked[name] = {key: slots for (_, key), slots in asked.items()}
        return steps

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Of each area one value. Raises EnvError for a name that the game does not declare, where it declares any."""
        for key, column in values.items():
            numbers = column.tolist()
            self._say(key, lambda area, at, key=key, numbers=numbers: area.set(key, numbers[at]))

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Each area draws a number where the game asks for one. Raises EnvError as `set_parameters` does."""
        match kind:
            case "uniform":
                self._say(name, lambda area, at: area.set_uniform(name, numbers[0], numbers[1], seeds[at]))
            case "gaussian":
                self._say(name, lambda area, at: area.set_gaussian(name, numbers[0], numbers[1], seeds[at]))
            case "multirangeuniform":
                intervals = [*zip(numbers[::2], numbers[1::2], strict=True)]
                self._say(name, lambda area, at: area.set_multirange_uniform(name, intervals, seeds[at]))

    def _say(self, key: str, say: Callable[[EnvironmentParameters, int], None]) -> None:
        if self.parameters and key not in self.parameters:
            known = ", ".join(self.parameters)
            raise EnvError(f"game '{self.game.name}' has no parameter '{key}'{nearest(key, self.parameters)} (it declares: {known})")
        self._said[key] = say
        if self._fresh_for is None:
            self._tell(say)

    def _tell(self, say: Callable[[EnvironmentParameters, int], None]) -> None:
        for at, academy in enumerate(self._stage.academies):
            say(academy.environment_parameters, at)

    def take_measurements(self) -> list[Measurement]:
        """What the game's StatsRecorders were given since the last call, area after area."""
        stats = [stat for academy in self._stage.academies for stat in academy.stats_recorder.take()]
        return [Measurement(stat.key, stat.value, KINDS[stat.method]) for stat in stats]

    def heuristic(self, behavior: str, slots: Ids | None = None) -> Action | None:
        """What agents' own `heuristic` would do, those of whole teams; None where no class of theirs has one."""
        spec, size = self.behaviors[behavior].action, len(self._tables[behavior])
        action = Action(torch.zeros(size, spec.continuous), torch.zeros(size, len(spec.branches), dtype=torch.int64))
        for key, rows in self._asked.get(behavior, {}).items():
            if slots is not None and not np.isin(rows, slots).any():
                continue
            told = self._stage.heuristic(key)
            if told is None:
                return None
            action.continuous[rows], action.discrete[rows] = torch.from_numpy(told.continuous), torch.from_numpy(told.discrete)
        return action

    def render(self, area: int) -> NDArray[np.uint8]:
        """What the game's own `academy.render` draws. Raises EnvError where it has none, or draws something else."""
        draw = self._stage.academies[area].render
        if draw is None:
            raise EnvError(f"game '{self.game.name}' draws nothing; set academy.render to a function that gives (H, W, 3) uint8")
        picture = np.asarray(draw())
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise EnvError(f"game '{self.game.name}': academy.render drew {picture.dtype} {picture.shape}; expected (H, W, 3) uint8")
        return picture

    def state_dict(self) -> dict[str, Tensor]:
        """Empty: a game cannot be saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes the empty state only."""
        if state:
            raise EnvError(f"a game in Python cannot go back to a saved state (this one holds {', '.join(state)})")

    def close(self) -> None:
        """Demonstrations are finished, and the game's `on_close` is called."""
        self._stage.close()
