"""Converts the arrays of one episode of a Minari dataset to records of a demonstration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.datasets.dataset_form import DatasetForm
from palaestra.demos import DemoColumns

MASK = "action_mask"


class EpisodeRecords:
    """Records of one episode: one for each observation, and one more where another episode begins within it."""

    def __init__(self, form: DatasetForm, episode: Mapping[str, Any], number: int) -> None:
        """Raises EnvError, ValueError, KeyError, IndexError or TypeError for arrays that do not fit the form."""
        self._form = form
        self._observations = episode["observations"]
        reward = np.asarray(episode["rewards"], np.float32).reshape(-1)
        terminated, truncated = (
            np.asarray(episode[key], np.bool_).reshape(-1) for key in ("terminations", "truncations")
        )
        self.steps = steps = len(reward)
        if not steps or len(terminated) != steps or len(truncated) != steps:
            raise EnvError(
                f"{steps} rewards, {len(terminated)} terminations and {len(truncated)} truncations received; expected "
                f"one for each step"
            )
        continuous, discrete = form.read_actions(episode["actions"], steps)
        ended = terminated | truncated
        within = np.flatnonzero(ended[:-1])
        self._rows = np.insert(np.arange(steps + 1), within + 2, within + 1)
        begins = np.insert(np.zeros(steps + 1, np.bool_), within + 2, True)
        begins[0] = True
        step = np.where(begins, 0, self._rows - 1)  # that a record follows

        def following(values: NDArray[Any]) -> NDArray[Any]:
            taken = values[step]
            taken[begins] = 0
            return taken

        self.reward = following(reward)
        self.done = following(ended)
        self.group_reward = np.zeros(len(step), np.float32)
        self.truncated = following(truncated & ~terminated)
        self.id = np.full(len(step), number)
        self.group = np.zeros(len(step), np.int64)
        self.continuous = following(continuous)
        self.discrete = following(discrete)
        infos = episode.get("infos") or {}
        self.mask = None
        given = infos.get(MASK)
        source = f"in infos['{MASK}']"
        if given is None and form.mask is not None:
            given = reduce(getitem, form.mask, self._observations)
            source = f"in the observation's '{'.'.join(map(str, form.mask))}'"
        if given is not None:
            self.mask = form.read_masks(
                given, steps + 1, np.append(False, ended) | (np.arange(steps + 1) == steps), source
            )
            self.mask = None if self.mask is None else self.mask[self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def columns(self, begin: int, end: int) -> DemoColumns:
        """Returns the records from `begin` to before `end`."""
        part = slice(begin, end)
        return DemoColumns(
            first=begin,
            obs=self._form.read_observations(self._observations, self._rows[part]),
            reward=self.reward[part],
            group_reward=self.group_reward[part],
            done=self.done[part],
            truncated=self.truncated[part],
            id=self.id[part],
            group=self.group[part],
            mask=None if self.mask is None else self.mask[part],
            continuous=self.continuous[part],
            discrete=self.discrete[part],
            acted=np.ones(len(self.reward[part]), np.bool_),
        )
