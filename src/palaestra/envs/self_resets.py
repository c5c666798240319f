"""Environments of Gymnasium that reset themselves inside `step`, so that the last observation of an episode is lost.

`ResetWatch` sees an environment call its own `reset`; `SelfResetDetector` knows one that starts anew in another
way by what it shows at the ends of episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from types import MethodType
from typing import Any

import gymnasium
import torch
from torch import Tensor

FINAL_KEYS = ("final_obs", "final_observation", "terminal_observation")
"""Where infos hold the last observation: Gymnasium's key, that of its versions before 1.0, Stable-Baselines3's."""
SEEN = "_palaestra_seen_reset"
EPISODES_NEEDED = 20
"""Ended episodes after which what they showed is judged."""


def final_observation(info: Any) -> Any:
    """The last observation as an info gives it, or None."""
    return next((info[key] for key in FINAL_KEYS if key in info and info[key] is not None), None) if isinstance(info, dict) else None


class ResetWatch:
    """Tells whether an environment was reset since it was last asked to `look_away`."""

    def __init__(self, env: gymnasium.Env) -> None:
        """The innermost environment's `reset` is watched; one whose attributes cannot be set is left as it is."""
        base = env.unwrapped
        self._seen: dict[str, Any] = {}
        self.transforms = _transforms(env)
        """A wrapper changes observations, so that those of the innermost environment cannot be compared with what it returns."""
        try:
            if "reset" not in vars(base):
                base.reset = MethodType(_noted(type(base).reset), base)
                self._seen = vars(base)
        except (AttributeError, TypeError):
            pass  # nothing can be set on it

    def look_away(self) -> None:
        """Forgets what it saw."""
        self._seen[SEEN] = None

    @property
    def seen(self) -> tuple[Any] | None:
        """The observation that the innermost `reset` returned, or None where it was not called."""
        return self._seen.get(SEEN)


def _noted(reset: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, with the signature that Gymnasium's checks look at, which notes what it returned.

    Bound to an environment, and not closed over it, so that a deep copy (as in tree search) resets itself and not the original.
    """

    @wraps(reset)
    def noted(env: gymnasium.Env, /, *arguments: Any, **options: Any) -> Any:
        result = reset(env, *arguments, **options)
        vars(env)[SEEN] = (result[0],) if isinstance(result, tuple) and result else (result,)
        return result

    return noted


def _transforms(env: gymnasium.Env) -> bool:
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.ObservationWrapper):
            return True
        layer = layer.env
    return env.observation_space != env.unwrapped.observation_space


class SelfResetDetector:
    """Compares last observations with first ones.

    An environment that starts anew within `step` shows, at every end, something like a first observation, while the
    observation before it was unlike one. Judged once, after `EPISODES_NEEDED` episodes.
    """

    def __init__(self) -> None:
        self.open = True
        """It has not been judged."""
        self._low: list[Tensor] = []
        self._high: list[Tensor] = []
        self._ends, self._alike, self._before = 0, 0, 0

    def first(self, obs: Sequence[Tensor]) -> None:
        """Episodes that begin, each (N, *shape)."""
        if not len(obs[0]):
            return
        low, high = [column.amin(0) for column in obs], [column.amax(0) for column in obs]
        self._low = low if not self._low else [torch.minimum(a, b) for a, b in zip(self._low, low, strict=True)]
        self._high = high if not self._high else [torch.maximum(a, b) for a, b in zip(self._high, high, strict=True)]

    def ended(self, last: Sequence[Tensor], before: Sequence[Tensor]) -> bool:
        """Episodes that ended, with the observation before the last. True, once, where the environment seems to reset itself."""
        self._ends += len(last[0])
        self._alike += int(self._like_first(last).sum())
        self._before += int(self._like_first(before).sum())
        if self._ends < EPISODES_NEEDED:
            return False
        self.open = False
        return self._alike == self._ends and self._before <= self._ends // 10

    def _like_first(self, obs: Sequence[Tensor]) -> Tensor:
        """(N,) whether each observation lies within what first ones span, and half as much again on either side."""
        inside = torch.ones(len(obs[0]), dtype=torch.bool)
        for column, low, high in zip(obs, self._low, self._high, strict=True):
            margin = (high - low) / 2
            inside &= ((column >= low - margin) & (column <= high + margin)).flatten(1).all(1)
        return inside
