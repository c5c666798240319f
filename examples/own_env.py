"""An environment of one's own: walk along a line to a target that is somewhere else each time.

    palaestra learn examples/own_env.yaml

Any class with these members is an environment: no base class, nothing to register. All areas are stepped
at once, as columns of numbers; `palaestra.testing.check_env` tells whether a class keeps the contract.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep

MOST_TICKS = 50  # an episode is truncated after these
STRIDE = 0.2  # the longest step
NEAR = 0.1  # close enough to have arrived


class Reach:
    """One agent in each area sees where it is and where the target is, both within -1..1, and says how far to walk."""

    def __init__(self, areas: int) -> None:
        self.device = torch.device("cpu")
        self.num_areas = areas
        self.behaviors = {"Reach": BehaviorSpec((ObsSpec("places", (2,)),), ActionSpec(continuous=1), steady=True)}
        self.parameters: Mapping[str, float] = {}
        self.random = torch.Generator()

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts every area anew; the same seed gives the same stream."""
        self.random.manual_seed(seed)
        self.places = self.start()
        self.age = torch.zeros(self.num_areas, dtype=torch.int64)
        nobody = torch.zeros(self.num_areas, dtype=torch.bool)
        return self.table(self.places, torch.zeros(self.num_areas), nobody, nobody)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Steps every area by one tick."""
        position, target = self.places.unbind(1)
        position = (position + STRIDE * actions["Reach"].continuous[:, 0].clamp(-1, 1)).clamp(-1, 1)
        last = torch.stack([position, target], 1)
        self.age = self.age + 1
        arrived = (position - target).abs() < NEAR
        late = (self.age >= MOST_TICKS) & ~arrived
        over = arrived | late
        self.places = torch.where(
            over[:, None], self.start(), last
        )  # an episode that ends starts again on the same tick
        self.age = torch.where(over, 0, self.age)
        return self.table(last, torch.where(arrived, 1.0, -0.02), arrived, late)

    def start(self) -> Tensor:
        """Draws (areas, 2) places of agent and target, for an episode that starts."""
        return 2 * torch.rand(self.num_areas, 2, generator=self.random) - 1

    def table(self, last: Tensor, reward: Tensor, terminated: Tensor, truncated: Tensor) -> dict[str, TimeStep]:
        """Returns what the agents see and earn now, a row for each area; `last` is what they saw where it ended."""
        areas = torch.arange(self.num_areas)
        ended = (terminated | truncated).nonzero()[:, 0]
        step = TimeStep(
            obs=(self.places,),
            acting=torch.ones_like(terminated),
            reward=reward,
            group_reward=torch.zeros_like(reward),
            terminated=terminated,
            truncated=truncated,
            final_obs=FinalObs(ended, (last[ended],)),  # what the ended episodes saw last
            action_mask=None,
            area=areas,
            team=torch.zeros_like(areas),
            group=torch.full_like(areas, -1),
        )
        return {"Reach": step}

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets what a curriculum may vary; here there is nothing."""
        if values:
            raise EnvError(f"Reach has no parameters; got {', '.join(values)}")

    def render(self, area: int) -> None:
        """Returns a picture of one area, (height, width, 3) uint8, where there is one."""
        raise EnvError("Reach draws no pictures")

    def state_dict(self) -> dict[str, Tensor]:
        """Returns everything that decides what comes next, so that a run can be resumed exactly."""
        return {"places": self.places, "age": self.age, "random": self.random.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores a saved state."""
        self.places = state["places"]
        self.age = state["age"]
        self.random.set_state(state["random"])

    def close(self) -> None:
        """Frees what it holds: nothing."""


def make(areas: int = 64) -> Reach:
    """Makes the environment for `python:examples.own_env:make`; takes further options as further arguments."""
    return Reach(areas)
