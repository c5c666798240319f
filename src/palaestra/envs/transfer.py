"""Connects an environment on the CPU to a policy on an accelerator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.metrics import Measurement
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.base import AsyncEnv, BehaviorFacts, Env, Interruptible, Measures, RunAware, TrainingFacts


class Transfer:
    """Wraps an environment: moves its tables to another device and actions back. Each tick waits for that device
    once.
    """

    def __init__(self, env: Env, device: torch.device) -> None:
        self._env = env
        self.device = device
        self._async_env = env if isinstance(env, AsyncEnv) else None
        self._actions: Mapping[str, Action] = {}
        """Actions of a tick that an environment that is not asynchronous makes when its tables are asked for."""
        self.wrapped = env
        """The wrapped environment."""
        self.num_areas: int = env.num_areas
        self.parameters: Mapping[str, float] = env.parameters

    @property
    def behaviors(self) -> Mapping[str, BehaviorSpec]:
        """The environment's behaviors, which may gain names."""
        return self._env.behaviors

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets the environment."""
        return {name: to_device(step, self.device) for name, step in self._env.reset(seed).items()}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Steps the environment."""
        self.send(actions)
        return self.receive()

    def send(self, actions: Mapping[str, Action]) -> None:
        """Starts a tick, if the environment is asynchronous."""
        there = self._env.device
        self._actions = {name: Action(a.continuous.to(there), a.discrete.to(there)) for name, a in actions.items()}
        if self._async_env is not None:
            self._async_env.send(self._actions)

    def receive(self) -> dict[str, TimeStep]:
        """Waits for the tick and returns its tables."""
        steps = self._env.step(self._actions) if self._async_env is None else self._async_env.receive()
        return {name: to_device(step, self.device) for name, step in steps.items()}

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets the environment's parameters."""
        there = self._env.device
        self._env.set_parameters({name: value.to(there) for name, value in values.items()})

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns the actions of the environment's heuristic, on its own device; None if it has none."""
        ask = getattr(self._env, "heuristic", None)
        return None if ask is None else ask(behavior, slots)

    def render(self, area: int) -> np.ndarray:
        """Returns an image of one area."""
        return self._env.render(area)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the environment's state."""
        return self._env.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores the environment's state."""
        self._env.load_state_dict(state)

    def take_measurements(self) -> list[Measurement]:
        """Returns the environment's measurements, if it has any."""
        return self._env.take_measurements() if isinstance(self._env, Measures) else []

    def training_starts(self, facts: TrainingFacts) -> None:
        """Passes the facts to an environment that accepts them."""
        if isinstance(self._env, RunAware):
            self._env.training_starts(facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Passes the facts to an environment that accepts them."""
        if isinstance(self._env, RunAware):
            self._env.behavior_joins(facts)

    def interrupt(self) -> None:
        """Interrupts the environment, if it supports that."""
        if isinstance(self._env, Interruptible):
            self._env.interrupt()

    def abandon(self) -> None:
        """Ends the environment's processes, if it has any."""
        if isinstance(self._env, Interruptible):
            self._env.abandon()

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()


def to_device(step: TimeStep, device: torch.device) -> TimeStep:
    """Moves a table to a device. Its final observations get a row for every slot, as on accelerators."""
    finals = tuple(
        now.index_copy(0, step.final_obs.slots, last) for now, last in zip(step.obs, step.final_obs.obs, strict=True)
    )
    slots = torch.arange(len(step.reward), device=device)
    return TimeStep(
        obs=tuple(x.to(device) for x in step.obs),
        acting=step.acting.to(device),
        reward=step.reward.to(device),
        group_reward=step.group_reward.to(device),
        terminated=step.terminated.to(device),
        truncated=step.truncated.to(device),
        final_obs=FinalObs(slots, tuple(x.to(device) for x in finals)),
        action_mask=None if step.action_mask is None else step.action_mask.to(device),
        area=step.area.to(device),
        team=step.team.to(device),
        group=step.group.to(device),
        lost=None if step.lost is None else step.lost.to(device),
        success=None if step.success is None else step.success.to(device),
    )
