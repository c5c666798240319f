"""Sums of rewards over episodes: to normalize rewards, and for metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.data.rollout import Rollout
from palaestra.parallel.rank_group import ALONE, RankGroup

LEAST_SPREAD = 0.01
"""Smallest standard deviation that is used, as a share of the returns' root mean square."""


class ReturnScale:
    """Divides rewards by the standard deviation of discounted returns so far.

    Engstrom et al. 2020, https://arxiv.org/abs/2005.12729, section 3 (reward scaling). The mean is not subtracted:
    subtracting it would change which episode length is best. While returns hardly differ, rewards are divided by the
    size of returns instead of their deviation: if all episodes fail in the same way at first, rewards do not become
    huge. With a `limit` no scaled return exceeds it: Kim et al. 2026, https://arxiv.org/abs/2604.04539.
    """

    def __init__(self, gamma: float, group: RankGroup = ALONE, limit: float | None = None) -> None:
        """`limit`: the largest scaled return; None: no limit."""
        self.gamma = gamma
        self.limit = limit
        self._group = group
        self._running = torch.zeros(0)
        self._count = 0.0
        self._mean = 0.0
        self._m2 = 0.0
        self._peak = 0.0  # the largest return so far, without its sign
        self._elsewhere = 0.0  # and that of prior data

    def __call__(
        self, reward: Tensor, ended: Tensor, lengths: Tensor | None = None, anew: Tensor | None = None
    ) -> Tensor:
        """Takes the rewards (T, S) in, then scales them. `lengths` (S,): how many rows of each slot count; None: all.

        `anew` (S,): slots in which no episode continues; None: every open episode continues."""
        returns = torch.empty_like(reward)
        running = self._open_returns(reward)
        if anew is not None:
            running = running.masked_fill(anew, 0.0)
        counted = None if lengths is None else torch.arange(len(reward), device=reward.device).unsqueeze(1) < lengths
        for t, (out, now, end) in enumerate(zip(returns, reward, ended, strict=True)):
            torch.add(now, running, alpha=self.gamma, out=out)
            going_on = out * ~end
            running = going_on if counted is None else torch.where(counted[t], going_on, running)
        self._running = running.clone()
        self._take_in((returns if counted is None else returns[counted]).double())
        return reward / self.deviation

    @property
    def deviation(self) -> float:
        """The number by which rewards are divided."""
        deviation = (self._m2 / max(self._count, 1.0)) ** 0.5
        size = (deviation * deviation + self._mean * self._mean) ** 0.5
        deviation = deviation if deviation > LEAST_SPREAD * size else size or 1.0
        return (
            deviation if self.limit is None else max(deviation, self._peak / self.limit, self._elsewhere / self.limit)
        )

    def reach(self, size: float) -> None:
        """With a limit, expects returns of this size, positive or negative, from prior data.

        The size is not saved: prior data are read again on resume.
        """
        self._elsewhere = max(self._elsewhere, size)

    def _open_returns(self, reward: Tensor) -> Tensor:
        """Returns the current returns of the open episodes, (S,): 0 in new slots."""
        running = self._running.to(reward)
        slots = reward.shape[1]
        if len(running) > slots:  # other areas than before
            return torch.zeros_like(reward[0])
        return torch.cat([running, running.new_zeros(slots - len(running))])

    def _take_in(self, returns: Tensor) -> None:
        own = returns.mean()
        parts = [returns.numel(), *torch.stack([own, (returns - own).square().sum(), returns.abs().max()]).tolist()]
        for rows, mean, m2, peak in self._group.gather_numbers(parts):
            self._peak = max(self._peak, peak)
            delta = mean - self._mean
            total = self._count + rows
            self._m2 += m2 + delta * delta * self._count * rows / total
            self._mean += delta * rows / total
            self._count = total

    def state_dict(self) -> dict[str, Any]:
        """Returns the sums over all returns, and the returns of unfinished episodes."""
        sums = {"count": self._count, "mean": self._mean, "m2": self._m2, "peak": self._peak}
        return {"open_returns": self._running, **sums}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self._running = state["open_returns"].clone()
        self._count = state["count"]
        self._mean = state["mean"]
        self._m2 = state["m2"]
        self._peak = state.get("peak", 0.0)


class EpisodeSums:
    """Sums a column of rewards over each episode, over any number of rollouts."""

    def __init__(self) -> None:
        self._open = torch.zeros(0)
        self._total = torch.zeros(())
        self._episodes = torch.zeros((), dtype=torch.int64)

    def add(self, reward: Tensor, rollout: Rollout) -> None:
        """Adds rewards (T, S) of the next rollout; rows without a decision must be 0."""
        time, slots = reward.shape
        ended = rollout.terminated | rollout.truncated
        if rollout.lengths is not None:
            ended = ended & (torch.arange(time, device=ended.device).unsqueeze(1) < rollout.lengths)
        still = self._open.to(reward)[:slots]
        still = torch.cat([still, still.new_zeros(slots - len(still))])
        if rollout.anew is not None:
            still = still.masked_fill(rollout.anew, 0.0)
        after = torch.cat([torch.zeros_like(reward[:1]), reward.cumsum(0)])  # (T + 1, S) earned by the rows before
        rows = torch.arange(1, time + 1, device=ended.device).unsqueeze(1)
        last = (ended * rows).amax(0, keepdim=True)  # how many rows belong to episodes that ended
        closed = after.gather(0, last)[0]
        any_ended = last[0] > 0
        self._total = self._total.to(reward) + torch.where(any_ended, closed + still, 0.0).sum()
        self._episodes = self._episodes.to(reward.device) + ended.sum()
        self._open = after[-1] - closed + torch.where(any_ended, 0.0, still)

    def take(self) -> float | None:
        """Returns the mean sum of the episodes that ended since the last call; None if no episode ended."""
        episodes = int(self._episodes)
        total = float(self._total)
        self._total = torch.zeros(())
        self._episodes = torch.zeros((), dtype=torch.int64)
        return total / episodes if episodes else None

    def state_dict(self) -> dict[str, Any]:
        """Returns the sums of the episodes that have not ended, and the totals since `take`."""
        return {"open": self._open, "total": self._total, "episodes": self._episodes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self._open, self._total, self._episodes = (state[name].clone() for name in ("open", "total", "episodes"))
