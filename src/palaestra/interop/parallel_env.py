"""All agents of an environment by name, in PettingZoo's parallel interface. `palaestra.pettingzoo` opens it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from palaestra.core.errors import EnvError
from palaestra.interop.named_agents import Agents, NamedView
from palaestra.interop.opened_env import OpenedEnv, named_parameters
from palaestra.interop.single_env import fps
from palaestra.interop.windows import Window, render_modes

OBSERVATION, MASK = "observation", "action_mask"


class AgentsEnv(ParallelEnv[str, Any, Any]):
    """Parallel environment of all agents. `possible_agents` has the agents seen so far; a game may add agents later.

    Agents with masks observe a dictionary of `observation` and `action_mask`; with hybrid actions the mask is in their
    info instead. Rewards contain the rewards of the agent's group. Infos have `behavior`, `team`, `group` (-1: none),
    `group_reward`, `is_success` if the environment reports it, and `acting`: False if the agent requests no action on
    this step; its action is then ignored.
    """

    def __init__(self, env: OpenedEnv, render_mode: str | None = None) -> None:
        self._agents = Agents(env)
        self._seed: int | None = None
        try:
            modes = render_modes(env)
            self.metadata = {"name": env.name, "render_modes": modes, "render_fps": fps(env), "is_parallelizable": True}
            self._window = Window.for_mode(render_mode, env)
            self.render_mode = render_mode
        except BaseException:
            env.close()
            raise
        self.possible_agents = self._agents.possible
        self.agents = []
        self._observation_spaces: dict[str, spaces.Space[Any]] = {}
        self._action_spaces: dict[str, spaces.Space[Any]] = {}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's observation space, always the same object. Raises KeyError for an unknown agent."""
        if agent not in self._observation_spaces:
            of_agent = self._agents.spaces(behavior := self._agents.behavior(agent))
            shown = deepcopy(of_agent.observation)  # agents sample independently
            if self._shows_mask(behavior):
                shown = spaces.Dict({OBSERVATION: shown, MASK: of_agent.mask_space()})
            self._observation_spaces[agent] = shown
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's action space, always the same object. Raises KeyError for an unknown agent."""
        if agent not in self._action_spaces:
            self._action_spaces[agent] = deepcopy(self._agents.spaces(self._agents.behavior(agent)).action)
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begins new episodes. `options={"parameters": {...}}` sets environment parameters."""
        if options is not None and not isinstance(options, Mapping):
            raise EnvError(
                f"the options of reset are {options!r}; expected a dictionary, such as {{'parameters': {{...}}}}"
            )
        if values := named_parameters((options or {}).get("parameters")):
            self._agents.env.set_parameters(values)
        views = self._agents.reset(seed, anew=bool(values))
        self.agents = list(self._agents.places)
        self._window.show(self.render_mode)
        return {agent: self._observe(view) for agent, view in views.items()}, {
            agent: self._info(view) for agent, view in views.items()
        }

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Acts with the agents in `actions`; the others do nothing. Continuous actions are clipped to -1..1.

        Raises gymnasium.error.InvalidAction for an action that does not fit, and ResetNeeded if no agents are left.
        """
        views = self._agents.step(actions)
        self.agents = list(self._agents.places)
        self._window.show(self.render_mode)
        return (
            {agent: self._observe(view) for agent, view in views.items()},
            {agent: view.reward for agent, view in views.items()},
            {agent: view.terminated for agent, view in views.items()},
            {agent: view.truncated for agent, view in views.items()},
            {agent: self._info(view) for agent, view in views.items()},
        )

    def set_parameters(self, **values: float) -> None:
        """Sets parameters from the next episode on. Raises EnvError for unknown names and bad values."""
        self._agents.env.set_parameters(values)

    def render(self) -> np.ndarray | None:
        """Returns a picture (H, W, 3) uint8 in mode `rgb_array`; None in mode `human`, in which a window shows it."""
        return self._window.picture(self.render_mode)

    def close(self) -> None:
        """Closes the environment; may be called again."""
        self._agents.close()
        self._window.close()

    def _shows_mask(self, behavior: str) -> bool:
        has_masks = self._agents.env.tables[behavior].action_mask is not None
        return has_masks and not self._agents.spaces(behavior).spec.action.continuous

    def _observe(self, view: NamedView) -> Any:
        behavior = view.info["behavior"]
        if view.mask is None or not self._shows_mask(behavior):
            return view.observation
        return {OBSERVATION: view.observation, MASK: self._agents.spaces(behavior).mask(view.mask)}

    def _info(self, view: NamedView) -> dict[str, Any]:
        behavior = view.info["behavior"]
        if view.mask is None or self._shows_mask(behavior):
            return view.info
        return {**view.info, MASK: self._agents.spaces(behavior).hybrid_mask(view.mask)}
