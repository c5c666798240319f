"""Callbacks that end a training."""

from __future__ import annotations

from collections import deque

import numpy as np

from palaestra.core.errors import ConfigError
from palaestra.core.metrics import GROUP_REWARD, REWARD
from palaestra.runtime.logging.tracker import Summary


class StopAtReward:
    """Ends a training once the mean reward of the newest episodes is high enough. For `train(callbacks=[...])`.

    The mean is over at least `min_episodes` episodes: if a summary has fewer, earlier summaries count as well. For
    groups it is the mean reward of whole groups.
    """

    def __init__(self, reward: float, *, min_episodes: int = 100, behavior: str | None = None) -> None:
        """`behavior`: whose reward; None: any behavior's. Raises ConfigError for less than one episode."""
        if min_episodes < 1:
            raise ConfigError(f"stop_at_reward: expected min_episodes of at least 1, got {min_episodes}")
        self.reward, self.min_episodes, self.behavior = reward, min_episodes, behavior
        self._rewards: dict[str, deque[np.ndarray]] = {}
        """By behavior: the returns of its newest summaries, as many as are needed."""

    def __call__(self, summary: Summary) -> bool:
        """Returns whether to end the training."""
        if self.behavior not in (None, summary.behavior):
            return False
        tag = GROUP_REWARD if GROUP_REWARD in summary.histograms else REWARD
        newest = self._rewards.setdefault(summary.behavior, deque())
        newest.append(summary.histograms.get(tag, np.zeros(0)))
        while sum(map(len, newest)) - len(newest[0]) >= self.min_episodes:
            newest.popleft()
        returns = np.concatenate(newest)
        return len(returns) >= self.min_episodes and float(returns.mean()) >= self.reward


def stop_at_reward(reward: float, *, min_episodes: int = 100, behavior: str | None = None) -> StopAtReward:
    """Returns a callback for `train` that saves and ends the run at a mean reward over at least `min_episodes` episodes.

    The episodes are those of the newest summary, or of several if it has fewer. `behavior`: whose reward; None: any behavior's.
    """
    return StopAtReward(reward, min_episodes=min_episodes, behavior=behavior)
