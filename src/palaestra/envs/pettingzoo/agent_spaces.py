"""Converts observations, masks and actions of a behavior's agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.plugins import nearest
from palaestra.core.specs import TRUTH, BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.envs.spaces.action_spaces import SpaceActions
from palaestra.envs.spaces.conventions import Conventions
from palaestra.envs.spaces.mask_source import MaskSource
from palaestra.envs.spaces.observation_bounds import BoundsWatch
from palaestra.envs.spaces.observation_leaves import NUMBERS, Leaf, WrongObservation, pick, wrong_observation
from palaestra.envs.spaces.observation_spaces import entry_names, observation_leaves


class AgentSpaces:
    """Converts between a behavior's spaces and its spec."""

    def __init__(
        self,
        observation: spaces.Space,
        action: spaces.Space,
        where: str,
        conventions: Conventions,
        state: spaces.Space | None = None,
    ) -> None:
        """`where` begins messages; `state` is the space of the environment's state, if agents observe that too. Raises
        EnvError for unsupported spaces."""
        self._where = where
        self._first = True
        try:
            self._actions = SpaceActions(action)
            self._masks = MaskSource(where, observation, action, self._actions.spec, conventions)
            leaves = conventions.leaves_of_one(observation, self._masks.name)
            self._leaves = [replace(leaf, path=(0, *leaf.path)) for leaf in leaves]
            if state is not None:
                self._leaves += _state_leaves(state, [leaf.spec.name for leaf in leaves])
        except EnvError as error:
            raise EnvError(f"{where}: {error}") from error
        self._bounds = BoundsWatch(self._leaves, where)
        self.spec = BehaviorSpec(tuple(leaf.spec for leaf in self._leaves), self._actions.spec)

    def columns(self, observations: Sequence[Any], agents: Sequence[str], behavior: str) -> tuple[Tensor, ...]:
        """Converts N observations, each with the environment's state, to a column (N, *shape) for each part. Raises
        EnvError for other shapes or NaN."""
        columns = []
        for leaf in self._leaves:
            try:
                values = leaf.gather([pick(leaf, one) for one in observations])
                if values.dtype.kind not in NUMBERS:
                    raise ValueError(f"got numbers of dtype {values.dtype}")
                column = leaf.column(values)
                if column.shape[1:] != leaf.spec.shape:
                    raise ValueError(f"shape {values.shape[1:]} came")
            except (EnvError, ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
                who, why = self._first_wrong(leaf, observations, agents, error)
                raise EnvError(
                    f"{self._where}: observation '{leaf.spec.name}' of {who} does not fit its space: {why}"
                ) from error
            if (
                values.dtype.kind not in "biu"
                and not np.isfinite(column.sum().item())
                and len(bad := (~column.isfinite()).nonzero())
            ):
                at = [int(i) for i in bad[0]]
                raise NotFinite(
                    behavior, agents[at[0]], f"observation '{leaf.spec.name}'{at[1:]}", float(column[tuple(bad[0])])
                )
            self._bounds.add(leaf, values)
            columns.append(column)
        return tuple(columns)

    @staticmethod
    def _first_wrong(
        leaf: Leaf, observations: Sequence[Any], agents: Sequence[str], error: Exception
    ) -> tuple[str, str]:
        """Returns the first agent whose observation does not fit, and the reason."""
        for agent, one in zip(agents, observations, strict=True):
            if found := wrong_observation(leaf, 0, one):
                return agent, f"it {found.problem}"
            try:
                if leaf.column(leaf.gather([pick(leaf, one)])).shape[1:] == leaf.spec.shape:
                    continue
                why = "it has another shape"
            except WrongObservation as alone:
                why = f"it {alone.problem}"
            except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as alone:
                why = f"{type(alone).__name__}: {alone}"
            return agent, why
        return agents[0], f"{type(error).__name__}: {error}"

    def mask_method(self, env: Any) -> tuple[str, Callable[..., Any]] | None:
        """Returns a method that returns masks, of one agent or of all, with its name; None without such a method."""
        return self._masks.method(env, most=1)

    def masks(self, observations: Sequence[Any], infos: Sequence[Any], agents: Sequence[str]) -> np.ndarray | None:
        """Returns the allowed choices (N, choices), or None without masks. Raises EnvError for an invalid mask."""
        if not self._masks.choices or not agents:
            return None

        def who(row: int) -> str:
            return f"{self._where}, agent {agents[row]}"

        if self._masks.path is not None:
            return self._masks.in_observations(observations, None, who)
        first = self._first
        self._first = False
        given = [info if isinstance(info, Mapping) else {} for info in infos]
        return self._masks.in_infos(given, lambda key: [info.get(key) for info in given], who, first=first)

    def actions(self, action: Action, rows: np.ndarray) -> list[Any]:
        """Converts these rows to actions of the environment's own form."""
        at = torch.from_numpy(rows)
        batched = self._actions.batch(Action(action.continuous[at], action.discrete[at]))
        return list(self._actions.single(batched, len(rows)))


def _state_leaves(space: spaces.Space, names: Sequence[str]) -> list[Leaf]:
    """Returns the leaves of an environment's state, `truth` or with names that begin so."""
    leaves = observation_leaves(space)
    named = [TRUTH if len(leaf.path) == 0 else f"{TRUTH}.{leaf.spec.name}" for leaf in leaves]
    if twice := [name for name in named if name in names]:
        raise EnvError(f"agents have an observation '{twice[0]}' already; leave out env_options.state")
    return [
        replace(leaf, path=(1, *leaf.path), spec=replace(leaf.spec, name=name))
        for leaf, name in zip(leaves, named, strict=True)
    ]


def check_left_out(conventions: Conventions, observations: Sequence[spaces.Space], where: str) -> None:
    """Raises EnvError for an entry to leave out that no agent observes."""
    names = list(dict.fromkeys(name for space in observations for name in entry_names(space)))
    if unknown := [name for name in conventions.leave_out or () if name not in names]:
        has = ", ".join(names) or "no entries"
        raise EnvError(
            f"{where}: there is no observation '{unknown[0]}' to leave out{nearest(unknown[0], names)} (agents have: "
            f"{has})"
        )
