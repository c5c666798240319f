"""Any Gymnasium environment, one agent an area: by its id, or one that is made already.

What Gymnasium steps one by one is adapted by `gymnasium_copies`, its vector environments by `gymnasium_vectors`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from torch import Tensor

from palaestra.core.errors import EnvError, NotFinite, PalaestraError, exception_summary
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.gymnasium_copies import BatchedObs, SingleEnvs
from palaestra.envs.gymnasium_vectors import VectorEnvs, adapted
from palaestra.envs.self_resets import SelfResetDetector
from palaestra.envs.spaces import actions_of

DEFAULT_AREAS = 16


class GymnasiumEnv:
    """A Gymnasium environment as an `Env`. Its only behavior carries the id's name; it has no parameters and cannot be saved."""

    def __init__(self, id: str, areas: int | None = None, **options: Any) -> None:
        """`options` go to the environment's constructor; with `render=True` its areas can be drawn.

        Raises EnvError for an unknown id, one that cannot be built, or spaces that have no columns.
        """
        count = DEFAULT_AREAS if areas is None else areas
        if count < 1:
            raise EnvError(f"gymnasium:{id} was asked for {areas} areas; expected at least 1")
        registered = _spec(id)
        self._open(_build(registered, count, options), f"gymnasium:{id}", id, registered)

    @classmethod
    def around(cls, made: gymnasium.Env | VectorEnv | Sequence[gymnasium.Env]) -> GymnasiumEnv:
        """One that is made already: a single environment is one area, a vector environment or a sequence an area for each of theirs.

        The behavior carries the id that it was registered with, else its class's name. Raises EnvError for spaces without columns.
        """
        one = made if isinstance(made, gymnasium.Env | VectorEnv) else made[0]
        registered = one.spec
        name = type(one.unwrapped).__name__ if registered is None else registered.id
        title = f"{'vector environment' if isinstance(one, VectorEnv) else 'environment'} {name}"
        env = cls.__new__(cls)
        if isinstance(made, VectorEnv):
            copies = made.envs if type(made) is SyncVectorEnv else []
            if registered is None and copies:
                registered = copies[0].spec
                name = type(copies[0].unwrapped).__name__ if registered is None else registered.id
            env._open(adapted(made, title), title, name, registered)
        else:
            env._open(SingleEnvs([made] if isinstance(made, gymnasium.Env) else made, title), title, name, registered)
        return env

    def _open(self, envs: SingleEnvs | VectorEnvs, name: str, id: str, registered: EnvSpec | None) -> None:
        self._envs, self.name = envs, name
        self.device, self.num_areas = torch.device("cpu"), envs.count
        self.parameters: Mapping[str, float] = {}
        self.benchmark = None if registered is None else registered.reward_threshold
        self.summary = f"Gymnasium's {id if registered is None else registered.id}, one agent an area."
        fps = envs.metadata.get("render_fps")
        self.tick_seconds = 1 / fps if fps else None
        self._leaves, self._actions = envs.leaves, actions_of(envs.action_space)
        self.behavior = id.rpartition(":")[2].replace("/", "-")  # names a folder
        spec = BehaviorSpec(tuple(leaf.spec for leaf in self._leaves), self._actions.spec, steady=envs.steady)
        self.behaviors: Mapping[str, BehaviorSpec] = {self.behavior: spec}
        n = self.num_areas
        self._never, self._always = torch.zeros(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool)
        self._nothing, self._zeros = torch.zeros(n), torch.zeros(n, dtype=torch.int64)
        self._area, self._alone = torch.arange(n), torch.full((n,), -1)
        self._no_ends = FinalObs(torch.zeros(0, dtype=torch.int64), tuple(torch.zeros(0, *leaf.spec.shape) for leaf in self._leaves))
        action = spec.action
        self._no_action = Action(torch.zeros(n, action.continuous), torch.zeros(n, len(action.branches), dtype=torch.int64))
        self._shown: tuple[Tensor, ...] = ()
        self._acting = self._always
        self._suspicion = SelfResetDetector()

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts every copy anew."""
        obs = self._columns(self._envs.reset(seed), self._area)
        self._suspicion.first(obs)
        self._shown, self._acting = obs, self._always
        return self._step(obs, self._nothing, self._never, self._never, self._no_ends)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """One tick. Raises NotFinite for an observation or a reward that is no number, EnvError where last observations are lost."""
        tick = self._envs.step(self._actions.batch(actions.get(self.behavior, self._no_action)))
        obs, reward = self._columns(tick.obs, self._area), torch.from_numpy(tick.reward.astype(np.float32))
        if not math.isfinite(reward.sum()):
            self._refuse("reward", reward, self._area)
        ends, terminated, truncated, success = self._no_ends, self._never, self._never, None
        if len(tick.ended):
            slots = torch.from_numpy(tick.ended)
            terminated, truncated = torch.from_numpy(tick.terminated), torch.from_numpy(tick.truncated & ~tick.terminated)
            ends = FinalObs(slots, self._columns(tick.last, slots))
            success = None if tick.success is None else torch.from_numpy(tick.success)
        acting = self._always if tick.acting is None else torch.from_numpy(tick.acting)
        if self._suspicion.open:
            self._look_for_own_resets(obs, acting, ends)
        self._shown, self._acting = obs, acting
        return self._step(obs, reward, terminated, truncated, ends, success)

    def _look_for_own_resets(self, obs: tuple[Tensor, ...], acting: Tensor, ends: FinalObs) -> None:
        """Warns, once, where last observations look as if episodes had begun anew within `step`."""
        begun = ~self._acting & acting
        if len(ends.slots):
            if self._suspicion.ended(ends.obs, tuple(column[ends.slots] for column in self._shown)):
                warnings.warn(
                    f"{self.name} seems to reset itself inside `step`: at each end of an episode so far it showed what a first observation "
                    f"looks like, and not just before. If so, the last observation, which learning needs, is lost: return it, and leave "
                    f"the reset to the caller",
                    stacklevel=3,
                )
            begun[ends.slots] = acting[ends.slots]
        if begun.any():
            self._suspicion.first(tuple(column[begun] for column in obs))

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Takes none."""
        if values:
            raise EnvError(f"{self.name} has no parameters; '{next(iter(values))}' cannot be set")

    def render(self, area: int) -> np.ndarray:
        """Raises EnvError unless made with `render=True`, or where a package that draws is missing."""
        return self._envs.render(area)

    def state_dict(self) -> dict[str, Tensor]:
        """Empty: a Gymnasium environment cannot be saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes the empty state only."""
        if state:
            raise EnvError(f"{self.name} cannot go back to a saved state (it has none; this one holds {', '.join(state)})")

    def close(self) -> None:
        """Closes every copy."""
        self._envs.close()

    def _step(
        self,
        obs: tuple[Tensor, ...],
        reward: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        ends: FinalObs,
        success: Tensor | None = None,
    ) -> dict[str, TimeStep]:
        step = TimeStep(
            obs=obs,
            acting=self._acting,
            reward=reward,
            group_reward=self._nothing,
            terminated=terminated,
            truncated=truncated,
            ends=ends,
            action_mask=None,
            area=self._area,
            team=self._zeros,
            group=self._alone,
            success=success,
        )
        return {self.behavior: step}

    def _columns(self, views: BatchedObs, agents: Tensor) -> tuple[Tensor, ...]:
        columns = tuple([leaf.column(view) for leaf, view in zip(self._leaves, views, strict=True)])
        for leaf, view, column in zip(self._leaves, views, columns, strict=True):
            # A sum is cheap and misses no such number; finite ones that are very large may get here too.
            if view.dtype.kind == "f" and not math.isfinite(column.sum()):
                self._refuse(f"observation '{leaf.spec.name}'", column, agents)
        return columns

    def _refuse(self, what: str, column: Tensor, agents: Tensor) -> None:
        """Raises NotFinite for the first number that is not; does nothing where all are and only their sum was not."""
        bad = (~column.isfinite()).nonzero()
        if len(bad):
            agent, *index = bad[0].tolist()
            place = f"[{', '.join(map(str, index))}]" if index else ""
            raise NotFinite(self.behavior, int(agents[agent]), what + place, float(column[tuple(bad[0])]))


def _build(spec: EnvSpec, count: int, options: dict[str, Any]) -> SingleEnvs | VectorEnvs:
    options, name = dict(options), f"gymnasium:{spec.id}"
    drawn = options.pop("render", False)
    try:
        if (not drawn or spec.entry_point is None) and (native := _native(spec, count, options, drawn)):
            return native
        if drawn:
            modes = _render_modes(_creator(spec))
            if modes is not None and "rgb_array" not in modes:
                has = ", ".join(modes) or "none"
                raise EnvError(f"{name} draws no pictures: that takes the render mode rgb_array, and it has {has}")
            options["render_mode"] = "rgb_array"
        return SingleEnvs([gymnasium.make(spec, disable_env_checker=True, **options) for _ in range(count)], name)
    except PalaestraError:
        raise
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise EnvError(f"{name} cannot be made: {error}") from error
    except Exception as error:  # whatever a user's environment does
        raise EnvError(f"{name} cannot be made: {exception_summary(error)}") from error


def drawn_by(id: str) -> str | None:
    """The module of the environment's class where it declares that it draws pictures, else None. Makes no environment."""
    try:
        creator = _creator(_spec(id))
    except (EnvError, gymnasium.error.Error, ImportError, AttributeError):
        return None
    return getattr(creator, "__module__", "") if "rgb_array" in (_render_modes(creator) or ()) else None


def _render_modes(creator: Any) -> Sequence[str] | None:
    """Those that an environment's class declares; None where nothing is known, as of a function that makes one."""
    return getattr(creator, "metadata", {}).get("render_modes")


def _creator(spec: EnvSpec) -> Any:
    point = spec.entry_point or spec.vector_entry_point
    return load_env_creator(point) if isinstance(point, str) else point


def _spec(id: str) -> EnvSpec:
    module, _, name = id.rpartition(":")
    try:
        if module:
            import_module(module)
        return gymnasium.spec(name)
    except ImportError as error:
        raise EnvError(f"gymnasium:{id}: the module '{module}' that should register it cannot be imported: {error}") from error
    except gymnasium.error.Error as error:
        hint = nearest(name, gymnasium.registry)
        raise EnvError(f"Gymnasium knows no '{name}'{hint} (one of another package needs its module: gymnasium:module:Id-v0)") from error


def _native(spec: EnvSpec, count: int, options: dict[str, Any], drawn: bool) -> SingleEnvs | VectorEnvs | None:
    """The environment's own vector version where it is the only one, or acts in every area on every tick."""
    if spec.vector_entry_point is None or (spec.additional_wrappers and spec.entry_point is not None):
        return None
    creator = spec.vector_entry_point
    creator = creator if callable(creator) else load_env_creator(creator)
    if "autoreset_mode" in signature(creator).parameters:
        options = {"autoreset_mode": AutoresetMode.SAME_STEP, **options}
    elif spec.entry_point is not None and creator is not CartPoleVectorEnv and _mode(creator) is not AutoresetMode.SAME_STEP:
        return None
    if drawn:
        options = {**options, "render_mode": "rgb_array"}
    envs = gymnasium.make_vec(spec, count, vectorization_mode="vector_entry_point", **options)
    return adapted(envs, f"gymnasium:{spec.id}")


def _mode(creator: Callable[..., Any]) -> Any:
    return getattr(creator, "metadata", {}).get("autoreset_mode")
