"""Callbacks that end a training."""

from __future__ import annotations

from math import isfinite

from palaestra.core.errors import ConfigError
from palaestra.runtime.control.goals import Goals
from palaestra.runtime.logging.tracker import Summary
from palaestra.scenario.ending_settings import StopSettings


class StopAtReward:
    """Ends a training once the mean reward of the newest episodes is high enough. For `train(callbacks=[...])`.

    The mean is over the newest `min_episodes` episodes, across summaries. For groups it is the mean
    reward of whole groups.
    """

    def __init__(self, reward: float, *, min_episodes: int = 100, behavior: str | None = None) -> None:
        """`behavior`: the one whose reward counts; None: any. Raises ConfigError for less than one episode."""
        if not isfinite(reward):
            raise ConfigError(f"reward: expected a finite number, got {reward}")
        if min_episodes < 1:
            raise ConfigError(f"stop_at_reward: expected min_episodes of at least 1, got {min_episodes}")
        self.reward = reward
        self.min_episodes = min_episodes
        self.behavior = behavior
        self._goals = Goals(lambda text: None)
        self._settings = StopSettings(at_least=float(reward), episodes=min_episodes)

    def __call__(self, summary: Summary) -> bool:
        """Returns whether to end the training."""
        if self.behavior not in (None, summary.behavior):
            return False
        self._goals.note(summary, self._settings)
        return self._goals.met(summary.behavior)

    def lacking(self) -> str | None:
        """Returns a sentence if no behavior had enough episodes for a mean; else, or if no behavior was seen, None."""
        found = [course.lacking(self._settings) for course in self._goals.courses.values()]
        return None if None in found else next(iter(found), None)


def stop_at_reward(reward: float, *, min_episodes: int = 100, behavior: str | None = None) -> StopAtReward:
    """Returns a callback for `train` that saves and ends the run at a mean reward of the newest `min_episodes`
    episodes.

    >>> import palaestra
    >>> done = palaestra.stop_at_reward(450)
    >>> result = palaestra.train(env="CartPole", max_steps=1_000_000, callbacks=done)

    reward: mean reward at which the run ends.
    min_episodes: number of newest episodes in the mean; the run does not end before it has this many.
    behavior: the behavior whose reward counts; None: any behavior.

    Returns the callback, which returns True when the run should end.
    """
    return StopAtReward(reward, min_episodes=min_episodes, behavior=behavior)
