"""Parameters of many episodes, for environments that take those of the next one only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.timestep import TimeStep
from palaestra.envs.base import Env
from palaestra.runtime.area_episodes import AreaEpisodes


class Queue:
    """`envs.base.Queues`, by watching where each area's episodes begin."""

    queue_length = 64
    """As there."""

    def __init__(self, env: Env) -> None:
        self._env, self._areas, self._values = env, AreaEpisodes(env.num_areas), dict[str, Tensor]()
        self.episodes = torch.zeros(env.num_areas, dtype=torch.int64, device=env.device)
        """As there."""
        self._filled = self.episodes

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets the first of each area's."""
        self._values, self._filled = dict(values), self.episodes
        self._set()

    def _set(self) -> None:
        turn = (self.episodes - self._filled)[:, None]
        self._env.set_parameters({name: values.gather(1, turn)[:, 0] for name, values in self._values.items()})

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Every area has begun an episode."""
        self._areas.begin(steps)
        self.episodes = self.episodes + 1

    def watch(self, steps: Mapping[str, TimeStep]) -> None:
        """Sets the next of the areas that have begun an episode."""
        over = self._areas.over(steps)
        if over is not None:
            self.episodes = self.episodes + over
            self._set()

    def state_dict(self) -> dict[str, Any]:
        """Whose episodes go on."""
        return self._areas.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with those."""
        self._areas.load_state_dict({"living": {name: column.to(self._env.device) for name, column in state["living"].items()}})
