"""Gym's API (before 0.26) for environments of a single agent."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import error, spaces

from palaestra.unity.base_env import ActionTuple, BaseEnv, DecisionSteps, TerminalSteps
from palaestra.unity.exception import UnityException
from palaestra.unity.logging_util import get_logger

GymStepResult: TypeAlias = tuple[Any, float, bool, dict[str, Any]]


class UnityGymException(error.Error, UnityException):
    """The environment does not fit Gym's API (one agent, its kinds of actions), or is stepped after its end."""


class ActionFlattener:
    """Maps several discrete branches to one branch of all combinations, in which the last branch varies fastest."""

    def __init__(self, branched_action_space: Any) -> None:
        """Takes the number of choices of each branch."""
        choices = itertools.product(*(range(size) for size in branched_action_space))
        self.action_lookup = {i: list(each) for i, each in enumerate(choices)}
        self.action_space = spaces.Discrete(len(self.action_lookup))

    def lookup_action(self, action: int) -> list[int]:
        """Returns the choice of each branch."""
        return self.action_lookup[int(action)]


class UnityToGymWrapper(gymnasium.Env):
    """Gym environment of a BaseEnv with one behavior and at most one agent, with continuous or discrete actions, not
    both.

    The observation is the first image, or all vectors concatenated if there is none. With `allow_multiple_obs` it is a
    list of all images, then the concatenated vectors.
    """

    _takes_hybrid = False
    metadata: dict[str, Any] = {"render.modes": ["rgb_array"], "render_modes": ["rgb_array"]}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        unity_env: BaseEnv,
        uint8_visual: bool = False,
        flatten_branched: bool = False,
        allow_multiple_obs: bool = False,
        action_space_seed: int | None = None,
    ) -> None:
        """Wraps an environment. Raises UnityGymException if it has several behaviors or agents, or both kinds of
        actions.

        `uint8_visual`: images are 0..255 instead of 0..1; `flatten_branched`: several branches become one.
        """
        self._env = unity_env
        self._uint8 = uint8_visual
        self._multiple = allow_multiple_obs
        if not unity_env.behavior_specs:
            unity_env.step()
        self.game_over = False
        self.visual_obs: np.ndarray | None = None
        if len(unity_env.behavior_specs) != 1:
            raise UnityGymException(f"expected an environment of one behavior; it has {list(unity_env.behavior_specs)}")
        self.name = next(iter(unity_env.behavior_specs))
        self.group_spec = unity_env.behavior_specs[self.name]
        self._check_specs()
        unity_env.reset()
        self._check_agents(len(unity_env.get_steps(self.name)[0]))
        self._flattener: ActionFlattener | None = None
        self.action_space = self._make_action_space(flatten_branched)
        if action_space_seed is not None:
            self.action_space.seed(action_space_seed)
        self.observation_space = self._make_observation_space()

    @classmethod
    def with_hybrid_actions(cls, *args: Any) -> UnityToGymWrapper:
        """Wraps an environment whose actions may be of both kinds; its action space is then a Dict of `continuous` and
        `discrete`."""
        wrapper = cls.__new__(cls)
        wrapper._takes_hybrid = True
        wrapper.__init__(*args)
        return wrapper

    def reset(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - the original's manner
        """Begins a new episode and returns its first observation."""
        self._env.reset()
        decisions, _ = self._env.get_steps(self.name)
        self._check_agents(len(decisions))
        self.game_over = False
        return self._single_step(decisions)[0]

    def step(self, action: Any) -> GymStepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns observation, reward, done and info; info has the steps of the agent under 'step'. Raises
        UnityGymException."""
        if self.game_over:
            raise UnityGymException("the episode has ended; call reset() before the next step()")
        self._env.set_actions(self.name, self._row(action))
        self._env.step()
        decisions, terminals = self._env.get_steps(self.name)
        self._check_agents(max(len(decisions), len(terminals)))
        self.game_over = len(terminals) > 0
        return self._single_step(terminals if self.game_over else decisions)

    def render(self, mode: str = "rgb_array") -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns the last observed image; None if there is none."""
        return self.visual_obs

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()

    def seed(self, seed: Any = None) -> None:
        """Warns that the seed cannot be set: an environment takes its seed when it is made."""
        get_logger(__name__).warning(f"the seed {seed} is not used: give it to UnityEnvironment(seed=...)")

    @property
    def reward_range(self) -> tuple[float, float]:
        """Bounds of rewards: infinite, since none are known."""
        return -float("inf"), float("inf")

    def _row(self, action: Any) -> ActionTuple:
        if self._flattener is not None:
            action = self._flattener.lookup_action(action)
        if isinstance(self.action_space, spaces.Dict):
            return ActionTuple(*(np.asarray(action[part]).reshape(1, -1) for part in ("continuous", "discrete")))
        row = np.array(action).reshape(1, -1)
        return ActionTuple(continuous=row) if self.group_spec.action_spec.is_continuous() else ActionTuple(discrete=row)

    def _check_specs(self) -> None:
        shapes = [spec.shape for spec in self.group_spec.observation_specs]
        visuals = [shape for shape in shapes if len(shape) == 3]
        if not any(len(shape) in (1, 3) for shape in shapes):
            raise UnityGymException(
                f"expected an image or a vector among the observations; behavior '{self.name}' has shapes {shapes}"
            )
        if len(visuals) > 1 and not self._multiple:
            get_logger(__name__).warning(
                f"behavior '{self.name}' has {len(visuals)} images; only the first is used (allow_multiple_obs=True: "
                "all)"
            )
        if left_out := [spec.name for spec in self.group_spec.observation_specs if len(spec.shape) == 2]:
            get_logger(__name__).warning(
                f"behavior '{self.name}' has observations of variable length, which are left out: "
                f"{', '.join(left_out)} (the PettingZoo wrappers show them)"
            )
        if self._uint8 and not visuals:
            get_logger(__name__).warning(f"uint8_visual has no effect: behavior '{self.name}' has no images")

    def _make_action_space(self, flatten_branched: bool) -> Any:
        spec = self.group_spec.action_spec
        if spec.is_discrete():
            if spec.discrete_size == 1:
                return spaces.Discrete(spec.discrete_branches[0])
            if flatten_branched:
                self._flattener = ActionFlattener(spec.discrete_branches)
                return self._flattener.action_space
            return spaces.MultiDiscrete(list(spec.discrete_branches))
        if self._takes_hybrid and spec.continuous_size and spec.discrete_size:
            return self._hybrid_space(flatten_branched)
        if not spec.is_continuous():
            raise UnityGymException(
                f"expected actions that are continuous or discrete; behavior '{self.name}' has {spec}"
            )
        if flatten_branched:
            get_logger(__name__).warning(f"flatten_branched has no effect: behavior '{self.name}' has no branches")
        return spaces.Box(-1.0, 1.0, (spec.continuous_size,), np.float32)

    def _hybrid_space(self, flatten_branched: bool) -> Any:
        spec = self.group_spec.action_spec
        box = spaces.Box(-1.0, 1.0, (spec.continuous_size,), np.float32)
        branches = list(spec.discrete_branches)
        if flatten_branched and len(branches) > 1:
            raise UnityGymException(
                f"flatten_branched needs actions that are discrete only; behavior '{self.name}' has {spec}"
            )
        return spaces.Dict({"continuous": box, "discrete": spaces.MultiDiscrete(branches)})

    def _make_observation_space(self) -> Any:
        kind, most = (np.uint8, 255) if self._uint8 else (np.float32, 1)
        shapes = [spec.shape for spec in self.group_spec.observation_specs]
        images: list[Any] = [spaces.Box(0, most, shape, kind) for shape in shapes if len(shape) == 3]
        length = sum(shape[0] for shape in shapes if len(shape) == 1)
        vectors = [spaces.Box(-np.inf, np.inf, (length,), np.float32)] if length else []
        shown = [*images, *vectors]
        return spaces.Tuple(shown) if self._multiple else shown[0]

    def _single_step(self, steps: DecisionSteps | TerminalSteps) -> GymStepResult:
        images = [column[0] for column in steps.obs if column.ndim == 4]
        if self._uint8:
            images = [(255.0 * image).astype(np.uint8) for image in images]
        vectors = [column[0] for column in steps.obs if column.ndim == 2]
        shown = [*images, *([np.concatenate(vectors)] if vectors else [])]
        if images:
            self.visual_obs = images[0]
        return shown if self._multiple else shown[0], float(steps.reward[0]), self.game_over, {"step": steps}

    def _check_agents(self, agents: int) -> None:
        if agents > 1:
            raise UnityGymException(
                f"expected one agent; behavior '{self.name}' has {agents} (the PettingZoo wrappers take several)"
            )
