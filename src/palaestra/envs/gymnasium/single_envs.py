"""Steps single Gymnasium environments one after the other, one for each area."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.envs.gymnasium.declared import check_methods, metadata_of, space_of
from palaestra.envs.gymnasium.returned_values import (
    FLAGS,
    OLD_RESET,
    OLD_STEP,
    check_reset,
    flags,
    is_old_step,
    rewards,
)
from palaestra.envs.gymnasium.self_resets import ResetWatch, final_observation
from palaestra.envs.spaces.action_spaces import SpaceActions
from palaestra.envs.spaces.conventions import UNSAID, Conventions
from palaestra.envs.spaces.drawn import picture, prepare_drawing
from palaestra.envs.spaces.episode_parameters import EpisodeParameters
from palaestra.envs.spaces.mask_source import MaskSource
from palaestra.envs.spaces.observation_leaves import gathered, pick
from palaestra.parallel.closing import close_all

SUCCESS = "is_success"
"""Info key for the success of an episode, as in robotics environments."""

BatchedObs = tuple[np.ndarray, ...]  # an array (N, ...) for each leaf, in the environment's own form


@dataclass(frozen=True, slots=True)
class Tick:
    """Results of one tick of N environments, of which E ended an episode."""

    obs: BatchedObs
    reward: np.ndarray  # (N,)
    terminated: np.ndarray  # (N,) bool
    truncated: np.ndarray  # (N,) bool
    ended: np.ndarray  # (E,) int64, rising
    last: BatchedObs  # (E, ...) final observations of the ended episodes; () if none ended
    acting: np.ndarray | None = None  # (N,) bool: awaits an action; None: all do
    success: np.ndarray | None = None  # (N,) float32: 1 or 0 where an ended episode reports it, else NaN
    mask: np.ndarray | None = None  # (N, choices) bool: True: allowed; None: the environment gives no masks


@dataclass(frozen=True, slots=True)
class Start:
    """First observations of N environments, and their masks in the form of `Tick`."""

    obs: BatchedObs
    mask: np.ndarray | None = None


class SingleEnvs:
    """Steps a list of single environments; reads infos only if needed, unlike Gymnasium's SyncVectorEnv."""

    steady = True

    def __init__(self, envs: Sequence[gymnasium.Env], name: str, conventions: Conventions = UNSAID) -> None:
        """`name` is for error messages."""
        self._envs = list(envs)
        self._name = name
        for env in envs[:1]:
            check_methods(env, name)
        self.metadata = metadata_of(envs[0], name)
        observation, action = (space_of(envs[0], each, name) for each in ("observation_space", "action_space"))
        self.actions = SpaceActions(action)
        self._conventions = conventions.completed(self.metadata)
        self.masks = MaskSource(name, observation, action, self.actions.spec, self._conventions)
        self.leaves = self._conventions.leaves(observation, self.masks.name)
        self._check_alike()
        self._mask_methods = [found for env in envs if (found := self.masks.method(env)) is not None]
        self.parameters = EpisodeParameters(self._envs, self._conventions.parameters, name)
        self._watches = [ResetWatch(env) for env in envs]
        self._none = np.zeros(len(envs), np.bool_)
        self._nobody = np.zeros(0, np.int64)

    @property
    def count(self) -> int:
        """Number of environments."""
        return len(self._envs)

    def reset(self, seed: int) -> Start:
        """Resets every environment, each with its own seed."""
        seeds = np.random.SeedSequence(seed).generate_state(len(self._envs)).tolist()
        results = [self._reset(i, seed=one) for i, one in enumerate(seeds)]
        obs = [obs for obs, _ in results]
        infos = [info for _, info in results]
        return Start(gathered(self.leaves, obs, self._name), self._mask(obs, infos, first=True))

    def step(self, actions: Any) -> Tick:
        """Steps every environment and resets those whose episode ended.

        Raises EnvError for an environment that resets itself and hides its final observation, and for an environment
        that fails.
        """
        for watch in self._watches:
            watch.clear()
        steps = []
        try:
            for env, action in zip(self._envs, self.actions.single(actions, len(self._envs)), strict=True):
                steps.append(env.step(action))
        except BaseException as error:  # whatever a user's environment does
            raise self._blame(error, "step", len(steps)) from error
        try:
            obs, reward, terminated, truncated, infos = (list(column) for column in zip(*steps, strict=True))
        except (TypeError, ValueError):
            if None in steps:
                raise EnvError(
                    f"{self._name}, area {steps.index(None)}: `step` returned None; expected obs, reward, terminated, "
                    "truncated, info: does it end without `return`?"
                ) from None
            raise EnvError(f"{self._name}: {OLD_STEP.format(_described(steps))}") from None
        if not FLAGS.issuperset(map(type, terminated)):
            terminated = flags(terminated, "terminated", self._name).tolist()
        if not FLAGS.issuperset(map(type, truncated)):
            truncated = flags(truncated, "truncated", self._name).tolist()
        earned = rewards(reward, len(self._envs), self._name)
        if not any(terminated) and not any(truncated):
            next_obs = gathered(self.leaves, obs, self._name)
            return Tick(next_obs, earned, self._none, self._none, self._nobody, (), mask=self._mask(obs, infos))
        terminated = np.array(terminated, np.bool_)
        truncated = np.array(truncated, np.bool_)
        ended = np.flatnonzero(terminated | truncated)
        over = ended.tolist()
        last = gathered(self.leaves, [self._last(i, obs[i], infos[i]) for i in over], self._name, over)
        success = successes(ended, [infos[i] for i in ended], len(self._envs))
        for i in over:
            obs[i], infos[i] = self._reset(i)
        next_obs = gathered(self.leaves, obs, self._name)
        mask = self._mask(obs, infos)
        return Tick(next_obs, earned, terminated, truncated, ended, last, success=success, mask=mask)

    def render(self, area: int) -> np.ndarray:
        """Returns an image of one environment. Raises EnvError if it cannot draw."""
        env = self._envs[area]
        prepare_drawing(env, (gymnasium.Env,), self._name)
        try:
            drawn = env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise EnvError(f"{self._name} cannot be rendered: {error}") from error
        except BaseException as error:  # whatever a user's environment does
            raise self._blame(error, "render", area) from error
        return picture(drawn, self._name)

    def close(self) -> None:
        """Closes every environment. Closes all environments, then raises the first error."""
        close_all([partial(self._close, i) for i in range(len(self._envs))])

    def _close(self, i: int) -> None:
        try:
            self._envs[i].close()
        except BaseException as error:  # whatever a user's environment does
            raise self._blame(error, "close", i) from error

    def _check_alike(self) -> None:
        first = self._envs[0]
        for i, env in enumerate(self._envs[1:], 1):
            for what in ("observation_space", "action_space"):
                own = getattr(first, what)
                other = space_of(env, what, f"{self._name}, area {i}")
                if own is not other and own != other and self._form(what, own) != self._form(what, other):
                    raise EnvError(
                        f"{self._name}: area {i} has the {what} {other}, but area 0 has {own}; all areas need the same"
                    )

    def _form(self, what: str, space: gymnasium.Space) -> Any:
        """Returns what must be the same in all areas."""
        if what == "action_space":
            return SpaceActions(space).spec
        return [leaf.spec for leaf in self._conventions.leaves(space, self.masks.name)]

    def _reset(self, i: int, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        keywords |= self.parameters.begin(i)
        try:
            result = self._envs[i].reset(**keywords)
        except BaseException as error:  # whatever a user's environment does
            raise self._blame(error, "reset", i) from error
        self.parameters.began(i)
        return check_reset(result, f"{self._name}, area {i}")

    def _blame(self, error: BaseException, method: str, area: int) -> BaseException:
        """Returns an environment's exception as an EnvError that says where; what stops a run stays as it is."""
        if isinstance(error, (PalaestraError, *STOPS)):
            return error
        if method == "step" and is_old_step(error):
            return EnvError(f"{self._name}: {OLD_STEP.format('other values than expected')}")
        if isinstance(error, TypeError) and "unexpected keyword argument 'seed'" in str(error):
            return EnvError(f"{self._name}: {OLD_RESET.format('takes no seed')}")
        return EnvError(
            f"{self._name} raised an error in {method}, area {area}: {exception_summary(error)}; --debug shows the "
            "whole traceback"
        )

    def _mask(self, obs: Sequence[Any], infos: Sequence[Any], *, first: bool = False) -> np.ndarray | None:
        """Returns the masks of the next actions; `first`: after `reset` of all."""
        if self.masks.path is not None:
            return self.masks.in_observations(obs, None, self._area)
        if not self._mask_methods:
            return self.masks.in_infos(
                infos, lambda key: [_entry(info, key) for info in infos], self._area, first=first
            )
        masks = []
        try:
            for _, method in self._mask_methods:
                masks.append(method())
        except BaseException as error:  # whatever a user's environment does
            raise self._blame(error, self._mask_methods[0][0], len(masks)) from error
        return self.masks.of_method(f"env.{self._mask_methods[0][0]}", masks, None, self._area)

    def _area(self, i: int) -> str:
        return f"{self._name}, area {i}"

    def _last(self, i: int, obs: Any, info: Any) -> Any:
        """Returns the final observation of environment `i`, whose `step` returned `obs` at the end of an episode.

        If the info has a final observation, `obs` may be the next episode's first. The caller resets the environment in
        any case, which also resets the clocks of its wrappers.
        """
        given = final_observation(info)
        if given is not None:
            return given
        watch = self._watches[i]
        if watch.seen is not None and (watch.transforms or self._same(obs, watch.seen[0])):
            raise EnvError(
                f"{self._name} resets itself inside `step`: what it returns at an episode's end is the next episode's "
                "first observation, and the last one, which learning needs, is lost. Leave out the call of `reset` in "
                "`step` (or the wrapper that makes it) and return the last observation; or keep it and give the last "
                "observation as info['final_obs']"
            )
        return obs

    def _same(self, one: Any, other: Any) -> bool:
        return all(np.array_equal(pick(leaf, one), pick(leaf, other)) for leaf in self.leaves)


def _entry(info: Any, key: str) -> Any:
    return info.get(key) if isinstance(info, dict) else None


def _described(steps: Sequence[Any]) -> str:
    counts = sorted(
        {f"{len(step)} values" if isinstance(step, tuple | list) else f"a {type(step).__name__}" for step in steps}
    )
    return " or ".join(counts)


def successes(ended: np.ndarray, infos: Sequence[Any], count: int) -> np.ndarray | None:
    """Returns the column `Tick.success` from the info of each ended episode."""
    reported = {
        i: info[SUCCESS]
        for i, info in zip(ended, infos, strict=True)
        if isinstance(info, dict) and info.get(SUCCESS) is not None
    }
    if not reported:
        return None
    success = np.full(count, np.nan, np.float32)
    for i, value in reported.items():
        success[i] = bool(np.all(value))
    return success
