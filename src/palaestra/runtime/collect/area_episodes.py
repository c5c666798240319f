"""Where an area's episode is over: all who played in it have ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.timestep import TimeStep


class AreaEpisodes:
    """Follows every table of an environment. An agent that ends while others of its area go on does not begin the area's next episode."""

    def __init__(self, areas: int) -> None:
        self.areas = areas
        self._living: dict[str, Tensor] = {}
        """(S,) of each behavior: whose episode goes on."""
        self.going: dict[str, Tensor] = {}
        """(S,) of each behavior: who was there before the last tables and has not ended with them."""

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """The first tables after a reset."""
        self._living = {name: step.acting.clone() for name, step in steps.items()}

    def over(self, steps: Mapping[str, TimeStep]) -> Tensor | None:
        """(areas,) bool: whose episode these tables end, so that those who act there now begin the next. None: no area's.

        On an accelerator, where finding out would mean waiting, there always is a column. Takes each tick's tables once.
        """
        if all(_quiet(step) for step in steps.values()):
            self.going = {name: self._widened(name, step) for name, step in steps.items()}
            self._living.update((name, self.going[name] | step.acting) for name, step in steps.items())
            return None
        ended = {name: _ended(step) for name, step in steps.items()}
        self.going = {name: self._widened(name, step) & ~ended[name] for name, step in steps.items()}
        self._living.update((name, self.going[name] | step.acting) for name, step in steps.items())
        return self._over(steps, ended)

    def _over(self, steps: Mapping[str, TimeStep], ended: Mapping[str, Tensor]) -> Tensor:
        device = next(iter(steps.values())).reward.device
        some, others = torch.zeros(self.areas, device=device), torch.zeros(self.areas, device=device)
        for name, step in steps.items():
            some.index_add_(0, step.area, ended[name].float())
            others.index_add_(0, step.area, self.going[name].float())
        return (some > 0) & (others == 0)

    def _widened(self, name: str, step: TimeStep) -> Tensor:
        living = self._living.get(name)
        if living is None:
            return torch.zeros_like(step.acting)
        more = len(step.acting) - len(living)
        return living if more <= 0 else torch.cat([living, living.new_zeros(more)])

    def state_dict(self) -> dict[str, Any]:
        """Whose episodes go on."""
        return {"living": dict(self._living)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with those."""
        self._living = dict(state["living"])


def _quiet(step: TimeStep) -> bool:
    """Whether it is known that no episode ended, without looking at a column."""
    return step.reward.device.type == "cpu" and not len(step.ends.slots) and step.lost is None


def _ended(step: TimeStep) -> Tensor:
    over = step.terminated | step.truncated
    return over if step.lost is None else over | step.lost
