"""Mirrors experience by signs and permutations of observations and actions; mirroring twice returns the original."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.trainers.symmetry.mirror_settings import MirrorRule, MirrorSettings, Place

Numbers = NDArray[np.int64]


class Mirror:
    """The mirror image of observations, actions and masks; applied twice, it returns the original."""

    def __init__(self, settings: MirrorSettings, spec: BehaviorSpec, device: torch.device) -> None:
        """Raises ConfigError where it does not fit the behavior, or does not undo itself."""
        rules = [_rule_of(settings, obs) for obs in spec.obs]
        names = [obs.name for obs in spec.obs]
        for name in settings.observations:  # others may be for other behaviors, or for what an environment can add
            mistyped = nearest(name, {*names} - {*settings.observations})
            if mistyped and not any(fnmatchcase(each, name) for each in names):
                raise ConfigError(f"mirror.observations: no observation is named '{name}'{mistyped}")
        self._obs = [_column(rule, obs, device) for rule, obs in zip(rules, spec.obs, strict=True)]
        action, size = settings.actions, spec.action.continuous
        if action.continuous is not None and not size:
            raise ConfigError("mirror.actions.continuous: the behavior has no continuous actions")
        where = "mirror.actions.continuous"
        order, sign = _compiled(action.continuous or MirrorRule(), size, where) if size else (np.zeros(0, int),) * 2
        self._order = torch.as_tensor(order, device=device)
        self._sign = torch.as_tensor(sign, dtype=torch.float32, device=device)
        branches = spec.action.branches
        for branch in action.discrete:
            if not 0 <= branch < len(branches):
                raise ConfigError(f"mirror.actions.discrete.{branch}: the behavior has {len(branches)} branches")
        choices = list[Numbers]()
        for i, size in enumerate(branches):
            where = f"mirror.actions.discrete.{i}"
            choice, sign = _compiled(action.discrete.get(i, MirrorRule()), size, where)
            if (sign < 0).any():
                raise ConfigError(f"{where}: choices have no sign; expected swap, or an order")
            choices.append(choice)
        starts = accumulate(branches, initial=0)
        self._choices = [torch.as_tensor(choice, device=device) for choice in choices]
        mask = [choice + start for choice, start in zip(choices, starts, strict=False)]
        self._mask = torch.as_tensor(np.concatenate([*mask, np.zeros(0, np.int64)]).astype(np.int64), device=device)

    def obs(self, obs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Returns the mirror image of observations, each (N, *shape)."""
        return tuple(column(x) for column, x in zip(self._obs, obs, strict=True))

    def action(self, action: Action) -> Action:
        """Returns the mirror image of actions."""
        continuous = action.continuous[:, self._order] * self._sign if len(self._order) else action.continuous
        if not self._choices:
            return Action(continuous, action.discrete)
        taken = [choice[column] for choice, column in zip(self._choices, action.discrete.unbind(1), strict=True)]
        return Action(continuous, torch.stack(taken, 1))

    def mask(self, mask: Tensor) -> Tensor:
        """Returns the mirror image of masks (N, choices)."""
        return mask[:, self._mask]


def _rule_of(settings: MirrorSettings, obs: ObsSpec) -> MirrorRule:
    rules = settings.observations
    for name in (obs.name, *rules):
        if name in rules and (name == obs.name or fnmatchcase(obs.name, name)):
            return rules[name]
    raise ConfigError(
        f"mirror.observations: '{obs.name}' {obs.shape} is missing; say how it changes, or that it stays the same "
        f"({obs.name}: same)"
    )


def _column(rule: MirrorRule, obs: ObsSpec, device: torch.device) -> Callable[[Tensor], Tensor]:
    where = f"mirror.observations.{obs.name}"
    if obs.is_visual:
        if rule != MirrorRule(flip=rule.flip):
            raise ConfigError(
                f"{where}: flip is for images, the other keys for numbers; the observation has the shape {obs.shape}"
            )
        return lambda x: x if rule.flip is None else x.flip(2 if rule.flip == "rows" else 3)
    order, sign = (torch.as_tensor(each, device=device) for each in _compiled(rule, obs.shape[-1], where))
    return lambda x: x[..., order] * sign.to(x.dtype)


def _compiled(rule: MirrorRule, size: int, where: str) -> tuple[Numbers, Numbers]:
    """Returns which number each place gets, and its sign, (size,) each. Raises ConfigError."""
    if rule.flip is not None:
        raise ConfigError(f"{where}: flip is for images, and these are {size} numbers")
    if size % rule.frames:
        raise ConfigError(
            f"{where}: frames is {rule.frames}, and its {size} numbers cannot be divided into so many equal frames"
        )
    width = size // rule.frames
    order = np.arange(width)
    sign = np.ones(width, np.int64)
    if rule.order is not None:
        if rule.swap or rule.negate or rule.size > 1:
            raise ConfigError(f"{where}: give order alone, or swap, size and negate")
        order, sign = _ordered(rule.order, width, where)
    if width % rule.size:
        raise ConfigError(
            f"{where}: size is {rule.size}, and the {width} numbers of a frame cannot be divided into so many equal "
            "blocks"
        )
    blocks = np.arange(width).reshape(-1, rule.size)
    moved: set[int] = set()
    for pair in rule.swap:
        a, b = (_places(place, len(blocks), where) for place in pair)
        if len(a) != len(b) or moved & {*a, *b} or {*a} & {*b}:
            raise ConfigError(
                f"{where}: swap {list(pair)}: expected two places, or two ranges of equal length, each in only one pair"
            )
        moved |= {*a, *b}
        order[blocks[a].ravel()], order[blocks[b].ravel()] = blocks[b].ravel(), blocks[a].ravel()
    for place in rule.negate:
        sign[_places(place, width, where)] = -1
    for i, other in enumerate(order.tolist()):
        if order[other] != i:
            raise ConfigError(
                f"{where}: mirroring twice does not restore the original: place {i} gets number {other}, and place "
                f"{other} number {order[other]}"
            )
        if sign[other] != sign[i]:
            raise ConfigError(
                f"{where}: mirroring twice does not restore the original: {i} and {other} exchange places, and only "
                "one of them is negated"
            )
    offsets = np.repeat(np.arange(rule.frames) * width, width)
    return np.tile(order, rule.frames) + offsets, np.tile(sign, rule.frames)


def _ordered(given: Sequence[Place], width: int, where: str) -> tuple[Numbers, Numbers]:
    texts = [str(each).strip() for each in given]
    numbers = [text.removeprefix("-") for text in texts]
    if len(texts) != width or not all(map(str.isdecimal, numbers)) or sorted(map(int, numbers)) != list(range(width)):
        raise ConfigError(
            f"{where}: {list(given)}: expected each of 0 to {width - 1} once, with a minus where it is negated"
        )
    return np.array([*map(int, numbers)]), np.array([-1 if text.startswith("-") else 1 for text in texts])


def _places(place: Place, count: int, where: str) -> list[int]:
    first, dash, last = str(place).strip().partition("-")
    if not first.strip().isdecimal() or (dash and not last.strip().isdecimal()):
        raise ConfigError(f"{where}: '{place}' is no place; expected a number from 0 on, or a range such as 3-5")
    found = list(range(int(first), int(last or first) + 1))
    if not found or found[-1] >= count:
        raise ConfigError(f"{where}: place {place} is not there; expected 0 to {count - 1}")
    return found
