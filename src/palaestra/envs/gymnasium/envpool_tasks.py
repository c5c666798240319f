"""Opens EnvPool's tasks (`--env=envpool:CartPole-v1`), which simulate all areas in threads of one process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from palaestra.core.errors import EnvError, PalaestraError, exception_summary
from palaestra.core.plugins import nearest
from palaestra.envs.gymnasium.env import DEFAULT_AREAS, GymnasiumEnv
from palaestra.envs.gymnasium.packages import nearest_ids
from palaestra.envs.spaces.conventions import Conventions
from palaestra.envs.spaces.option_names import NAMES

OURS = {
    "num_envs": "--num-areas says how many",
    "batch_size": "every area acts on every tick",
    "seed": "--seed seeds the run",
    "env_seed": "--seed seeds the run",
    "env_type": "it is always Gymnasium's",
    "render_mode": "render=True enables pictures",
    "max_num_players": "each area has one agent",
}
"""Options of EnvPool that cannot be given, and why."""
LEAST = {
    "num_threads": 0,
    "max_episode_steps": 1,
    "frame_skip": 1,
    "frame_stack": 1,
    "stack_num": 1,
    "img_height": 1,
    "img_width": 1,
}
"""Least values of options: with lower ones EnvPool stands still or ends the process."""


def open_envpool(task: str, areas: int | None, options: Mapping[str, Any]) -> GymnasiumEnv:
    """Opens a task. Raises EnvError if the package or the task is missing, or for an unknown option."""
    name = f"envpool:{task}"
    count = DEFAULT_AREAS if areas is None else areas
    if count < 1:
        raise EnvError(f"{name} cannot have {areas} areas; expected at least 1")
    if find_spec("envpool") is None:
        raise EnvError(
            f"{name} needs the package envpool, which is not installed: pip install 'palaestra[envpool]' (Python 3.11 "
            "or newer)"
        )
    given = dict(options)
    rendered = given.pop("render", False)
    conventions = Conventions.taken_from(given)
    if taken := [option for option in given if option in OURS]:
        raise EnvError(f"{name} takes no option '{taken[0]}': {OURS[taken[0]]}")
    return GymnasiumEnv.wrap(
        PoolTask(task, count, given | ({"render_mode": "rgb_array"} if rendered else {})), name, conventions
    )


class PoolTask(VectorEnv):
    """A task of EnvPool, made again at each `reset` with a seed: EnvPool takes seeds only when a task is made."""

    def __init__(self, task: str, count: int, options: Mapping[str, Any]) -> None:
        """Raises EnvError for an unknown task, a task of several players, or a wrong option."""
        self._task = task
        self._options = dict(options)
        self._name = f"envpool:{task}"
        given = {key: value for key, value in options.items() if key != "render_mode"}
        defaults = self._spec({}).config
        self._check(given, {key: value for key, value in defaults._asdict().items() if key not in OURS})
        if defaults.max_num_players > 1:
            raise EnvError(
                f"{self._name} has {defaults.max_num_players} players in each area; only tasks of one player can be "
                "trained"
            )
        self._facts = self._spec(given)
        self.num_envs = count
        self.render_mode = self._options.get("render_mode")
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": ["rgb_array"]}
        with _quietly():
            self.single_observation_space = self._facts.gymnasium_observation_space
            self.single_action_space = self._facts.gymnasium_action_space
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self.spec = EnvSpec(
            task, reward_threshold=self._facts.reward_threshold, max_episode_steps=self._facts.config.max_episode_steps
        )
        self._pool: Any = None

    def _check(self, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        for key, value in options.items():
            if key not in defaults:
                near = nearest(key, [*defaults, *NAMES])
                raise EnvError(f"{self._name} takes no option '{key}'{near} (it takes: {', '.join(defaults)})")
            if not _alike(value, defaults[key]):
                raise EnvError(
                    f"{self._name}: option '{key}' is {value!r}; expected a value like its default, {defaults[key]!r}"
                )
            if key in LEAST and value < LEAST[key]:
                raise EnvError(f"{self._name}: option '{key}' is {value}; expected at least {LEAST[key]}")

    def _spec(self, options: Mapping[str, Any]) -> Any:
        """Returns EnvPool's description of the task with these options. Raises EnvError if there is none."""
        envpool = import_module("envpool")
        known = envpool.list_all_envs()
        if self._task not in known:
            listed = ", ".join(f"'{one}'" for one in nearest_ids(self._task, known))
            meant = f"; did you mean {listed}?" if listed else f"; it has {len(known):,} (envpool.list_all_envs())"
            raise EnvError(f"EnvPool has no task '{self._task}'{meant}")
        try:
            with _quietly():
                return envpool.make_spec(self._task, **options)
        except Exception as error:  # EnvPool raises what its options' values cause
            raise EnvError(f"{self._name} cannot be made: {exception_summary(error)}") from error

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes in all areas. Raises EnvError if the task cannot be made."""
        if self._pool is None or seed is not None:
            self.close()
            self._pool = self._made(0 if seed is None else seed & 0x7FFFFFFF)
        with _quietly():
            return self._pool.reset()

    def _made(self, seed: int) -> Any:
        envpool = import_module("envpool")
        try:
            with _quietly():
                return envpool.make(
                    self._task, env_type="gymnasium", num_envs=self.num_envs, seed=seed, **self._options
                )
        except PalaestraError:
            raise
        except Exception as error:  # EnvPool raises what its options' types and values cause
            raise EnvError(f"{self._name} cannot be made: {exception_summary(error)}") from error

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Simulates one tick in all areas."""
        return self._pool.step(actions)

    def render(self) -> tuple[np.ndarray, ...]:
        """Returns a picture of each area. Raises EnvError if the task has no pictures."""
        try:
            return tuple(self._pool.render(env_ids=np.arange(self.num_envs)))
        except Exception as error:  # whatever EnvPool's renderers need
            raise EnvError(f"{self._name} cannot be drawn: {exception_summary(error)}") from error

    def close(self, **options: Any) -> None:
        """Ends the task's threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _alike(value: Any, default: Any) -> bool:
    """Whether a value has the type of an option's default; whole numbers are floats, too."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, list | tuple) if isinstance(default, list | tuple) else isinstance(value, type(default))


@contextmanager
def _quietly() -> Iterator[None]:
    """Hides the warnings that EnvPool's bounds cause, which are rounded to float32."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
