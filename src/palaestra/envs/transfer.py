"""Connects an environment on the CPU to a policy on an accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.base import Env
from palaestra.envs.wrapper import EnvWrapper


class Transfer(EnvWrapper):
    """Moves an environment's tables to another device and actions back. Each tick waits once for that device."""

    def __init__(self, env: Env, device: torch.device) -> None:
        super().__init__(env)
        self.device = device

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets the environment."""
        return self._moved(super().reset(seed))

    def send(self, actions: Mapping[str, Action]) -> None:
        """Starts a tick."""
        there = self._env.device
        super().send({name: Action(a.continuous.to(there), a.discrete.to(there)) for name, a in actions.items()})

    def receive(self) -> dict[str, TimeStep]:
        """Waits for the tick and returns its tables."""
        return self._moved(super().receive())

    def step_arrays(self, arrays: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, TimeStep] | None:
        """Makes a tick with actions on the host."""
        steps = super().step_arrays(arrays)
        return None if steps is None else self._moved(steps)

    @property
    def host_ticks(self) -> None:
        """Returns None, because the tables are on another device."""

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets the environment's parameters."""
        super().set_parameters(self._moved_back(values))

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets the parameters of the environment's next episodes."""
        super().queue_parameters(self._moved_back(values))

    def _moved(self, steps: Mapping[str, TimeStep]) -> dict[str, TimeStep]:
        return {name: to_device(step, self.device) for name, step in steps.items()}

    def _moved_back(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: value.to(self._env.device) for name, value in values.items()}


def to_device(step: TimeStep, device: torch.device) -> TimeStep:
    """Moves a table to a device. As on accelerators, final observations get a row for every slot."""
    obs = tuple([column.to(device) for column in step.obs])
    finals = obs
    if len(step.final_obs.slots):
        ended = step.final_obs.slots.to(device)
        finals = tuple(
            [now.index_copy(0, ended, last.to(device)) for now, last in zip(obs, step.final_obs.obs, strict=True)]
        )
    return TimeStep(
        obs=obs,
        acting=step.acting.to(device),
        reward=step.reward.to(device),
        group_reward=step.group_reward.to(device),
        terminated=step.terminated.to(device),
        truncated=step.truncated.to(device),
        final_obs=FinalObs(torch.arange(len(step.reward), device=device), finals),
        action_mask=None if step.action_mask is None else step.action_mask.to(device),
        area=step.area.to(device),
        team=step.team.to(device),
        group=step.group.to(device),
        lost=None if step.lost is None else step.lost.to(device),
        success=None if step.success is None else step.success.to(device),
    )
