"""A reward signal of one's own: agents are rewarded for observations that were rare so far.

    palaestra learn examples/own_reward.yaml

Tang et al. 2017, https://arxiv.org/abs/1611.04717: observations are hashed into a table of counts, and one that was met
n times earns 1 / sqrt(n). What a reward signal must have stands in docs/guides/extend/own-reward.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.transitions import Transitions
from palaestra.rewards.settings import SignalSettings


class NoveltySettings(SignalSettings):
    """The keys under the signal's name in the YAML; gamma, strength and normalize are inherited."""

    bits: int = Field(default=12, gt=0, le=20)  # 2 to the power of this many counts


class Novelty:
    """Counts observations by the signs of random projections (SimHash): similar ones share a count."""

    Settings = NoveltySettings
    ignores_ends = True

    def __init__(self, settings: NoveltySettings, spec: BehaviorSpec, device: torch.device, seed: int) -> None:
        numbers = sum(math.prod(obs.shape) for obs in spec.obs)
        rng = torch.Generator().manual_seed(seed)
        self.directions = torch.randn(numbers, settings.bits, generator=rng).to(device)
        self.powers = 2 ** torch.arange(settings.bits, device=device)
        self.counts = torch.zeros(2**settings.bits, dtype=torch.int64, device=device)

    def codes(self, obs: tuple[Tensor, ...]) -> Tensor:
        """Returns the place in the table of each observation, (N,)."""
        joined = torch.cat([x.flatten(1) for x in obs], 1)
        return ((joined @ self.directions > 0) * self.powers).sum(1)

    def reward(self, batch: Transitions) -> Tensor:
        """Returns 1 / sqrt(n) of the observation that each action led to, (N,)."""
        return self.counts[self.codes(batch.next_obs)].clamp(min=1).to(batch.reward.dtype).rsqrt()

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Has no gradient steps to take."""
        return {}

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Counts all observations of a rollout."""
        codes = self.codes(obs)
        self.counts.index_add_(0, codes, torch.ones_like(codes))

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next reward depends on."""
        return {"directions": self.directions, "counts": self.counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self.directions.copy_(state["directions"])
        self.counts.copy_(state["counts"])
