"""Detects Gymnasium environments that reset themselves inside `step`, so that the final observation of an episode is
lost.

`ResetWatch` notices calls of the environment's own `reset`; `SelfResetDetector` recognizes other ways of restarting by
comparing observations at the ends of episodes.
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
"""Info keys for the final observation: of Gymnasium, of Gymnasium before 1.0, and of Stable-Baselines3."""
SEEN = "_palaestra_seen_reset"
EPISODES_NEEDED = 20
"""Number of terminated episodes after which the detector decides."""
MOST_EPISODES = 200
"""Number of ended episodes after which the detector gives up."""


def final_observation(info: Any) -> Any:
    """Returns the final observation in an info, or None."""
    return (
        next((info[key] for key in FINAL_KEYS if key in info and info[key] is not None), None)
        if isinstance(info, dict)
        else None
    )


class ResetWatch:
    """Records whether an environment was reset since the last call of `clear`."""

    def __init__(self, env: gymnasium.Env) -> None:
        """Wraps the innermost environment's `reset`, unless its attributes cannot be set."""
        base = env.unwrapped
        self._seen: dict[str, Any] = {}
        self.transforms = _transforms(env)
        """Whether a wrapper changes observations, so that the innermost environment's observations differ from the
        returned ones."""
        try:
            if "reset" not in vars(base):
                base.reset = MethodType(_recording(type(base).reset), base)
                self._seen = vars(base)
        except (AttributeError, TypeError):
            pass  # the environment's attributes cannot be set

    def clear(self) -> None:
        """Forgets earlier resets."""
        self._seen[SEEN] = None

    @property
    def seen(self) -> tuple[Any] | None:
        """The observation that the innermost `reset` returned, in a tuple; None if `reset` was not called."""
        return self._seen.get(SEEN)


def _recording(reset: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `reset` so that it records its result, and keeps the signature that Gymnasium's checks inspect.

    Bound to the environment rather than closing over it, so that a deep copy (as in tree search) resets itself, not the
    original.
    """

    @wraps(reset)
    def recorded(env: gymnasium.Env, /, *arguments: Any, **options: Any) -> Any:
        result = reset(env, *arguments, **options)
        vars(env)[SEEN] = (result[0],) if isinstance(result, tuple) and result else (result,)
        return result

    return recorded


def _transforms(env: gymnasium.Env) -> bool:
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.ObservationWrapper):
            return True
        layer = layer.env
    return env.observation_space != env.unwrapped.observation_space


class SelfResetDetector:
    """Compares the final observations of episodes with first observations.

    If an environment resets itself within `step`, the final observation of every episode looks like a first
    observation, while the two observations before do not. Only terminated episodes are used: an episode that is
    truncated, such as that of a balanced pole, may also end near its start. Decides once, after `EPISODES_NEEDED`
    terminated episodes, and gives up if most episodes are truncated.
    """

    def __init__(self) -> None:
        self.undecided = True
        """Whether the detector has not decided yet."""
        self._low: list[Tensor] = []
        self._high: list[Tensor] = []
        self._seen = 0
        self._ends = 0
        self._alike = 0
        self._before = 0

    def add_first(self, obs: Sequence[Tensor]) -> None:
        """Adds the first observations of N episodes, each (N, *shape)."""
        if not len(obs[0]):
            return
        low = [column.amin(0) for column in obs]
        high = [column.amax(0) for column in obs]
        self._low = low if not self._low else [torch.minimum(a, b) for a, b in zip(self._low, low, strict=True)]
        self._high = high if not self._high else [torch.maximum(a, b) for a, b in zip(self._high, high, strict=True)]

    def add_ended(self, last: Sequence[Tensor], before: Sequence[Sequence[Tensor]], terminated: Tensor) -> bool:
        """Adds the final observations of N episodes and the observations of the ticks before; `terminated`: (N,).
        Returns True, only once, if the environment resets itself."""
        self._seen += len(terminated)
        self._ends += int(terminated.sum())
        self._alike += int((self._like_first(last) & terminated).sum())
        earlier = torch.stack([self._like_first(obs) for obs in before]).any(0)
        self._before += int((earlier & terminated).sum())
        self.undecided = self._ends < EPISODES_NEEDED and self._seen < MOST_EPISODES
        return self._ends >= EPISODES_NEEDED and self._alike == self._ends and self._before <= self._ends // 10

    def _like_first(self, obs: Sequence[Tensor]) -> Tensor:
        """Whether each observation, (N,), is within the range of first ones, widened by its half on either side."""
        inside = torch.ones(len(obs[0]), dtype=torch.bool)
        for column, low, high in zip(obs, self._low, self._high, strict=True):
            margin = (high - low) / 2
            inside &= ((column >= low - margin) & (column <= high + margin)).flatten(1).all(1)
        return inside
