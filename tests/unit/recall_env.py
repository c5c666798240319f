"""A bit is shown once and asked for long after: what only a policy with a memory can do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from tiny_envs import CPU, table
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, TimeStep

SIDE = 20
"""Pixels along an edge of the image: the fewest that the `simple` encoder takes."""


class Recall:
    """The first decision of an episode shows a bit, `wait` decisions show noise, and the last is rewarded: 1 for the
    bit, else -1.

    An agent an area for each number in `waits`. With `image` the bit is a bright left or right half. With `pauses`
    a slot acts on seven ticks of ten, and stays empty for a while after an episode: not steady.
    """

    device = CPU
    parameters: Mapping[str, float] = {}

    def __init__(self, areas: int, waits: Sequence[int] = (50,), *, image: bool = False, pauses: bool = False) -> None:
        self.num_areas = areas
        self.image = image
        self.pauses = pauses
        obs = (ObsSpec("image", (1, SIDE, SIDE)), ObsSpec("vector", (2,))) if image else (ObsSpec("vector", (3,)),)
        self.behaviors: Mapping[str, BehaviorSpec] = {
            "Recall": BehaviorSpec(obs, ActionSpec(branches=(2,)), steady=not pauses)
        }
        self.wait = torch.tensor(waits).repeat(areas)
        self.area = torch.arange(areas).repeat_interleave(len(waits))
        self.generator = torch.Generator()
        slots = len(self.wait)
        self.age = torch.zeros(slots, dtype=torch.int64)
        self.bit = torch.zeros(slots)
        self.noise = torch.zeros(slots)
        self.acting = torch.ones(slots, dtype=torch.bool)
        self.living = torch.ones(slots, dtype=torch.bool)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.generator.manual_seed(seed)
        everyone = torch.ones_like(self.living)
        self._begin(everyone)
        self.living = everyone
        self._go_on()
        return {"Recall": self._table(torch.zeros(len(self.wait)), ~everyone, self._observe())}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        ended = self.acting & (self.age > self.wait)
        right = actions["Recall"].discrete[:, 0] == self.bit
        reward = torch.where(ended, torch.where(right, 1.0, -1.0), 0.0)
        self.age = self.age + self.acting.long()
        last = self._observe()
        self._begin(ended)
        if self.pauses:
            self.living = ~ended & (self.living | self._chance(0.3))
        self._go_on()
        return {"Recall": self._table(reward, ended, last)}

    def _chance(self, probability: float) -> Tensor:
        return torch.rand(len(self.wait), generator=self.generator) < probability

    def _begin(self, where: Tensor) -> None:
        self.age = torch.where(where, 0, self.age)
        self.bit = torch.where(where, self._chance(0.5).float(), self.bit)

    def _go_on(self) -> None:
        self.noise = torch.randn(len(self.wait), generator=self.generator)
        self.acting = self.living & self._chance(0.7) if self.pauses else torch.ones_like(self.living)

    def _observe(self) -> tuple[Tensor, ...]:
        shown = (self.age == 0).float()
        asked = (self.age > self.wait).float()
        rest = torch.stack([self.noise * (1 - shown) * (1 - asked), asked], 1)
        if not self.image:
            return (torch.cat([((2 * self.bit - 1) * shown).unsqueeze(1), rest], 1),)
        half = torch.arange(SIDE) < SIDE // 2
        bright = (half == (self.bit == 0).unsqueeze(1)).float() * shown.unsqueeze(1)
        return bright[:, None, None, :].expand(-1, 1, SIDE, SIDE).contiguous(), rest

    def _table(self, reward: Tensor, ended: Tensor, last: tuple[Tensor, ...]) -> TimeStep:
        rows = ended.nonzero()[:, 0]
        step = table(self._observe(), terminated=rows.tolist(), final_obs=tuple(x[rows] for x in last))
        return replace(step, reward=reward, acting=self.acting, area=self.area)

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        if values:
            raise EnvError(f"Recall has no parameters, so not {', '.join(values)}")

    def render(self, area: int) -> Any:
        raise EnvError("Recall has no picture")

    def state_dict(self) -> dict[str, Tensor]:
        columns = {name: getattr(self, name).clone() for name in ("age", "bit", "noise", "acting", "living")}
        return {"generator": self.generator.get_state(), **columns}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.generator.set_state(state["generator"])
        for name in ("age", "bit", "noise", "acting", "living"):
            setattr(self, name, state[name].clone())

    def close(self) -> None:
        pass
