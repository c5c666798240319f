"""Ticks of a built-in environment on the CPU as NumPy arrays, without tensors: for trainers of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
Given = Callable[[str], list[tuple[Any, Any]]]
"""Returns the action columns of a behavior, each with the values to write into it."""


class HostStep(NamedTuple):
    """Copies of everything that a tick changes. In shapes: S agents, E agents whose episode ended, in order."""

    obs: list[Array]
    reward: Array
    """(S,) rewards, the group's included."""
    terminated: Array
    truncated: Array
    ended: Array | None
    """(S,) bool; None: no episode ended."""
    rows: Array | None
    """(E,) numbers of the slots whose episode ended."""
    final_obs: list[Array]
    """Final observations of these slots, each (E, ...)."""
    mask: Array | None
    """(S, choices) bool, True: allowed."""


class HostTicks:
    """Steps an environment in which every agent acts on every tick, with one behavior and actions of one kind."""

    def __init__(
        self, columns: Mapping[str, Tensor], obs: Sequence[Callable[[], Array]], simulate: Callable[[Given], bool]
    ) -> None:
        """`obs` copy one observation each; `simulate` makes a tick and returns whether an episode ended."""
        views = {name: column.numpy() for name, column in columns.items()}
        self.action = views["action"]
        self._obs = tuple(obs)
        self._simulate = simulate
        self._reward = views["reward"]
        self._terminated = views["terminated"]
        self._truncated = views["truncated"]
        self._group_reward = views.get("group_reward")
        self._mask = views.get("mask")
        self._final_obs = tuple(view for name, view in views.items() if name.startswith("final_obs") and view.shape[1])

    def step(self, action: Array) -> HostStep:
        """Makes a tick with actions of the shape and type of `self.action`; continuous actions are clipped to -1..1."""
        if action.dtype.kind == "f":
            np.clip(action, -1.0, 1.0, out=self.action)
        else:
            self.action[...] = action
        has_ended = self._simulate(lambda _: [(self.action, action)])
        terminated = self._terminated.copy()
        truncated = self._truncated.copy()
        ended = rows = None
        final_obs: list[Array] = []
        if has_ended:
            ended = terminated | truncated
            (rows,) = ended.nonzero()
            final_obs = [column[rows] for column in self._final_obs]
        return HostStep(
            obs=[copy() for copy in self._obs],
            reward=self._reward.copy() if self._group_reward is None else self._reward + self._group_reward,
            terminated=terminated,
            truncated=truncated,
            ended=ended,
            rows=rows,
            final_obs=final_obs,
            mask=None if self._mask is None else self._mask.copy(),
        )
