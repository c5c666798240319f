"""A game for one agent that asks for the sign of what it sees: the smallest task in which encoders must learn
something.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep

STEP, PENALTY, PRIZE = 0.2, 0.01, 1.06
"""Longest stride, cost of each decision that does not end the episode, and what the right end pays: 1.02 is the best
return.
"""
SHAPES = {"vector": (1,), "entities": (10, 5), "image": (3, 20, 20)}


class Signs:
    """Every number that the agent sees is the episode's sign; it walks from 0 to -1 or 1, and is paid for the end with
    that sign.

    Of several action components, numbers or branches of two choices, each walks on a line of its own; the episode ends
    when all have arrived. With `shown` the sign is seen in the first so many decisions only, then zeros.
    """

    device = torch.device("cpu")
    num_areas = 1
    parameters: Mapping[str, float] = {}

    def __init__(
        self, *seen: str, continuous: int = 1, branches: int = 0, step: float = STEP, shown: int | None = None
    ) -> None:
        obs = tuple(ObsSpec(f"{kind}{i}", SHAPES[kind]) for i, kind in enumerate(seen or ("vector",)))
        self.spec = BehaviorSpec(obs, ActionSpec(continuous, (2,) * branches), steady=True)
        self.behaviors: Mapping[str, BehaviorSpec] = {"Signs": self.spec}
        self.longest = step
        self.shown = shown
        self.random = torch.Generator()
        self.places = torch.zeros(self.spec.action.components)
        self.sign = 1.0
        self.age = 0

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.random.manual_seed(seed)
        self._begin()
        return self._table(0.0, over=False)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        action = actions["Signs"]
        stride = torch.cat([action.continuous[0], 2.0 * action.discrete[0] - 1]).clamp(-self.longest, self.longest)
        self.places = (self.places + stride).clamp(-1, 1)
        self.age = self.age + 1
        over = bool((self.places.abs() >= 1 - 1e-6).all())
        reward = PRIZE * self.sign * float(self.places.mean()) if over else -PENALTY
        last = self._observations()
        if over:
            self._begin()
        return self._table(reward, over=over, last=last)

    def right(self) -> float:
        """The sign of this episode, which is the action of a teacher."""
        return self.sign

    def _begin(self) -> None:
        self.sign = float(torch.randint(2, (), generator=self.random)) * 2 - 1
        self.places = torch.zeros_like(self.places)
        self.age = 0

    def _observations(self) -> tuple[Tensor, ...]:
        value = self.sign if self.shown is None or self.age < self.shown else 0.0
        return tuple(torch.full((1, *obs.shape), value) for obs in self.spec.obs)

    def _table(self, reward: float, *, over: bool, last: tuple[Tensor, ...] | None = None) -> dict[str, TimeStep]:
        ended = torch.tensor([over])
        none = torch.zeros(1, dtype=torch.int64)
        return {
            "Signs": TimeStep(
                obs=self._observations(),
                acting=torch.ones(1, dtype=torch.bool),
                reward=torch.tensor([reward]),
                group_reward=torch.zeros(1),
                terminated=ended,
                truncated=torch.zeros(1, dtype=torch.bool),
                final_obs=FinalObs(
                    ended.nonzero().squeeze(1), tuple(obs[ended] for obs in last or self._observations())
                ),
                action_mask=None,
                area=none,
                team=none,
                group=none - 1,
            )
        }

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        if values:
            raise EnvError(f"it has no parameters, so not {', '.join(values)}")

    def render(self, area: int) -> Any:
        raise EnvError("it has no picture")

    def state_dict(self) -> dict[str, Tensor]:
        now = torch.tensor([self.sign, self.age, *self.places])
        return {"random": self.random.get_state(), "now": now}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.random.set_state(state["random"])
        self.sign = float(state["now"][0])
        self.age = int(state["now"][1])
        self.places = state["now"][2:].clone()

    def close(self) -> None:
        pass
