"""An environment with one agent in Gymnasium's interface: `gymnasium.make("palaestra/3DBall-v0")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.interop.built_ins import built_in_names
from palaestra.interop.named_agents import Agents, NamedView
from palaestra.interop.opened_env import OpenedEnv, named_parameters, why_no_batch
from palaestra.interop.windows import Window, render_modes

RESET_OPTIONS = ("parameters",)


def make_single(
    env: str | None = None,
    *,
    render_mode: str | None = None,
    device: str = "cpu",
    seed: int | None = None,
    **options: Any,
) -> SingleEnv:
    """Opens a built-in environment, a Unity build, a game in Python or the Editor, by its name for `palaestra learn
    --env`.

    A game starts with `seed` (0 by default). In other environments `seed` is the seed of the first episode (by default
    drawn at random). `options` are the environment's options; `parameters` among them sets environment parameters by
    name. Raises EnvError, also for an environment with several agents.
    """
    if not env:
        raise EnvError(
            "no environment is given: name one with env=, such as gymnasium.make('palaestra/Game-v0', "
            "env='Game.x86_64')"
        )
    return SingleEnv(
        OpenedEnv(env, options, num_areas=1, device=device, seed=seed, drawn=render_mode is not None), render_mode
    )


class SingleEnv(gymnasium.Env[Any, Any]):
    """Gymnasium environment of the one agent of an environment.

    Rewards contain the rewards of the agent's group. Infos have `behavior`, `action_mask` (choices,) int8 if the
    environment masks actions, and `is_success` at the end if the environment reports it. Copies and pickles of a
    built-in environment continue exactly where the original was.
    """

    def __init__(self, env: OpenedEnv, render_mode: str | None = None) -> None:
        self._agents = Agents(env)
        try:
            self.metadata = {"render_modes": render_modes(env), "render_fps": fps(env)}
            self._window = Window.for_mode(render_mode, env)
            self.render_mode = render_mode
            self._check_agents()
        except BaseException:
            env.close()
            raise
        (self._agent,) = self._agents.places
        spaces = self._agents.spaces(self._agents.behavior(self._agent))
        self.observation_space = spaces.observation
        self.action_space = spaces.action
        self._view: NamedView | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins a new episode. `options={"parameters": {...}}` sets environment parameters from this episode on."""
        super().reset(seed=seed)
        values = reset_parameters(options)
        if values:
            self._agents.env.set_parameters(values)
        views = self._agents.reset(seed, anew=bool(values))  # an episode that has begun has the old parameters
        self._check_agents()
        ((self._agent, self._view),) = views.items()
        self._window.show(self.render_mode)
        return self._view.observation, _info(self._view)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Acts for one step. Continuous actions are clipped to -1..1.

        Raises gymnasium.error.InvalidAction for an action that does not fit, and ResetNeeded after the end of an
        episode.
        """
        if self._view is None and not self._agents.env.closed:
            raise ResetNeeded("no episode has begun; call reset() before step()")
        views = self._agents.step({self._agent: action} if self._agent in self._agents.places else {})
        if len(views) > 1:
            self._check_agents()
        view = self._view = views[self._agent]
        self._window.show(self.render_mode)
        return view.observation, view.reward, view.terminated, view.truncated, _info(view)

    def action_masks(self) -> np.ndarray:
        """Returns the allowed choices (choices,) bool, all branches one after another, for maskable trainers."""
        branches = self._agents.spaces(self._agents.behavior(self._agent)).spec.action.branches
        mask = None if self._view is None else self._view.mask
        return np.ones(sum(branches), np.bool_) if mask is None else mask.copy()

    def set_parameters(self, **values: float) -> None:
        """Sets parameters from the next episode on. Raises EnvError for unknown names and bad values."""
        self._agents.env.set_parameters(values)

    def render(self) -> Any:
        """Returns a picture (H, W, 3) uint8 in mode `rgb_array`; None in mode `human`, in which a window shows it."""
        return self._window.picture(self.render_mode)

    def close(self) -> None:
        """Closes the environment; may be called again."""
        self._agents.close()
        self._window.close()

    def _check_agents(self) -> None:
        agents = self._agents.places
        name = self._agents.env.name
        if len(agents) != 1:
            in_batches = (
                f", or gymnasium.make_vec('palaestra/{name}-v0', num_envs=...), where each of them is one of num_envs"
                if name in built_in_names() and why_no_batch(self._agents.env) is None
                else ""
            )
            raise EnvError(
                f"{name} has {len(agents)} agents ({', '.join(agents)}), and Gymnasium's interface knows one: use "
                f"palaestra.pettingzoo.parallel_env('{name}') for each agent by name{in_batches}"
            )


def reset_parameters(options: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the environment parameters in the options of `reset`. Raises EnvError for other options."""
    if options is not None and not isinstance(options, Mapping):
        raise EnvError(f"the options of reset are {options!r}; expected a dictionary with {' or '.join(RESET_OPTIONS)}")
    for key in options or {}:
        if key not in RESET_OPTIONS:
            raise EnvError(
                f"reset has no option '{key}'{nearest(str(key), RESET_OPTIONS)} (there are: {', '.join(RESET_OPTIONS)})"
            )
    return named_parameters((options or {}).get("parameters"))


def _info(view: NamedView) -> dict[str, Any]:
    info = {key: value for key, value in view.info.items() if key != "acting"}
    return info if view.mask is None else {**info, "action_mask": view.mask.astype(np.int8)}


def fps(env: OpenedEnv) -> int:
    """Returns pictures per second at the environment's own speed, 30 if the speed is unknown."""
    seconds = env.env.tick_seconds
    return max(1, round(1 / seconds)) if seconds else 30
