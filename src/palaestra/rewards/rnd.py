"""Random network distillation: rewards rarely seen observations. Burda et al. 2018,
https://arxiv.org/abs/1810.12894."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.transitions import Transitions
from palaestra.models.trunk import Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.settings import RNDSettings
from palaestra.rewards.signal_optimizer import SignalOptimizer, of_signal, seeded


class RND:
    """Rewards the error of a network that learns the output of a fixed random one for the same observation.

    The error falls for observations that come often. The paper scales vector observations to unit variance, within ±5,
    before either network sees them, as numbers of large range would drown the others: `network_settings.normalize`
    does. It also scales the reward by the deviation of its returns: here the signal's own `normalize` does this. As in
    ML-Agents, and unlike the paper, the error is computed for the observation before an action, not after it.
    """

    Settings = RNDSettings
    ignores_ends = True

    def __init__(
        self, settings: RNDSettings, spec: BehaviorSpec, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        shape = of_signal(settings.network_settings)
        self.optimizer = SignalOptimizer(lambda: Trunk(spec, shape, 1), device, settings.learning_rate, seed, group)
        self.predictor = self.optimizer.network
        self._group = group
        without = shape.model_copy(update={"normalize": False})  # it gets what the predictor prepared
        self.target = seeded(lambda: Trunk(spec, without, 1), seed + 1).to(device).requires_grad_(False)

    def reward(self, batch: Transitions) -> Tensor:
        """Returns the squared error (N,), summed over the features."""
        inputs = self.predictor.prepare(batch.obs)
        return (self.predictor.features(0, inputs) - self.target.features(0, inputs)).square().sum(1)

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Takes a gradient step with the predictor; returns the mean error."""
        loss = self.reward(batch).mean()
        self.optimizer.step(loss, len(batch))
        return {"Losses/RND Loss": loss.detach()}

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Adds all observations of a rollout to the normalizer, if there is one."""
        self.predictor.learn_statistics(tuple(obs[i] for i in self.predictor.vectors), self._group)

    def state_dict(self) -> dict[str, Any]:
        """Returns both networks' weights, the optimizer and the statistics."""
        return {**self.optimizer.state_dict(), "target": dict(self.target.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self.optimizer.load_state_dict(state)
        self.target.load_state_dict(state["target"])
