"""The contract of a trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from palaestra.core.metrics import Metrics
from palaestra.data.rollout import Rollout
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.policy import Policy


class Trainer(Protocol):
    """Improves the policy of one behavior. Constructed as Trainer(spec, settings, device, seed)."""

    network: ActorCritic
    policy: Policy
    rollout_size: int
    """Decisions that a rollout has when `update` is due."""

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Learns from a rollout; `step` counts the behavior's decisions so far, for schedules. Metrics bear TensorBoard tags."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer, statistics, random streams: all that the next update depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a saved state."""
        ...
