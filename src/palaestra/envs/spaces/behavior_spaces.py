"""Gymnasium's spaces for the agents of a behavior, and the conversion of their observations, actions and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import InvalidAction
from numpy.typing import NDArray

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec

CONTINUOUS, DISCRETE = "continuous", "discrete"
"""Keys of the parts of a hybrid action."""


class BehaviorSpaces:
    """Spaces of one agent.

    One observation is a Box, several are a Dict by their names. Actions are a Box within -1..1, a Discrete, a
    MultiDiscrete, or for hybrid actions a Dict of `continuous` and `discrete`.
    """

    def __init__(self, spec: BehaviorSpec, always_dict: bool = False) -> None:
        """`always_dict` makes a single observation a Dict too."""
        self.spec = spec
        self.names = _unique([obs.name for obs in spec.obs])
        boxes = [_box(obs) for obs in spec.obs]
        self._is_dict = always_dict or len(boxes) != 1
        self.observation: spaces.Space[Any] = (
            spaces.Dict(list(zip(self.names, boxes, strict=True)))
            if self._is_dict
            else boxes[0]  # a list keeps its order
        )
        self.action = action_space(spec.action)
        self._ends = np.cumsum(spec.action.branches)[:-1].tolist()

    def observe(self, columns: Sequence[Any]) -> Any:
        """Returns the observation of an agent or a batch from its columns, in the order of the spec."""
        return dict(zip(self.names, columns, strict=True)) if self._is_dict else columns[0]

    def mask_space(self) -> spaces.Space[Any]:
        """Returns the space of `mask`, for discrete actions only."""
        boxes = [spaces.Box(0, 1, (size,), np.int8) for size in self.spec.action.branches]
        return boxes[0] if len(boxes) == 1 else spaces.Tuple(boxes)

    def mask(self, allowed: NDArray[np.bool_]) -> Any:
        """Returns the mask (choices,) in the form for `action.sample(mask)`: int8, an array for each branch."""
        ones = allowed.astype(np.int8)
        return ones if len(self.spec.action.branches) == 1 else tuple(np.split(ones, self._ends))

    def hybrid_mask(self, allowed: NDArray[np.bool_]) -> dict[str, Any]:
        """Returns the mask of a hybrid action in the form for `action.sample(mask)`."""
        return {CONTINUOUS: None, DISCRETE: self.mask(allowed)}

    def read_action(self, agent: str, action: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Converts an action to continuous numbers, clipped to -1..1, and choices. Raises
        gymnasium.error.InvalidAction."""
        spec = self.spec.action
        continuous = _NO_NUMBERS
        discrete = _NO_CHOICES
        try:
            given = action if spec.continuous and spec.branches else {CONTINUOUS: action, DISCRETE: action}
            if spec.continuous:
                continuous = np.asarray(given[CONTINUOUS], np.float32)
            if spec.branches:
                discrete = np.atleast_1d(np.asarray(given[DISCRETE]))
        except (TypeError, ValueError, KeyError, IndexError):
            continuous = np.full(spec.continuous + 1, np.nan)
        fits = (
            continuous.shape == (spec.continuous,)
            and discrete.shape == (len(spec.branches),)
            and discrete.dtype.kind in "iu"
        )
        if not fits or not np.isfinite(continuous).all() or (discrete < 0).any() or (discrete >= spec.branches).any():
            raise InvalidAction(
                f"{agent} was given the action {action!r}; expected one of {self.action}, with finite numbers"
            )
        return continuous.clip(-1, 1), discrete.astype(np.int64)


def action_space(spec: ActionSpec) -> spaces.Space[Any]:
    """Returns the space of one agent's actions."""
    box = spaces.Box(-1.0, 1.0, (spec.continuous,), np.float32)
    if not spec.branches:
        return box
    choices = (
        spaces.Discrete(spec.branches[0]) if len(spec.branches) == 1 else spaces.MultiDiscrete(list(spec.branches))
    )
    return spaces.Dict({CONTINUOUS: box, DISCRETE: choices}) if spec.continuous else choices


def _box(obs: ObsSpec) -> spaces.Box:
    low, high = (0.0, 1.0) if obs.is_visual else (-np.inf, np.inf)
    return spaces.Box(low, high, obs.shape, np.float32)


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names, with a number added to each repeated name."""
    seen: list[str] = []
    for name in names:
        number = 1
        one = name
        while one in seen:
            number += 1
            one = f"{name}_{number}"
        seen.append(one)
    return tuple(seen)


_NO_NUMBERS = np.zeros(0, np.float32)
_NO_CHOICES = np.zeros(0, np.int64)
