"""Makes the vector versions that environments bring along (`vector_entry_point`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, signature
from math import inf
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from palaestra.core.errors import EnvError
from palaestra.envs.gymnasium.single_envs import SingleEnvs
from palaestra.envs.gymnasium.vector_envs import VectorEnvs, adapted
from palaestra.envs.option_types import check_option_types
from palaestra.envs.spaces.conventions import Conventions

ATARI_GAME = "ale_py.env:AtariEnv"
"""Entry point of environments with a single Atari game."""
ATARI_GAMES = "ale_py.vector_env:AtariVectorEnv"
"""Entry point of Atari's vector environment."""
FIXED = ("game", "num_envs", "autoreset_mode", "render_mode", "batch_size")
"""Options of Atari's vector environment that a user cannot set."""
RANGES: dict[str, tuple[float, float]] = {
    "img_height": (1, inf),
    "img_width": (1, inf),
    "stack_num": (1, inf),
    "frameskip": (1, inf),
    "noop_max": (0, inf),
    "num_threads": (0, inf),
    "thread_affinity_offset": (-1, inf),
    "max_num_frames_per_episode": (1, inf),
    "repeat_action_probability": (0, 1),
    "continuous_action_threshold": (0, 1),
}
"""Least and greatest value of each numeric option of Atari's vector environment, which does not check them itself."""
WHOLE_SCREEN = {"grayscale": False, "img_height": 210, "img_width": 160, "stack_num": 1, "maxpool": False}
"""Options of an Atari vector environment that return the console's whole screen."""


def native_envs(
    spec: EnvSpec, count: int, options: dict[str, Any], conventions: Conventions, *, rendered: bool
) -> SingleEnvs | VectorEnvs | None:
    """Makes the environment's own vector version if there is no other version, or if its areas act on every tick."""
    spec = _with_usual_pictures(spec)
    if spec.vector_entry_point is None:
        return None
    creator = spec.vector_entry_point
    creator = creator if callable(creator) else load_env_creator(creator)
    single = rendered or bool(conventions.parameters)
    if spec.entry_point is not None and not _preferred(creator, spec, options, single=single):
        return None
    name = f"gymnasium:{spec.id}"
    if _is_atari(creator):
        if "batch_size" in options:
            raise EnvError(f"{name} takes no option 'batch_size': every game acts on every tick")
        check_option_types(name, creator, options, RANGES)
    if "autoreset_mode" in signature(creator).parameters:
        options = {"autoreset_mode": AutoresetMode.SAME_STEP, **options}
    if rendered and not _is_atari(creator):
        options = {**options, "render_mode": "rgb_array"}
    envs = _made(spec, count, options)
    if rendered and _is_atari(creator):
        envs = WithScreens(envs, _made(spec, count, {**options, **WHOLE_SCREEN}))
    return adapted(envs, name, conventions)


def vector_options(spec: EnvSpec) -> list[str]:
    """Returns the names of the options that the vector version of an Atari game takes; none for other environments."""
    creator = _with_usual_pictures(spec).vector_entry_point
    return (
        []
        if creator != ATARI_GAMES
        else [each for each in signature(load_env_creator(ATARI_GAMES)).parameters if each not in FIXED]
    )


def _with_usual_pictures(spec: EnvSpec) -> EnvSpec:
    """Gives ids such as PongNoFrameskip-v4 the vector environment that ALE/Pong-v5 has.

    Such an id names the emulator's single frames for wrappers to make the usual pictures of: gray, small, four frames a
    decision, stacked.
    """
    if spec.entry_point != ATARI_GAME or spec.vector_entry_point is not None or spec.kwargs.get("frameskip") != 1:
        return spec
    kwargs = {key: value for key, value in spec.kwargs.items() if key != "frameskip"}
    return replace(spec, kwargs=kwargs, vector_entry_point=ATARI_GAMES)


def _preferred(creator: Callable[..., Any], spec: EnvSpec, options: dict[str, Any], *, single: bool) -> bool:
    """Whether a vector version is used although there are single environments. `single`: these can do more that is
    asked for, such as drawing, or a parameter with its own value in each."""
    takes = signature(creator).parameters
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in takes.values())
    if spec.additional_wrappers or not (takes_all or {*spec.kwargs, *options} <= {*takes}):
        return False
    if _is_atari(creator):
        return True
    if single:
        return False
    return "autoreset_mode" in takes or creator is CartPoleVectorEnv or _mode(creator) is AutoresetMode.SAME_STEP


def _made(spec: EnvSpec, count: int, options: dict[str, Any]) -> VectorEnv:
    return gymnasium.make_vec(spec, count, vectorization_mode="vector_entry_point", **options)


def _mode(creator: Callable[..., Any]) -> Any:
    return (getattr(creator, "metadata", None) or {}).get("autoreset_mode")


def _is_atari(creator: Callable[..., Any]) -> bool:
    """Whether an entry point makes the Arcade Learning Environment's vector environment, which cannot draw."""
    return getattr(creator, "__module__", "") == "ale_py.vector_env"


class WithScreens(VectorWrapper):
    """Atari games with pictures, from a second vector environment with the same seeds and whole screens."""

    def __init__(self, envs: VectorEnv, screens: VectorEnv) -> None:
        """`screens`: the same games with `WHOLE_SCREEN`."""
        super().__init__(envs)
        self._screens = screens
        self._newest: np.ndarray | None = None

    @property
    def render_mode(self) -> str:
        """The only render mode of these games, as Gymnasium names it."""
        return "rgb_array"

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begins a new episode in every game, and the same in the vector environment that draws the screens."""
        self._newest, _ = self._screens.reset(**options)
        return self.env.reset(**options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Applies the actions in every game, and in the vector environment that draws the screens."""
        self._newest = self._screens.step(actions)[0]
        return self.env.step(actions)

    def render(self) -> tuple[np.ndarray, ...]:
        """Returns the screen of each game. Raises EnvError before the first reset."""
        if self._newest is None:
            raise EnvError("a game has no screen before its first reset")
        return tuple(self._newest[:, 0])

    def close(self, **options: Any) -> None:
        """Closes both vector environments."""
        self._screens.close(**options)
        self.env.close(**options)
