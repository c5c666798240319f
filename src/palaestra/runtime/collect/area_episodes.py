"""Finds out when the episodes of whole areas are over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.timestep import TimeStep


class AreaEpisodes:
    """Finds out when the episode of an area is over, that is, when the episodes of all its agents have ended."""

    def __init__(self, areas: int) -> None:
        self.areas = areas
        self._living: dict[str, Tensor] = {}
        """By behavior, the slots (S,) whose episode goes on."""
        self.going: dict[str, Tensor] = {}
        """By behavior, the slots (S,) whose agents were there before the last tables and whose episodes did not end in
        these tables."""

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Starts with the first tables after a reset."""
        self._living = {name: step.acting.clone() for name, step in steps.items()}

    def over(self, steps: Mapping[str, TimeStep]) -> Tensor | None:
        """Returns the areas (areas,) whose episode these tables end; agents that act in these areas start the next
        episode. None: no area's.

        On an accelerator, where the check would wait for the device, the result is always a column. Must get the tables
        of each tick once.
        """
        quiet = all(_quiet(step) for step in steps.values())
        ended = {} if quiet else {name: _ended(step) for name, step in steps.items()}
        self.going = {name: self._widened(name, step) for name, step in steps.items()}
        self.going |= {name: self.going[name] & ~column for name, column in ended.items()}
        self._living.update((name, self.going[name] | step.acting) for name, step in steps.items())
        return None if quiet else self._over(steps, ended)

    def _over(self, steps: Mapping[str, TimeStep], ended: Mapping[str, Tensor]) -> Tensor:
        device = next(iter(steps.values())).reward.device
        some = torch.zeros(self.areas, device=device)
        others = torch.zeros(self.areas, device=device)
        for name, step in steps.items():
            some.index_add_(0, step.area, ended[name].float())
            others.index_add_(0, step.area, self.going[name].float())
        return (some > 0) & (others == 0)

    def _widened(self, name: str, step: TimeStep) -> Tensor:
        living = self._living.get(name, step.acting[:0])
        living = living.to(step.acting.device)  # those of a checkpoint come on the CPU
        more = len(step.acting) - len(living)
        return living if more <= 0 else torch.cat([living, living.new_zeros(more)])

    def state_dict(self) -> dict[str, Any]:
        """Returns which episodes are unfinished."""
        return {"living": dict(self._living)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores which episodes are unfinished."""
        self._living = dict(state["living"])


def _quiet(step: TimeStep) -> bool:
    """Whether no episode ended, as far as that is known without reading a column."""
    return step.reward.device.type == "cpu" and not len(step.final_obs.slots) and step.lost is None


def _ended(step: TimeStep) -> Tensor:
    over = step.terminated | step.truncated
    return over if step.lost is None else over | step.lost
