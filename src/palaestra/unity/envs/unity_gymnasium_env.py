"""Gymnasium's interface for environments of a single agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from palaestra.envs.spaces.behavior_spaces import CONTINUOUS, DISCRETE, BehaviorSpaces
from palaestra.unity.base_env import BaseEnv
from palaestra.unity.envs.env_helpers import spaces_of
from palaestra.unity.envs.unity_gym_env import UnityToGymWrapper


class UnityToGymnasiumWrapper(gymnasium.Env[Any, Any]):
    """Gymnasium environment of a BaseEnv with one behavior and at most one agent: `reset` returns two values, `step`
    five.

    The arguments and spaces are those of UnityToGymWrapper, except that hybrid actions are allowed, as a Dict of
    `continuous` and `discrete`. With discrete actions, infos have `action_mask` (choices,) int8, 1: allowed, with all
    branches one after another. With `flatten_branched`, a choice is a combination of one choice per branch, and is
    allowed if all of them are.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        unity_env: BaseEnv,
        uint8_visual: bool = False,
        flatten_branched: bool = False,
        allow_multiple_obs: bool = False,
        action_space_seed: int | None = None,
    ) -> None:
        # a game takes its seed when it starts, not when it is reset
        self.spec = EnvSpec("UnityEnvironment", nondeterministic=True)
        self._old = UnityToGymWrapper.with_hybrid_actions(
            unity_env, uint8_visual, flatten_branched, allow_multiple_obs, action_space_seed
        )
        self._unity_env = unity_env
        self._multiple = allow_multiple_obs
        self._closed = False
        self._spaces = spaces_of(self._old.group_spec)
        self._is_flat = flatten_branched and len(self._spaces.spec.action.branches) > 1
        if self._is_flat:
            choices = int(np.prod(self._spaces.spec.action.branches))
            action = replace(self._spaces.spec.action, branches=(choices,))
            self._spaces = BehaviorSpaces(replace(self._spaces.spec, action=action))
        self.observation_space = self._old.observation_space
        self.action_space = self._old.action_space
        has_images = any(len(spec.shape) == 3 for spec in self._old.group_spec.observation_specs)
        self.render_mode = "rgb_array" if has_images else None
        self._mask = np.ones(self._spaces.spec.action.choices, np.int8)
        self._info(unity_env.get_steps(self._old.name)[0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins a new episode. `seed` does not seed the game: UnityEnvironment(seed=...) does."""
        super().reset(seed=seed)
        obs = self._old.reset()
        steps, _ = self._unity_env.get_steps(self._old.name)
        return self._shown(obs), self._info(steps)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Acts for one step; info has the steps under 'step'. Raises UnityGymException and InvalidAction."""
        obs, reward, done, info = self._old.step(self._converted(action))
        truncated = done and bool(info["step"].interrupted[0])
        return self._shown(obs), reward, done and not truncated, truncated, self._info(info["step"])

    def action_masks(self) -> np.ndarray:
        """Returns the mask of choices that are allowed now, (choices,) bool, all branches one after another."""
        return self._mask.astype(np.bool_)

    def render(self) -> Any:
        """Returns the last observed image; None if there is none."""
        image = self._old.visual_obs
        if image is None:
            return None
        values = image if image.dtype == np.uint8 else (255.0 * image).astype(np.uint8)
        return (
            np.broadcast_to(values.transpose(1, 2, 0), (*values.shape[1:], 3))
            if len(values) == 1
            else values.transpose(1, 2, 0)
        )

    def close(self) -> None:
        """Closes the environment; may be called again."""
        if not self._closed:
            self._closed = True
            self._old.close()

    def _shown(self, obs: Any) -> Any:
        return tuple(obs) if self._multiple else obs

    def _converted(self, action: Any) -> Any:
        given = {key: _flat(part) for key, part in action.items()} if isinstance(action, Mapping) else _flat(action)
        numbers, choices = self._spaces.read_action(self._old.name, given)
        if self._is_flat:
            return int(choices[0])
        if numbers.size and choices.size:
            return {CONTINUOUS: numbers, DISCRETE: choices}
        return numbers if numbers.size else choices

    def _info(self, steps: Any) -> dict[str, Any]:
        branches = self._old.group_spec.action_spec.discrete_branches
        if not branches:
            return {"step": steps}
        forbidden = getattr(steps, "action_mask", None) if len(steps) else None
        rows = [np.ones(size, np.bool_) for size in branches] if forbidden is None else [~mask[0] for mask in forbidden]
        self._mask = (reduce(np.logical_and.outer, rows).ravel() if self._is_flat else np.concatenate(rows)).astype(
            np.int8
        )
        return {"step": steps, "action_mask": self._mask}


def _flat(values: Any) -> Any:
    return values.ravel() if isinstance(values, np.ndarray) else values
