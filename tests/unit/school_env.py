"""A teacher and a pupil in one environment."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.ball.env import Ball


class School:
    """Two 3DBalls as one environment: in one the teacher balances, in the other the pupil."""

    device = torch.device("cpu")
    parameters: Mapping[str, float] = {}

    def __init__(self, areas: int = 4) -> None:
        self.num_areas = areas
        self.rooms = {name: Ball(areas) for name in ("Expert", "Pupil")}
        self.behaviors: Mapping[str, BehaviorSpec] = {
            name: room.behaviors["3DBall"] for name, room in self.rooms.items()
        }

    def reset(self, seed: int) -> dict[str, TimeStep]:
        return {name: room.reset(seed + i)["3DBall"] for i, (name, room) in enumerate(self.rooms.items())}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        return {name: room.step({"3DBall": actions[name]})["3DBall"] for name, room in self.rooms.items()}

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        return self.rooms[behavior].heuristic("3DBall", slots)

    def set_parameters(self, values: Mapping[str, torch.Tensor]) -> None: ...

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {f"{name}/{key}": value for name, room in self.rooms.items() for key, value in room.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        for name, room in self.rooms.items():
            room.load_state_dict(
                {key.removeprefix(f"{name}/"): value for key, value in state.items() if key.startswith(f"{name}/")}
            )

    def render(self, area: int) -> Any:
        raise EnvError("a school has no picture")

    def close(self) -> None: ...
