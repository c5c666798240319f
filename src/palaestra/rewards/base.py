"""The contract of a reward signal; docs/guides/own-reward.md builds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.transitions import Transitions
from palaestra.rewards.settings import RewardSettings


class RewardSignal(Protocol):
    """Computes a reward from transitions, of which there are N in a batch; most do so with a network that they train.

    A key under `reward_signals` in the YAML names its class: as `package.module:Class`, or by an entry point of the
    group `palaestra.rewards`.
    """

    Settings: ClassVar[type[RewardSettings]]
    """Class of the settings under its name in the YAML; it inherits from `SignalSettings`."""
    ignores_ends: bool
    """Whether a terminated episode still has a value, as with rewards for novelty, which do not end with an episode."""

    def __init__(self, settings: Any, spec: BehaviorSpec, device: torch.device, seed: int) -> None:
        """`settings` are an instance of `Settings`; all random numbers come from the seed.

        A class that averages its gradients over ranks has a last parameter `group`, a `RankGroup`.
        """
        ...

    def reward(self, batch: Transitions) -> Tensor:
        """Returns each transition's reward, (N,), before it is multiplied by `strength`. Called without gradients."""
        ...

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Takes one gradient step; returns losses, each (), by their TensorBoard tags; empty without learning."""
        ...

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Takes all observations of a rollout, each (N, *shape), into the normalizer of its network, if any."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns weights, optimizer, statistics and random streams: everything that the next reward depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        ...
