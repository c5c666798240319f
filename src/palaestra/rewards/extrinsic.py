"""The reward that the environment gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.data.rollout import Rollout
from palaestra.rewards.settings import ExtrinsicSettings


class Extrinsic:
    """An agent's own reward and its group's share, times `strength`."""

    name = "extrinsic"
    ignores_ends = False
    """Whether a terminated episode is still worth something (curiosity is)."""

    def __init__(self, settings: ExtrinsicSettings) -> None:
        self.gamma, self.strength = settings.gamma, settings.strength
        self._scale = ReturnScale(settings.gamma) if settings.normalize else None

    def __call__(self, rollout: Rollout) -> Tensor:
        """Rewards (T, S)."""
        reward = rollout.reward + rollout.group_reward
        if self._scale is not None:
            reward = self._scale(reward, rollout.terminated | rollout.truncated, rollout.lengths)
        return reward * self.strength

    def state_dict(self) -> dict[str, Any]:
        """Statistics of the normalized signal; nothing otherwise."""
        return {} if self._scale is None else self._scale.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Statistics as they were."""
        if self._scale is not None:
            self._scale.load_state_dict(state)


class ReturnScale:
    """Divides rewards by the standard deviation of discounted returns so far.

    Engstrom et al. 2020, https://arxiv.org/abs/2005.12729, section 3 (reward scaling). The mean
    is kept: subtracting it would change which episode length is best.
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self._running = torch.zeros(0)
        self._count, self._mean, self._m2 = 0.0, 0.0, 0.0

    def __call__(self, reward: Tensor, ended: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Takes the rewards (T, S) in, then scales them. `lengths` (S,): how many rows of each slot count; None: all."""
        returns, running = torch.empty_like(reward), self._open_returns(reward)
        counted = None if lengths is None else torch.arange(len(reward), device=reward.device).unsqueeze(1) < lengths
        for t, (out, now, end) in enumerate(zip(returns, reward, ended, strict=True)):
            torch.add(now, running, alpha=self.gamma, out=out)
            going_on = out * ~end
            running = going_on if counted is None else torch.where(counted[t], going_on, running)
        self._running = running.clone()
        self._take_in((returns if counted is None else returns[counted]).double())
        return reward / max((self._m2 / max(self._count, 1.0)) ** 0.5, 1e-8)

    def _open_returns(self, reward: Tensor) -> Tensor:
        """Returns so far of the episodes that go on, (S,): 0 in slots that are new."""
        running, slots = self._running.to(reward), reward.shape[1]
        if len(running) > slots:  # other areas than before
            return torch.zeros_like(reward[0])
        return torch.cat([running, running.new_zeros(slots - len(running))])

    def _take_in(self, returns: Tensor) -> None:
        mean, rows = float(returns.mean()), returns.numel()
        delta, total = mean - self._mean, self._count + rows
        self._m2 += float((returns - mean).square().sum()) + delta * delta * self._count * rows / total
        self._mean += delta * rows / total
        self._count = total

    def state_dict(self) -> dict[str, Any]:
        """Sums and open returns."""
        return {"running": self._running, "count": self._count, "mean": self._mean, "m2": self._m2}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sums and open returns as they were."""
        self._running, self._count, self._mean, self._m2 = state["running"].clone(), state["count"], state["mean"], state["m2"]
