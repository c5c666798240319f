"""A game in which one must give its life for the others: the smallest for which credit must outlive an agent."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep

MATES, TIME, DELAY = 3, 5, 2


class Sacrifice:
    """Three agents an area. Who pulls the lever dies; two decisions later the door opens, and the living earn 1
    together.

    Nobody has pulled after five decisions: all end with nothing. All see how long it has been, whether the lever was
    pulled, and who they are.
    """

    def __init__(self, areas: int) -> None:
        self.num_areas = areas
        self.device = torch.device("cpu")
        self.behaviors: Mapping[str, BehaviorSpec] = {
            "Sacrifice": BehaviorSpec((ObsSpec("world", (2 + MATES,)),), ActionSpec(branches=(2,)))
        }
        self.parameters: Mapping[str, float] = {}
        self._area = torch.arange(areas).repeat_interleave(MATES)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self._age = torch.zeros(self.num_areas, dtype=torch.int64)
        self._pulled = torch.full((self.num_areas,), -1)
        self._alive = torch.ones(self.num_areas, MATES, dtype=torch.bool)
        none = torch.zeros_like(self._alive)
        return {"Sacrifice": self._table(self._seen(), none, torch.zeros(self.num_areas))}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        pulls = (
            (actions["Sacrifice"].discrete.view(self.num_areas, MATES) == 1)
            & self._alive
            & (self._pulled < 0).unsqueeze(1)
        )
        self._age += 1
        self._pulled = torch.where(pulls.any(1), self._age, self._pulled)
        opens = (self._pulled >= 0) & (self._age == self._pulled + DELAY)
        over = opens | ((self._pulled < 0) & (self._age == TIME)) | ~(self._alive & ~pulls).any(1)
        ended = self._alive & (pulls | over.unsqueeze(1))
        self._alive &= ~ended
        last = self._seen()
        self._age, self._pulled = self._age.masked_fill(over, 0), self._pulled.masked_fill(over, -1)
        self._alive |= over.unsqueeze(1)
        return {"Sacrifice": self._table(last, ended, opens.float())}

    def _seen(self) -> Tensor:
        world = torch.stack([self._age / TIME, (self._pulled >= 0).float()], 1)
        return torch.cat([world.repeat_interleave(MATES, 0), torch.eye(MATES).repeat(self.num_areas, 1)], 1)

    def _table(self, last: Tensor, ended: Tensor, earned: Tensor) -> TimeStep:
        ended = ended.flatten()
        where = ended.nonzero()[:, 0]
        nothing = torch.zeros(len(ended))
        slots = torch.zeros(len(ended), dtype=torch.int64)
        return TimeStep(
            obs=(self._seen(),),
            acting=self._alive.flatten().clone(),
            reward=nothing,
            group_reward=earned.repeat_interleave(MATES) * ended,
            terminated=ended,
            truncated=torch.zeros_like(ended),
            final_obs=FinalObs(where, (last[where],)),
            action_mask=None,
            area=self._area,
            team=slots,
            group=self._area,
        )

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Tensor]:
        return {"age": self._age.clone(), "pulled": self._pulled.clone(), "alive": self._alive.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._age, self._pulled, self._alive = (state[name].clone() for name in ("age", "pulled", "alive"))

    def render(self, area: int) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to free."""
