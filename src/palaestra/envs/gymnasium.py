"""Any Gymnasium environment, one agent an area.

Gymnasium's vector environments restart an episode in one of several ways, ours always on the
tick it ends. Two adapters hide that: `_Copies` steps single environments one after the other,
`_Native` an environment that Gymnasium steps as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.registry import nearest
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, Ends, TimeStep
from palaestra.envs.spaces import actions_of, observation_leaves, pick

DEFAULT_AREAS = 16

Views = tuple[np.ndarray, ...]  # one array a leaf, (N, ...), as the environment gives them


@dataclass(frozen=True, slots=True)
class _Tick:
    """What happened to all copies; N of them, E ended."""

    obs: Views
    reward: np.ndarray  # (N,)
    terminated: np.ndarray  # (N,) bool
    truncated: np.ndarray  # (N,) bool
    ended: np.ndarray  # (E,) int64, rising
    last: Views  # (E, ...) where the ended episodes were left; () where none ended


class GymnasiumEnv:
    """A Gymnasium id as an `Env`. Its only behavior carries the id's name; it has no parameters and cannot be saved."""

    def __init__(self, id: str, areas: int | None = None, **options: Any) -> None:
        """`options` go to the environment's constructor; with `render=True` its areas can be drawn.

        Raises EnvError for an unknown id, one that cannot be built, or spaces that have no columns.
        """
        self.id, self.device, self.num_areas = id, torch.device("cpu"), DEFAULT_AREAS if areas is None else areas
        self.parameters: Mapping[str, float] = {}
        if self.num_areas < 1:
            raise EnvError(f"gymnasium:{id} was asked for {areas} areas; expected at least 1")
        registered = _spec(id)
        self.summary, self.benchmark = f"Gymnasium's {registered.id}, one agent an area.", registered.reward_threshold
        self._envs = _build(registered, self.num_areas, options)
        fps = self._envs.metadata.get("render_fps")
        self.tick_seconds = 1 / fps if fps else None
        self._leaves, self._actions = self._envs.leaves, actions_of(self._envs.action_space)
        self.behavior = id.rpartition(":")[2].replace("/", "-")  # names a folder
        spec = BehaviorSpec(tuple(leaf.spec for leaf in self._leaves), self._actions.spec, steady=True)
        self.behaviors: Mapping[str, BehaviorSpec] = {self.behavior: spec}
        n = self.num_areas
        self._never, self._always = torch.zeros(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool)
        self._nothing, self._zeros = torch.zeros(n), torch.zeros(n, dtype=torch.int64)
        self._area, self._alone = torch.arange(n), torch.full((n,), -1)
        self._no_ends = Ends(torch.zeros(0, dtype=torch.int64), tuple(torch.zeros(0, *leaf.spec.shape) for leaf in self._leaves))

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts every copy anew."""
        obs = self._columns(self._envs.reset(seed), self._area)
        return self._step(obs, self._nothing, self._never, self._never, self._no_ends)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """One tick. Raises NotFinite for an observation or a reward that is no number."""
        tick = self._envs.step(self._actions.batch(actions[self.behavior]))
        obs, reward = self._columns(tick.obs, self._area), torch.from_numpy(tick.reward.astype(np.float32))
        if not math.isfinite(reward.sum()):
            self._refuse("reward", reward, self._area)
        if not len(tick.ended):
            return self._step(obs, reward, self._never, self._never, self._no_ends)
        slots = torch.from_numpy(tick.ended)
        terminated, truncated = torch.from_numpy(tick.terminated), torch.from_numpy(tick.truncated & ~tick.terminated)
        return self._step(obs, reward, terminated, truncated, Ends(slots, self._columns(tick.last, slots)))

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Takes none."""
        if values:
            raise EnvError(f"gymnasium:{self.id} has no parameters; '{next(iter(values))}' cannot be set")

    def render(self, area: int) -> np.ndarray:
        """Raises EnvError unless made with `render=True`, or where a package that draws is missing."""
        return self._envs.render(area)

    def state_dict(self) -> dict[str, Tensor]:
        """Empty: a Gymnasium environment cannot be saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes the empty state only."""
        if state:
            raise EnvError(f"gymnasium:{self.id} cannot go back to a saved state (it has none; this one holds {', '.join(state)})")

    def close(self) -> None:
        """Closes every copy."""
        self._envs.close()

    def _step(self, obs: tuple[Tensor, ...], reward: Tensor, terminated: Tensor, truncated: Tensor, ends: Ends) -> dict[str, TimeStep]:
        step = TimeStep(
            obs=obs,
            acting=self._always,
            reward=reward,
            group_reward=self._nothing,
            terminated=terminated,
            truncated=truncated,
            ends=ends,
            action_mask=None,
            area=self._area,
            team=self._zeros,
            group=self._alone,
        )
        return {self.behavior: step}

    def _columns(self, views: Views, agents: Tensor) -> tuple[Tensor, ...]:
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


class _Copies:
    """Single environments, one after the other. Gymnasium's own SyncVectorEnv also gathers every info, which nobody reads here."""

    def __init__(self, make: Callable[[], gymnasium.Env], count: int) -> None:
        self._envs = [make() for _ in range(count)]
        self.action_space = self._envs[0].action_space
        self.leaves, self.metadata = observation_leaves(self._envs[0].observation_space), self._envs[0].metadata

    def reset(self, seed: int) -> Views:
        seeds = np.random.SeedSequence(seed).generate_state(len(self._envs)).tolist()
        return self._gather([env.reset(seed=seed)[0] for env, seed in zip(self._envs, seeds, strict=True)])

    def step(self, actions: np.ndarray) -> _Tick:
        steps = [env.step(action) for env, action in zip(self._envs, actions, strict=True)]
        obs, reward, terminated, truncated, _ = (list(column) for column in zip(*steps, strict=True))
        terminated, truncated = np.array(terminated, np.bool_), np.array(truncated, np.bool_)
        ended = np.flatnonzero(terminated | truncated)
        last: Views = ()
        if len(ended):
            last = self._gather([obs[i] for i in ended])
            for i in ended:
                obs[i] = self._envs[i].reset()[0]
        return _Tick(self._gather(obs), np.array(reward, np.float32), terminated, truncated, ended, last)

    def render(self, area: int) -> np.ndarray:
        env = self._envs[area]
        if env.render_mode is None:
            raise EnvError("this environment draws nothing unless it is made with the option render=True")
        try:
            return np.array(env.render(), np.uint8)
        except gymnasium.error.DependencyNotInstalled as error:
            raise EnvError(f"area {area} cannot be drawn: {error}") from error

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _gather(self, observations: list[Any]) -> Views:
        return tuple([np.array([pick(leaf, observation) for observation in observations]) for leaf in self.leaves])


class _Native:
    """A vector environment of its own that restarts an episode on the tick it ends."""

    def __init__(self, envs: VectorEnv) -> None:
        self._envs = envs
        self.action_space, self.metadata = envs.single_action_space, envs.metadata
        self.leaves = observation_leaves(envs.single_observation_space)

    def reset(self, seed: int) -> Views:
        return self._split(self._envs.reset(seed=seed)[0])

    def step(self, actions: np.ndarray) -> _Tick:
        obs, reward, terminated, truncated, infos = self._envs.step(actions)
        ended = np.flatnonzero(terminated | truncated)
        last = self._last(infos["final_obs"], ended) if len(ended) else ()
        return _Tick(self._split(obs), reward, terminated, truncated, ended, last)

    def render(self, area: int) -> np.ndarray:
        raise EnvError("this environment draws nothing unless it is made with the option render=True")

    def close(self) -> None:
        self._envs.close()

    def _split(self, observation: Any) -> Views:
        return tuple([pick(leaf, observation) for leaf in self.leaves])

    def _last(self, final: Any, ended: np.ndarray) -> Views:
        """`final` has an object a copy, or is batched as observations are."""
        if isinstance(final, np.ndarray) and final.dtype == object:
            return tuple(np.array([pick(leaf, final[i]) for i in ended]) for leaf in self.leaves)
        return tuple(np.asarray(pick(leaf, final))[ended] for leaf in self.leaves)


class _CartPole(_Native):
    """Gymnasium's own restarts on the tick after the end, swallowing an action; here it is told that nothing ended."""

    _envs: CartPoleVectorEnv

    def step(self, actions: np.ndarray) -> _Tick:
        envs = self._envs
        obs, reward, terminated, truncated, _ = envs.step(actions)
        ended = np.flatnonzero(envs.prev_done)
        if not len(ended):
            return _Tick((obs,), reward, terminated, truncated, ended, ())
        first = envs.np_random.uniform(envs.low, envs.high, (4, len(ended)))
        envs.state[:, ended] = first  # pyright: ignore[reportOptionalSubscript] (an array since reset)
        envs.steps[ended] = 0
        envs.prev_done = np.zeros_like(envs.prev_done)
        last = obs[ended]
        obs[ended] = first.T
        return _Tick((obs,), reward, terminated, truncated, ended, (last,))


def _build(spec: EnvSpec, count: int, options: dict[str, Any]) -> _Copies | _Native:
    options = dict(options)
    drawn = options.pop("render", False)
    try:
        if not drawn and (native := _native(spec, count, options)):
            return native
        if drawn:
            options["render_mode"] = "rgb_array"
        return _Copies(lambda: gymnasium.make(spec, disable_env_checker=True, **options), count)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise EnvError(f"gymnasium:{spec.id} cannot be made: {error}") from error


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


def _native(spec: EnvSpec, count: int, options: dict[str, Any]) -> _Native | None:
    """The environment's own vector version, where it can restart an episode on the tick it ends."""
    if spec.vector_entry_point is None or spec.additional_wrappers:
        return None
    creator = spec.vector_entry_point
    creator = creator if callable(creator) else load_env_creator(creator)
    adapter: type[_Native] = _CartPole if creator is CartPoleVectorEnv else _Native
    if "autoreset_mode" in signature(creator).parameters:
        options = {"autoreset_mode": AutoresetMode.SAME_STEP, **options}
    elif adapter is _Native and getattr(creator, "metadata", {}).get("autoreset_mode") is not AutoresetMode.SAME_STEP:
        return None
    return adapter(gymnasium.make_vec(spec, count, vectorization_mode="vector_entry_point", **options))
