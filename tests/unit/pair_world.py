"""A small world that has whatever a run may meet: teams or groups, masks, one observation or two, parameters, and a
behavior that comes late. It can be saved.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.transfer import Transfer

CPU = torch.device("cpu")
MATES = 2
LENGTH = 6
"""Ticks of an episode in the first area; in each further one it is one more."""


def make(
    areas: int = 4,
    wrapped: bool = False,
    late: int = 0,
    teams: bool = False,
    groups: bool = False,
    masks: bool = False,
    two_obs: bool = False,
) -> Any:
    """`wrapped`: as an environment on the CPU is whose policy is on an accelerator. The rest: as for the world."""
    world = PairWorld(areas, late, teams, groups, masks, two_obs)
    return Transfer(world, CPU) if wrapped else world


class PairWorld:
    """Two agents an area walk on a line and are paid for being near its middle."""

    device = CPU

    def __init__(
        self,
        areas: int = 4,
        late: int = 0,
        teams: bool = False,
        groups: bool = False,
        masks: bool = False,
        two_obs: bool = False,
    ) -> None:
        """`late`: the tick at which the behavior 'Late' appears; 0: never."""
        self.num_areas = areas
        self.late = late
        self.teams = teams
        self.groups = groups
        self.masks = masks
        obs = (ObsSpec("place", (3,)), *([ObsSpec("more", (2,))] if two_obs else []))
        self.spec = BehaviorSpec(obs, ActionSpec(1, (3,)), steady=not groups)
        self.behaviors: Mapping[str, BehaviorSpec] = {"Main": self.spec}
        self.parameters: Mapping[str, float] = {"width": 1.0}
        self.random = torch.Generator()
        self.tick = 0
        self.width = torch.ones(areas)
        self.pending = torch.ones(areas)
        self.place = torch.zeros(areas * MATES)
        self.clock = torch.zeros(areas, dtype=torch.int64)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.random.manual_seed(seed)
        self.tick = 0
        self.clock.zero_()
        self._begin(torch.ones(self.num_areas, dtype=torch.bool))
        return self._tables(torch.zeros_like(self.place), torch.zeros(self.num_areas, dtype=torch.bool), self.place)

    def _begin(self, areas: Tensor) -> None:
        self.width = torch.where(areas, self.pending, self.width)
        drawn = torch.rand(len(self.place), generator=self.random) * 2 - 1
        agents = areas.repeat_interleave(MATES)
        self.place = torch.where(agents, drawn * self.width.repeat_interleave(MATES), self.place)
        self.clock = torch.where(areas, 0, self.clock)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        self.tick += 1
        main = actions["Main"]
        moved = 0.1 * (main.discrete[:, 0] - 1) + 0.1 * main.continuous[:, 0].clamp(-1, 1)
        self.place = (self.place + moved).clamp(-2, 2)
        self.clock = self.clock + 1
        over = self.clock >= LENGTH + torch.arange(self.num_areas)
        reward = 0.1 - 0.1 * self.place.abs()
        if self.teams:
            nearer = self.place.abs().view(-1, MATES)
            won = torch.sign(nearer.flip(1) - nearer).flatten()
            reward = torch.where(over.repeat_interleave(MATES), won, torch.zeros_like(won))
        last = self.place.clone()
        self._begin(over)
        return self._tables(reward, over, last)

    def _obs(self, place: Tensor) -> tuple[Tensor, ...]:
        time = self.clock.repeat_interleave(MATES) / 10
        first = torch.stack([place, place.abs(), time.float()], 1)
        return (first, torch.stack([place**2, time.float()], 1))[: len(self.spec.obs)]

    def _tables(self, reward: Tensor, over: Tensor, last: Tensor) -> dict[str, TimeStep]:
        slots = torch.arange(len(self.place))
        ended = over.repeat_interleave(MATES)
        at = ended.nonzero().squeeze(1)
        mask = None
        if self.masks:
            mask = torch.ones(len(slots), 3, dtype=torch.bool)
            mask[:, 0] = self.place > -1
            mask[:, 2] = self.place < 1
        shared = reward.view(-1, MATES).sum(1).repeat_interleave(MATES)
        table = TimeStep(
            obs=self._obs(self.place),
            acting=torch.ones(len(slots), dtype=torch.bool),
            reward=torch.zeros_like(reward) if self.groups else reward,
            group_reward=shared if self.groups else torch.zeros_like(reward),
            terminated=ended,
            truncated=torch.zeros_like(ended),
            final_obs=FinalObs(at, tuple(x[at] for x in self._obs(last))),
            action_mask=mask,
            area=slots // MATES,
            team=slots % MATES if self.teams else torch.zeros_like(slots),
            group=slots // MATES + self.tick // 1000 if self.groups else torch.full_like(slots, -1),
        )
        shown = ["Main", *(["Late"] if 0 < self.late <= self.tick else [])]
        self.behaviors = {**self.behaviors, **dict.fromkeys(shown, self.spec)}
        return dict.fromkeys(shown, table)

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            if name != "width":
                raise EnvError(f"PairWorld has no parameter '{name}'")
            self.pending = value.cpu().clone()

    def render(self, area: int) -> Any:
        raise EnvError("PairWorld has no picture")

    def state_dict(self) -> dict[str, Tensor]:
        columns = {"width": self.width, "pending": self.pending, "place": self.place, "clock": self.clock}
        return {**columns, "tick": torch.tensor(self.tick), "random": self.random.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for name in ("width", "pending", "place", "clock"):
            setattr(self, name, state[name].clone())
        self.tick = int(state["tick"])
        self.random.set_state(state["random"])

    def close(self) -> None:
        pass
