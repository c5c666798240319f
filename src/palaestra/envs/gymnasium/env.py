"""Wraps any Gymnasium environment, by id or as an object, with one agent in each area.

`single_envs` adapts single environments, `vector_envs` adapts vector environments.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv, VectorEnv
from torch import Tensor

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.given_actions import lacking, unknown
from palaestra.envs.gymnasium.declared import inner_of, registered_of
from palaestra.envs.gymnasium.ids import build, spec_of
from palaestra.envs.gymnasium.self_resets import SelfResetDetector
from palaestra.envs.gymnasium.single_envs import BatchedObs, SingleEnvs, Tick
from palaestra.envs.gymnasium.vector_envs import VectorEnvs, adapted
from palaestra.envs.spaces.conventions import UNSAID, Conventions, tick_seconds
from palaestra.envs.spaces.observation_bounds import BoundsWatch
from palaestra.envs.spaces.observation_leaves import NUMBERS, WrongObservation, as_float32, check_form, given_shape
from palaestra.envs.traits import EnvTraits

DEFAULT_AREAS = 16


class GymnasiumEnv:
    """A Gymnasium environment as an `Env`, with one behavior named after the id; it cannot be saved."""

    def __init__(self, id: str, areas: int | None = None, /, **options: Any) -> None:
        """`options` go to the environment's constructor; `render=True` enables `render`, `max_elements` is the room for
        a Sequence.

        Raises EnvError for an unknown id, an environment that cannot be built, or unsupported spaces.
        """
        count = DEFAULT_AREAS if areas is None else areas
        if count < 1:
            raise EnvError(f"gymnasium:{id} cannot have {areas} areas; expected at least 1")
        registered = spec_of(id)
        self._adapt(build(registered, count, options), f"gymnasium:{id}", id, registered)

    @classmethod
    def wrap(
        cls,
        made: gymnasium.Env | VectorEnv | Sequence[gymnasium.Env],
        title: str | None = None,
        conventions: Conventions = UNSAID,
    ) -> GymnasiumEnv:
        """Wraps existing environments: a single one becomes one area, a vector environment or a sequence one area for
        each environment.

        The behavior is named after the registered id, or else the class; `title` names the environment in messages;
        `conventions` take precedence over the environment's metadata. Raises EnvError for unsupported spaces.
        """
        one = made if isinstance(made, gymnasium.Env | VectorEnv) else made[0]
        kind = "vector environment" if isinstance(one, VectorEnv) else "environment"
        name = f"{kind} {type(one).__name__}"
        registered = registered_of(one, name)
        name = type(inner_of(one, name)).__name__ if registered is None else registered.id
        title = title or f"{kind} {name}"
        env = cls.__new__(cls)
        if isinstance(made, VectorEnv):
            copies = made.envs if type(made) is SyncVectorEnv else []
            if registered is None and copies:
                registered = copies[0].spec
                name = type(copies[0].unwrapped).__name__ if registered is None else registered.id
            env._adapt(adapted(made, title, conventions), title, name, registered)
        else:
            singles = [made] if isinstance(made, gymnasium.Env) else made
            env._adapt(SingleEnvs(singles, title, conventions), title, name, registered)
        return env

    def _adapt(self, envs: SingleEnvs | VectorEnvs, name: str, id: str, registered: EnvSpec | None) -> None:
        self._envs = envs
        self.name = name
        self.device = torch.device("cpu")
        self.num_areas = envs.count
        self.parameters: Mapping[str, float] = envs.parameters.targets.defaults
        library = "EnvPool" if name.startswith("envpool:") else "Gymnasium"
        self.traits = EnvTraits(
            name=name,
            summary=f"{library}'s {id if registered is None else registered.id}, one agent an area.",
            benchmark=None if registered is None else registered.reward_threshold,
            notes=(*envs.masks.notes, *envs.parameters.targets.notes),
            refused_parameters=envs.parameters.targets.refused,
            timed=True,
            steps_arrays=True,
        )
        self.tick_seconds = tick_seconds(envs.metadata)
        self._leaves = envs.leaves
        self._bounds = BoundsWatch(envs.leaves, name)
        self._actions = envs.actions
        self.behavior = id.rpartition(":")[2].replace("/", "-")  # names a folder
        spec = BehaviorSpec(tuple(leaf.spec for leaf in self._leaves), self._actions.spec, steady=envs.steady)
        self.behaviors: Mapping[str, BehaviorSpec] = {self.behavior: spec}
        n = self.num_areas
        self._all_true = torch.ones(n, dtype=torch.bool)
        self._areas = torch.arange(n)
        self._shapes = [(n, *given_shape(leaf)) for leaf in self._leaves]
        self._blank = TimeStep(
            obs=(),
            acting=self._all_true,
            reward=torch.zeros(n),
            group_reward=torch.zeros(n),
            terminated=torch.zeros(n, dtype=torch.bool),
            truncated=torch.zeros(n, dtype=torch.bool),
            final_obs=FinalObs(
                torch.zeros(0, dtype=torch.int64), tuple(torch.zeros(0, *leaf.spec.shape) for leaf in self._leaves)
            ),
            action_mask=None,
            area=self._areas,
            team=torch.zeros(n, dtype=torch.int64),
            group=torch.full((n,), -1),
        )
        action = spec.action
        self._no_action = Action(
            torch.zeros(n, action.continuous), torch.zeros(n, len(action.branches), dtype=torch.int64)
        )
        self._last_obs = deque[tuple[Tensor | np.ndarray, ...]](maxlen=2)
        self._acting = self._all_true
        self._self_resets = SelfResetDetector()

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets every environment."""
        start = self._envs.reset(seed)
        obs = self._columns(start.obs, self._areas)
        self._self_resets.add_first(obs)
        self._last_obs.append(obs)
        self._acting = self._all_true
        mask = None if start.mask is None else torch.from_numpy(start.mask)
        return {self.behavior: replace(self._blank, obs=obs, action_mask=mask)}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Simulates one tick.

        Raises NotFinite for a number that is NaN or infinite, EnvError if actions are missing or final observations are
        lost.
        """
        if not actions.keys() <= self.behaviors.keys():
            raise unknown(actions, self.behaviors)
        if self.behavior not in actions and self._acting.any():
            raise lacking(self.behavior, actions)
        return self._tables(self._envs.step(self._actions.batch(actions.get(self.behavior, self._no_action))))

    def step_arrays(self, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, TimeStep] | None:
        """Simulates a tick. If no episode ends, fills `arrays` and returns None, else returns tables as `step` does."""
        own = arrays[self.behavior]
        tick = self._envs.step(self._actions.batch_arrays(own["continuous"], own["discrete"]))
        all_act = tick.acting is None and self._acting is self._all_true
        if len(tick.ended) or not all_act or tick.mask is not None or self._bounds.active:
            return self._tables(tick)
        with np.errstate(over="ignore"):
            own["reward"][...] = tick.reward
        sums = [own["reward"].sum()]
        try:
            for i, (leaf, observation) in enumerate(zip(self._leaves, tick.obs, strict=True)):
                if observation.shape != self._shapes[i] or observation.dtype.kind not in NUMBERS:
                    check_form(leaf, observation, self.num_areas)
                leaf.write(observation, own[f"obs{i}"])
                sums.append(own[f"obs{i}"].sum())
        except WrongObservation as error:
            raise error.of(self.name) from None
        if not all(map(math.isfinite, sums)):
            return self._tables(tick)
        if self._self_resets.undecided:
            self._last_obs.append(tuple([own[f"obs{i}"].copy() for i in range(len(tick.obs))]))
        return None

    def _tables(self, tick: Tick) -> dict[str, TimeStep]:
        """Returns the table after a tick."""
        obs = self._columns(tick.obs, self._areas)
        reward = torch.from_numpy(tick.reward).to(torch.float32)
        if not math.isfinite(reward.sum()):
            self._refuse("reward", tick.reward, self._areas)
        acting = self._all_true if tick.acting is None else torch.from_numpy(tick.acting)
        mask = None if tick.mask is None else torch.from_numpy(tick.mask)
        step = replace(self._blank, obs=obs, reward=reward, acting=acting, action_mask=mask)
        if len(tick.ended):
            slots = torch.from_numpy(tick.ended)
            step = replace(
                step,
                terminated=torch.from_numpy(tick.terminated),
                truncated=torch.from_numpy(tick.truncated & ~tick.terminated),
                final_obs=FinalObs(slots, self._columns(tick.last, slots)),
                success=None if tick.success is None else torch.from_numpy(tick.success),
            )
        if self._self_resets.undecided and (len(tick.ended) or acting is not self._acting):
            self._warn_of_self_resets(obs, acting, step)
        self._last_obs.append(obs)
        self._acting = acting
        return {self.behavior: step}

    def _warn_of_self_resets(self, obs: tuple[Tensor, ...], acting: Tensor, step: TimeStep) -> None:
        """Warns once if final observations look as if the environment resets itself within `step`."""
        has_begun = ~self._acting & acting
        slots = step.final_obs.slots
        if len(slots):
            before = [tuple(torch.as_tensor(column)[slots] for column in earlier) for earlier in self._last_obs]
            if self._self_resets.add_ended(step.final_obs.obs, before, step.terminated[slots]):
                warnings.warn(
                    f"{self.name} seems to reset itself inside `step`: every final observation so far looks like a "
                    "first one, unlike the observations before it. If so, the final observation, which learning needs, "
                    "is lost: return it, and leave the reset to the caller",
                    stacklevel=3,
                )
            has_begun[slots] = acting[slots]
        if has_begun.any():
            self._self_resets.add_first(tuple(column[has_begun] for column in obs))

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets a value for each area, from its next episode on. Raises EnvError for an unknown parameter."""
        self._envs.parameters.set(values)

    def render(self, area: int) -> np.ndarray:
        """Returns an image of an area. Raises EnvError if the environment was made without `render=True`, or if a
        package is missing."""
        return self._envs.render(area)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns an empty state: a Gymnasium environment cannot be saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises EnvError for any state but the empty one."""
        if state:
            raise EnvError(
                f"{self.name} cannot be restored from a saved state (it has none; this one has {', '.join(state)})"
            )

    def close(self) -> None:
        """Closes every environment."""
        self._envs.close()

    def _columns(self, observations: BatchedObs, agents: Tensor) -> tuple[Tensor, ...]:
        columns = []
        for leaf, observation, shape in zip(self._leaves, observations, self._shapes, strict=True):
            kind = observation.dtype.kind
            try:
                if observation.shape != shape or kind not in NUMBERS:
                    check_form(leaf, observation, len(agents))
                column = leaf.column(observation)
            except WrongObservation as error:
                raise error.of(self.name, agents) from None
            # A sum is cheap and detects every NaN and infinity; very large finite numbers may overflow it too.
            if kind == "f" and not math.isfinite(column.sum()):
                self._refuse(f"observation '{leaf.spec.name}'", observation, agents)
            self._bounds.add(leaf, observation)
            columns.append(column)
        return tuple(columns)

    def _refuse(self, what: str, given: np.ndarray, agents: Tensor) -> None:
        """Raises for the first number that is no finite float32; does nothing if only the sum overflowed."""
        bad = np.argwhere(~np.isfinite(as_float32(given)))
        if not len(bad):
            return
        agent, *index = bad[0].tolist()
        place = f"[{', '.join(map(str, index))}]" if index else ""
        value = float(given[tuple(bad[0])])
        if math.isfinite(value):
            raise EnvError(
                f"behavior '{self.behavior}', agent {int(agents[agent])}: {what}{place} is {value:g}, too large for "
                f"float32 (at most {np.finfo(np.float32).max:.2g}), in which networks compute: scale or clip it in "
                "the environment"
            )
        raise NotFinite(self.behavior, int(agents[agent]), what + place, value)
