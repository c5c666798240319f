"""Curiosity: rewards the prediction error of a forward model. Pathak et al. 2017, https://arxiv.org/abs/1705.05363."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.transitions import Transitions
from palaestra.models.settings import NetworkSettings
from palaestra.models.trunk import Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.settings import CuriositySettings
from palaestra.rewards.signal_optimizer import SignalOptimizer, flat, of_signal

HIDDEN = 256
"""Width of the hidden layer of the forward and the inverse model."""
FORWARD_SHARE, LOSS_SCALE = 0.2, 10.0
"""beta of eq. 7, and the factor on both losses, as in the paper and in ML-Agents."""


class CuriosityModel(nn.Module):
    """Features phi of an observation, trained with the inverse model so that they distinguish actions."""

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings) -> None:
        super().__init__()
        self.trunk = Trunk(spec, of_signal(settings), 1)
        self.action = spec.action
        numbers = spec.action.continuous + spec.action.choices
        width = self.trunk.width
        self.inverse = nn.Sequential(nn.Linear(2 * width, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, numbers))
        self.forward_model = nn.Sequential(nn.Linear(width + numbers, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, width))

    def features(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        """Returns phi of the observations before and after, each (N, width), from one pass."""
        obs = tuple(torch.cat(pair) for pair in zip(batch.obs, batch.next_obs, strict=True))
        now, after = self.trunk.features(0, self.trunk.prepare(obs)).chunk(2)
        return now, after

    def surprise(self, now: Tensor, after: Tensor, action: Action) -> Tensor:
        """Returns half the squared distance (N,) between the next features and the forward model's prediction of them,
        eq. 5."""
        expected = self.forward_model(torch.cat([now, flat(action, self.action)], 1))
        return 0.5 * (after - expected).square().sum(1)

    def inverse_loss(self, now: Tensor, after: Tensor, action: Action) -> Tensor:
        """Returns the loss (N,) of guessing the action from both observations: squared error and cross-entropy."""
        guess = self.inverse(torch.cat([now, after], 1))
        n = self.action.continuous
        loss = (guess[:, :n] - action.continuous).square().sum(1)
        for i, logits in enumerate(guess[:, n:].split(self.action.branches, 1) if self.action.branches else ()):
            loss = loss + functional.cross_entropy(logits, action.discrete[:, i], reduction="none")
        return loss


class Curiosity:
    """Rewards surprise: at most 1 per decision after multiplication by `strength`, 0 before the first gradient step."""

    Settings = CuriositySettings
    ignores_ends = True

    def __init__(
        self, settings: CuriositySettings, spec: BehaviorSpec, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        self.limit = 1 / settings.strength if settings.strength > 0 else float("inf")
        self.optimizer = SignalOptimizer(
            lambda: CuriosityModel(spec, settings.network_settings), device, settings.learning_rate, seed, group
        )
        self.model = self.optimizer.network
        self._group = group
        self._has_learned = False

    def reward(self, batch: Transitions) -> Tensor:
        """Returns the surprise (N,), at most 1 / strength."""
        if not self._has_learned:
            return torch.zeros_like(batch.reward)
        return self.model.surprise(*self.model.features(batch), batch.action).clamp(max=self.limit)

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Takes a gradient step on features and both models; returns their losses."""
        now, after = self.model.features(batch)
        forward = self.model.surprise(now, after, batch.action).mean()
        inverse = self.model.inverse_loss(now, after, batch.action).mean()
        loss = LOSS_SCALE * (FORWARD_SHARE * forward + (1 - FORWARD_SHARE) * inverse)
        self.optimizer.step(loss, len(batch))
        self._has_learned = True
        return {"Losses/Curiosity Forward Loss": forward.detach(), "Losses/Curiosity Inverse Loss": inverse.detach()}

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Adds all observations of a rollout to the normalizer, if there is one."""
        self.model.trunk.learn_statistics(tuple(obs[i] for i in self.model.trunk.vectors), self._group)

    def state_dict(self) -> dict[str, Any]:
        """Returns weights, optimizer, statistics, and whether it gives rewards yet."""
        return {**self.optimizer.state_dict(), "has_learned": self._has_learned}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self.optimizer.load_state_dict(state)
        self._has_learned = state["has_learned"]
