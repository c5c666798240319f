"""Steps single Gymnasium environments one after the other, one for each area."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from palaestra.core.errors import EnvError
from palaestra.envs.gymnasium.self_resets import ResetWatch, final_observation
from palaestra.envs.spaces.observation_spaces import observation_leaves, pick

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
    success: np.ndarray | None = None  # (N,) float32: 1 or 0 where an ended episode reports it, else NaN; None: nothing reported


class SingleEnvs:
    """Steps a list of single environments. Faster than Gymnasium's SyncVectorEnv, because infos are read only at episode ends."""

    steady = True

    def __init__(self, envs: Sequence[gymnasium.Env], name: str) -> None:
        """`name` is for error messages."""
        self._envs, self._name = list(envs), name
        self.action_space, self.metadata = envs[0].action_space, envs[0].metadata
        self.leaves = observation_leaves(envs[0].observation_space)
        self._watches = [ResetWatch(env) for env in envs]
        self._none, self._nobody = np.zeros(len(envs), np.bool_), np.zeros(0, np.int64)

    @property
    def count(self) -> int:
        """Number of environments."""
        return len(self._envs)

    def reset(self, seed: int) -> BatchedObs:
        """Resets every environment, each with its own seed."""
        seeds = np.random.SeedSequence(seed).generate_state(len(self._envs)).tolist()
        return self._gather([env.reset(seed=seed)[0] for env, seed in zip(self._envs, seeds, strict=True)])

    def step(self, actions: np.ndarray) -> Tick:
        """Steps every environment and resets those whose episode ended.

        Raises EnvError for one that resets itself and hides its final observation.
        """
        for watch in self._watches:
            watch.clear()
        steps = [env.step(action) for env, action in zip(self._envs, actions, strict=True)]
        obs, reward, terminated, truncated, infos = (list(column) for column in zip(*steps, strict=True))
        if not any(terminated) and not any(truncated):
            return Tick(self._gather(obs), rewards(reward, len(self._envs)), self._none, self._none, self._nobody, ())
        terminated, truncated = np.array(terminated, np.bool_).reshape(-1), np.array(truncated, np.bool_).reshape(-1)
        ended = np.flatnonzero(terminated | truncated)
        last, success = (), None
        if len(ended):
            last = self._gather([self._last(i, obs[i], infos[i]) for i in ended.tolist()])
            success = successes(ended, [infos[i] for i in ended], len(self._envs))
            for i in ended:
                obs[i] = self._envs[i].reset()[0]
        return Tick(self._gather(obs), rewards(reward, len(self._envs)), terminated, truncated, ended, last, success=success)

    def render(self, area: int) -> np.ndarray:
        """Returns an image of one environment. Raises EnvError if it cannot draw."""
        env = self._envs[area]
        if env.render_mode is None:
            raise EnvError("this environment can only be drawn if it is made with the option render=True")
        try:
            return np.array(env.render(), np.uint8)
        except gymnasium.error.DependencyNotInstalled as error:
            raise EnvError(f"area {area} cannot be drawn: {error}") from error

    def close(self) -> None:
        """Closes every environment."""
        for env in self._envs:
            env.close()

    def _last(self, i: int, obs: Any, info: Any) -> Any:
        """Returns the final observation of environment `i`, whose `step` returned `obs` at the end of an episode.

        If the info has a final observation, `obs` may be the next episode's first. The caller resets the environment in any case, which
        also resets the clocks of its wrappers.
        """
        given = final_observation(info)
        if given is not None:
            return given
        watch = self._watches[i]
        if watch.seen is not None and (watch.transforms or self._same(obs, watch.seen[0])):
            raise EnvError(
                f"{self._name} resets itself inside `step`: what it returns at an episode's end is the next episode's first observation, "
                f"and the last one, which learning needs, is lost. Leave out the call of `reset` in `step` (or the wrapper that makes it) "
                f"and return the last observation; or keep it and give the last observation as info['final_obs']"
            )
        return obs

    def _same(self, one: Any, other: Any) -> bool:
        return all(np.array_equal(pick(leaf, one), pick(leaf, other)) for leaf in self.leaves)

    def _gather(self, observations: list[Any]) -> BatchedObs:
        return tuple([np.array([pick(leaf, observation) for observation in observations]) for leaf in self.leaves])


def rewards(given: Any, count: int) -> np.ndarray:
    """Converts rewards to (N,) float32, also from arrays of one number each. Raises EnvError for other shapes."""
    array = np.array(given, np.float32)
    if array.size != count:
        raise EnvError(f"the environment gave rewards of shape {array.shape}; expected one number for each of {count} areas")
    return array.reshape(count)


def successes(ended: np.ndarray, infos: Sequence[Any], count: int) -> np.ndarray | None:
    """Returns `Tick.success` from the info of each ended episode."""
    reported = {i: info[SUCCESS] for i, info in zip(ended, infos, strict=True) if isinstance(info, dict) and info.get(SUCCESS) is not None}
    if not reported:
        return None
    success = np.full(count, np.nan, np.float32)
    for i, value in reported.items():
        success[i] = bool(np.all(value))
    return success
