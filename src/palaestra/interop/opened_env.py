"""An open environment of any kind that can be seeded, given parameters, copied and pickled."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.error import ClosedEnvironmentError

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.environments.make import DRAWN, EDITOR, guarded, is_game, make_env

Tables = Mapping[str, TimeStep]
MOST_SEED = 2**31


def named_parameters(given: Any) -> dict[str, Any]:
    """Returns environment parameters by name, none for None. Raises EnvError for anything but a dictionary."""
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
        raise EnvError(
            f"parameters is {given!r}; expected a dictionary of environment parameters, such as {{'mass': 2.0}}"
        )
    return dict(given or {})


def checked_seed(name: str, seed: Any) -> int | None:
    """Returns the seed of a reset. Raises EnvError for a seed that is no whole number of at least 0."""
    if seed is None:
        return None
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer):
        raise EnvError(f"{name}: the seed is {seed!r}; expected one whole number, from which every area's seed follows")
    if seed < 0:
        raise EnvError(f"{name}: the seed is {seed}; expected a whole number of at least 0")
    return int(seed)


def why_no_batch(env: OpenedEnv) -> str | None:
    """Returns why the agents of an environment cannot be stepped as one batch; None if they can."""
    tables = env.tables
    specs = [*env.env.behaviors.values()]
    acting = (
        torch.stack([step.acting for step in tables.values()]).any(0)
        if len({len(step.acting) for step in tables.values()}) == 1
        else None
    )
    if any(spec != specs[0] for spec in specs) or acting is None or (len(specs) > 1 and not acting.all()):
        return f"its behaviors {', '.join(tables)} are different agents"
    if len(specs) == 1 and not specs[0].steady:
        return "its agents come and go within an episode"
    return None


class OpenedEnv:
    """An environment and its current tables, reset as soon as it is opened, as a game names its behaviors only then."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        num_areas: int | None = None,
        device: str = "cpu",
        seed: int | None = None,
        drawn: bool = False,
    ) -> None:
        """Opens the environment that `palaestra learn --env` names `name`. `options` go to the environment. `drawn`:
        pictures will be requested.

        `parameters` among them are environment parameters, each a number, or one for each area. Without a seed, a game
        starts with 0, as Unity's do, and any other environment with one drawn at random, so that copies differ. Raises
        EnvError.
        """
        if given := [key for key in ("areas", "num_areas") if key in options]:
            raise EnvError(
                f"{name} takes no option '{given[0]}' here: one area is opened, or as many as the num_envs of "
                "gymnasium.make_vec need"
            )
        options = dict(options)
        self.name = name
        self._given = {"areas": num_areas, "device": device}
        self._parameters = named_parameters(options.pop("parameters", None))
        if drawn and name.startswith(DRAWN):
            options.setdefault("render", True)
        self._options = options
        self._game = is_game(name)
        self._is_fresh = False
        self.closed = False
        if (first := checked_seed(name, seed)) is None:
            first = 0 if self._game else int(np.random.default_rng().integers(MOST_SEED))
        self._seed = first
        self._take(self._open())
        try:
            self.tables: Tables = self._reset(self._seed)
            self._is_fresh = self._game
        except BaseException:
            self.close()
            raise

    @property
    def has_fixed_agents(self) -> bool:
        """Whether every agent is known from the start, as in built-in environments."""
        return not self.env.traits.shared_areas

    @property
    def can_draw(self) -> bool:
        """Whether `render` can return a picture; a game in another process draws in its own window."""
        return not self._game and self.env.traits.renders

    def reset(self, seed: int) -> Tables:
        """Resets the environment. A game takes a seed only when it starts, so it may be started again."""
        seed = seed % MOST_SEED
        if self._is_fresh and seed == self._seed:
            return self.tables
        if self._game:
            self._start_again(seed)
        self.tables = self._reset(seed)
        self._is_fresh = self._game
        return self.tables

    def reset_unseeded(self, seed: int) -> Tables:
        """Resets for a caller who gave no seed: a running game begins new episodes without a seed; other environments
        take `seed`."""
        self._is_fresh = False
        self.tables = self._reset(self._seed if self._game else seed % MOST_SEED)
        return self.tables

    def step(self, actions: Mapping[str, Action]) -> Tables:
        """Simulates one tick."""
        self._is_fresh = False
        self.tables = self.env.step(actions)
        return self.tables

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Sets parameters from the next episode on: a number for all areas, or one for each area. Raises EnvError."""
        self.check_open()
        areas = self.env.num_areas
        columns = {}
        for name, value in values.items():
            try:
                columns[name] = torch.as_tensor(value, dtype=torch.float32).expand(areas).to(self.env.device)
            except (TypeError, ValueError, RuntimeError) as error:
                raise EnvError(
                    f"{self.name}, parameter '{name}' is {value!r}; expected a number, or one for each of {areas} areas"
                ) from error
        self.env.set_parameters(columns)
        self._is_fresh = False
        self._parameters |= values

    def render(self) -> np.ndarray:
        """Returns a picture of the first area, (H, W, 3) uint8."""
        self.check_open()
        return self.env.render(0)

    def check_open(self) -> None:
        """Raises gymnasium.error.ClosedEnvironmentError once the environment is closed."""
        if self.closed:
            raise ClosedEnvironmentError(f"{self.name} is closed; make another environment")

    def close(self) -> None:
        """Closes the environment; may be called again."""
        self.closed = True
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        saved = {} if self.closed else self.env.state_dict()
        if not saved:
            why = "it is closed" if self.closed else "it has no state that can be saved; make another one instead"
            raise EnvError(f"{self.name} cannot be copied or pickled: {why}")
        return {**{key: value for key, value in self.__dict__.items() if key != "_close"}, "env": saved}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._take(self._open())
        self.env.load_state_dict(state["env"])

    def _take(self, env: EnvWrapper) -> None:
        """Holds an environment, which is closed with this object, at the latest when it is garbage-collected or
        Python ends."""
        self.env, self._close = env, weakref.finalize(self, env.close)

    def _open(self) -> EnvWrapper:
        return guarded(make_env(self.name, **self._given, options=self._options), self.name)

    def _start_again(self, seed: int) -> None:
        if self.name == EDITOR:
            warnings.warn(f"the Editor took its seed when Play was pressed; {seed} is not used", stacklevel=4)
            return
        self._close()
        self._take(self._open())

    def _reset(self, seed: int) -> Tables:
        self._seed = seed
        if self._parameters:
            self.set_parameters(self._parameters)
        return self.env.reset(seed)
