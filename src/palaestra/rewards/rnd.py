"""Random network distillation: what was rarely seen is worth seeing. Burda et al. 2018, https://arxiv.org/abs/1810.12894."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Transitions
from palaestra.models.trunk import Trunk
from palaestra.rewards.settings import RNDSettings
from palaestra.rewards.signal_optimizer import SignalOptimizer, of_signal, seeded


class RND:
    """Pays the error of a network that learns what a fixed random one says of the same observation.

    The error falls where the network is asked often. The paper scales vector observations to unit variance, within
    ±5, before either network sees them, as numbers of large range would drown the others: `network_settings.normalize`
    does. It scales the reward by its returns' deviation: the signal's own `normalize` does. Like ML-Agents,
    and unlike the paper, what is judged is the view an action was taken in, not the one it led to.
    """

    Settings = RNDSettings
    ignores_ends = True

    def __init__(self, settings: RNDSettings, spec: BehaviorSpec, device: torch.device, seed: int) -> None:
        shape = of_signal(settings.network_settings)
        self.descent = SignalOptimizer(lambda: Trunk(spec, shape, 1), device, settings.learning_rate, seed)
        self.predictor = self.descent.network
        without = shape.model_copy(update={"normalize": False})  # it gets what the predictor prepared
        self.target = seeded(lambda: Trunk(spec, without, 1), seed + 1).to(device).requires_grad_(False)

    def reward(self, batch: Transitions) -> Tensor:
        """The squared error (N,), summed over the features."""
        inputs = self.predictor.prepare(batch.obs)
        return (self.predictor.features(0, inputs) - self.target.features(0, inputs)).square().sum(1)

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """A step of the predictor; the mean error."""
        loss = self.reward(batch).mean()
        self.descent.step(loss)
        return {"Losses/RND Loss": loss.detach()}

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Takes all observations of a rollout into the normalizer, where there is one."""
        self.predictor.learn_statistics(tuple(obs[i] for i in self.predictor.vectors))

    def state_dict(self) -> dict[str, Any]:
        """Both networks' weights, the optimizer and the statistics."""
        return {**self.descent.state_dict(), "target": dict(self.target.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self.descent.load_state_dict(state)
        self.target.load_state_dict(state["target"])
