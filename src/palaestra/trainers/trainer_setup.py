"""Set-up and saved state that PPO, MA-POCA, SAC and behavioral cloning share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import keep_freed_memory
from palaestra.models.actor_critic import ActorCritic
from palaestra.parallel.rank_group import RankGroup
from palaestra.rewards.signals import EXTRINSIC
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import POCASettings, PPOSettings

Network = TypeVar("Network", bound=nn.Module)


def seeded_network(
    make: Callable[[BehaviorSpec, BehaviorSettings], Network],
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    device: torch.device,
    seed: int,
) -> Network:
    """Returns a trainer's new network on its device, with weights of this seed."""
    keep_freed_memory()
    torch.manual_seed(seed)
    return make(spec, settings).to(device)


@torch.no_grad()
def initialized(network: ActorCritic, values: nn.Linear, settings: BehaviorSettings) -> ActorCritic:
    """Returns a new network with random values for learned rewards, from its layer `values`, and the settings' standard
    deviation of continuous actions.

    Before a learned signal pays, a policy that follows a random value explores further than one that follows none;
    values of the environment's reward start at 0.
    """
    hyper = settings.hyperparameters
    assert isinstance(hyper, PPOSettings | POCASettings)
    for row, name in zip(values.weight, settings.reward_signals, strict=True):
        if name != EXTRINSIC:
            nn.init.xavier_uniform_(row.unsqueeze(0))
    network.log_std.fill_(math.log(hyper.initial_deviation))
    return network


def seeded_generator(device: torch.device | str, seed: int, group: RankGroup) -> torch.Generator:
    """Returns a random stream of this seed that is another on every rank."""
    return torch.Generator(device).manual_seed(group.own_seed(seed))


class Parts:
    """Everything that a trainer's next decision and update depend on, by the names that it has in checkpoints.

    A part is a random generator or has `state_dict` and `load_state_dict`; parts that are None are left out.
    """

    def __init__(self, **parts: Any) -> None:
        self._parts = {name: part for name, part in parts.items() if part is not None}

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """Returns the random streams among them."""
        return {name: part for name, part in self._parts.items() if isinstance(part, torch.Generator)}

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of each part."""
        return {
            name: part.get_state() if isinstance(part, torch.Generator) else dict(part.state_dict())
            for name, part in self._parts.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores each part, so that training goes on with the same digits."""
        for name, part in self._parts.items():
            if isinstance(part, torch.Generator):
                part.set_state(state[name].cpu())
            elif name in state or name != "behavioral_cloning":  # it may have been added to the settings since
                part.load_state_dict(state[name])
