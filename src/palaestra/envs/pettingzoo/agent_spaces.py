"""Converts observations, masks and actions of a behavior's agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.envs.spaces.action_masks import KEY, ActionMasks
from palaestra.envs.spaces.action_spaces import SpaceActions
from palaestra.envs.spaces.conventions import Conventions, MissingMasks
from palaestra.envs.spaces.observation_spaces import Leaf, ObservationMisfit, entry_names, misfit, pick


class AgentSpaces:
    """Converts between a behavior's spaces and its spec."""

    def __init__(self, observation: spaces.Space, action: spaces.Space, where: str, conventions: Conventions) -> None:
        """`where` begins messages. Raises EnvError for unsupported spaces."""
        self._where, self._missing_masks = where, MissingMasks(where, conventions)
        self._masked = isinstance(observation, spaces.Dict) and KEY in observation.spaces
        if isinstance(observation, spaces.Dict) and self._masked:
            observation = spaces.Dict({key: space for key, space in observation.spaces.items() if key != KEY})
        try:
            self._leaves, self._actions = conventions.leaves_of_one(observation), SpaceActions(action)
        except EnvError as error:
            raise EnvError(f"{where}: {error}") from error
        self._masks = ActionMasks(action, self._actions.spec)
        self._informed: bool | None = True if self._masked or self._missing_masks.expected else None
        """Whether there are masks; None: the first decision will tell."""
        self.spec = BehaviorSpec(tuple(leaf.spec for leaf in self._leaves), self._actions.spec)

    def columns(self, observations: Sequence[Any], agents: Sequence[str], behavior: str) -> tuple[Tensor, ...]:
        """Converts N observations to a column (N, *shape) for each part. Raises NotFinite, or EnvError for other shapes."""
        columns = []
        for leaf in self._leaves:
            try:
                values = leaf.gather([pick(leaf, one) for one in observations])
                column = leaf.column(values)
                if column.shape[1:] != leaf.spec.shape:
                    raise ValueError(f"shape {values.shape[1:]} came")
            except (EnvError, ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
                who, why = self._misfit(leaf, observations, agents, error)
                raise EnvError(f"{self._where}: observation '{leaf.spec.name}' of {who} does not fit its space: {why}") from error
            if values.dtype.kind not in "biu" and not np.isfinite(column.sum().item()) and len(bad := (~column.isfinite()).nonzero()):
                at = [int(i) for i in bad[0]]
                raise NotFinite(behavior, agents[at[0]], f"observation '{leaf.spec.name}'{at[1:]}", float(column[tuple(bad[0])]))
            columns.append(column)
        return tuple(columns)

    @staticmethod
    def _misfit(leaf: Leaf, observations: Sequence[Any], agents: Sequence[str], error: Exception) -> tuple[str, str]:
        """Returns the first agent whose observation alone does not fit, and why."""
        for agent, one in zip(agents, observations, strict=True):
            try:
                if leaf.column(leaf.gather([pick(leaf, one)])).shape[1:] == leaf.spec.shape:
                    continue
                why = "it has another shape"
            except ObservationMisfit as alone:
                why = f"it {alone.problem}"
            except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as alone:
                why = f"{type(alone).__name__}: {alone}"
            found = misfit(leaf, 0, one)
            return agent, f"it {found.problem}" if found else why
        return agents[0], f"{type(error).__name__}: {error}"

    def masks(self, observations: Sequence[Any], infos: Sequence[Any], agents: Sequence[str]) -> np.ndarray | None:
        """Returns the allowed choices (N, choices), of observations or infos; None: neither has masks. Raises EnvError for a wrong one."""
        if not self._masks.choices or not agents:
            return None
        if self._masked and (lacking := [agent for agent, one in zip(agents, observations, strict=True) if KEY not in one]):
            raise EnvError(f"{self._where}: the observation of {lacking[0]} has no '{KEY}', although its space has")
        given = [one.get(KEY) if isinstance(one, Mapping) else None for one in (observations if self._masked else infos)]
        has_some = any(mask is not None for mask in given)
        if self._informed is None:
            self._informed = has_some
        if not self._informed:
            if has_some:
                raise self._missing_masks.late()
            return None
        alike = all(isinstance(mask, np.ndarray) and mask.shape == (self._masks.choices,) for mask in given)
        where = "in the observation" if self._masked else f"in info['{KEY}']"
        if alike:
            given = np.array(given)
        elif not self._masked:
            given = self._missing_masks.notice(given, who=agents.__getitem__)
        return self._masks.rows(given, where, who=lambda row: f"{self._where}, agent {agents[row]}")

    def actions(self, action: Action, rows: np.ndarray) -> list[Any]:
        """Converts these rows to actions of the environment's own form."""
        at = torch.from_numpy(rows)
        batched = self._actions.batch(Action(action.continuous[at], action.discrete[at]))
        return list(self._actions.single(batched, len(rows)))


def check_left_out(conventions: Conventions, observations: Sequence[spaces.Space], where: str) -> None:
    """Raises EnvError for an entry to leave out that no kind of agent observes."""
    names = list(dict.fromkeys(name for space in observations for name in entry_names(space)))
    if unknown := [name for name in conventions.leave_out or () if name not in names]:
        has = ", ".join(names) or "no entries"
        raise EnvError(f"{where}: there is no observation '{unknown[0]}' to leave out{nearest(unknown[0], names)} (agents have: {has})")
