"""An environment that shows anything and takes anything: random observations, and a reward for what is in them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep


class Anything:
    """Slots live 3 to 9 decisions, terminate or are truncated then, and with `steady=False` skip some ticks. Its state
    can be saved.

    With `mates`, so many areas in a row are a group, of which each leaves when it ends and comes back anew.
    """

    device = torch.device("cpu")
    parameters: Mapping[str, float] = {}

    def __init__(
        self, obs: tuple[ObsSpec, ...], action: ActionSpec, areas: int = 6, steady: bool = True, mates: int = 0
    ) -> None:
        self.num_areas = areas
        self.mates = mates
        self.spec = BehaviorSpec(obs, action, steady=steady)
        self.behaviors: Mapping[str, BehaviorSpec] = {"Any": self.spec}
        self.generator = torch.Generator()

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.generator.manual_seed(seed)
        self.left = torch.randint(3, 10, (self.num_areas,), generator=self.generator)
        never = torch.zeros(self.num_areas, dtype=torch.bool)
        return {"Any": self._table(torch.zeros(self.num_areas), never, ~never)}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        reward = torch.zeros(self.num_areas)
        if "Any" in actions:  # nobody acted otherwise
            reward = self.acted * (0.1 * actions["Any"].continuous.sum(1) + (actions["Any"].discrete == 0).sum(1))
        self.left = self.left - self.acted.long()
        ended = self.left == 0
        self.left = torch.where(ended, torch.randint(3, 10, (self.num_areas,), generator=self.generator), self.left)
        acting = (
            torch.ones_like(ended) if self.spec.steady else torch.rand(self.num_areas, generator=self.generator) < 0.7
        )
        return {"Any": self._table(reward.float(), ended, acting)}

    def _table(self, reward: Tensor, ended: Tensor, acting: Tensor) -> TimeStep:
        truncated = ended & (torch.rand(self.num_areas, generator=self.generator) < 0.5)
        rows = torch.arange(self.num_areas)
        self.acted = acting
        where = ended.nonzero().squeeze(1)
        return TimeStep(
            obs=self._observations(self.num_areas),
            acting=acting,
            reward=reward,
            group_reward=torch.full_like(reward, 0.1 if self.mates else 0.0),
            terminated=ended & ~truncated,
            truncated=truncated,
            final_obs=FinalObs(where, self._observations(len(where))),
            action_mask=self._mask(),
            area=rows,
            team=torch.zeros_like(rows),
            group=rows // self.mates if self.mates else torch.full_like(rows, -1),
        )

    def _observations(self, rows: int) -> tuple[Tensor, ...]:
        """Of entities none to all are there."""
        observations = []
        for obs in self.spec.obs:
            values = torch.rand(rows, *obs.shape, generator=self.generator)
            if obs.is_entities:
                count = torch.randint(obs.shape[0] + 1, (rows, 1), generator=self.generator)
                values = values * (count > torch.arange(obs.shape[0])).unsqueeze(2)
            observations.append(values)
        return tuple(observations)

    def _mask(self) -> Tensor | None:
        if not self.spec.action.branches:
            return None
        mask = torch.rand(self.num_areas, self.spec.action.choices, generator=self.generator) < 0.7
        firsts = torch.tensor([0, *self.spec.action.branches[:-1]]).cumsum(0)
        mask[:, firsts] = True
        return mask

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        if values:
            raise EnvError(f"it has no parameters, so not {', '.join(values)}")

    def render(self, area: int) -> Any:
        raise EnvError("it has no picture")

    def state_dict(self) -> dict[str, Tensor]:
        return {"generator": self.generator.get_state(), "left": self.left, "acted": self.acted}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.generator.set_state(state["generator"])
        self.left = state["left"].clone()
        self.acted = state["acted"].clone()

    def close(self) -> None:
        pass
