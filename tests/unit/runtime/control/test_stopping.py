import math

import numpy as np
import pytest

import palaestra
from palaestra.core.errors import ConfigError
from palaestra.core.metrics import GROUP_REWARD, REWARD
from palaestra.runtime.logging.tracker import Summary


def summary(*returns: float, behavior: str = "B", groups: list[float] | None = None) -> Summary:
    """Of these episodes."""
    histograms = {REWARD: np.array(returns)} if returns else {}
    histograms |= {} if groups is None else {GROUP_REWARD: np.array(groups)}
    mean = float(np.mean(returns)) if returns else math.nan
    return Summary(behavior, 1, 0.0, 0.0, True, {}, {}, histograms, len(returns), mean, 0.0)


def test_a_high_mean_of_few_episodes_does_not_stop():
    stop = palaestra.stop_at_reward(95, min_episodes=100)
    assert stop.lacking() is None
    assert not stop(summary(*[99.0] * 12))
    assert stop.lacking() == "--stop-at=95 needs 100 episodes; there were 12"
    assert stop(summary(*[99.0] * 88))
    assert stop.lacking() is None


def test_episodes_of_several_summaries_count_until_there_are_enough():
    stop = palaestra.stop_at_reward(95, min_episodes=4)
    assert not stop(summary(0.0, 0.0))
    assert not stop(summary(96.0, 96.0))  # the mean of these four is 48
    assert not stop(summary())
    assert stop(summary(96.0, 96.0))  # that of the newest four is 96


def test_a_summary_with_enough_episodes_stands_alone():
    stop = palaestra.stop_at_reward(5, min_episodes=2)
    assert not stop(summary(0.0, 0.0, 0.0))
    assert stop(summary(4.0, 6.0))


def test_only_the_behavior_that_is_named_counts():
    stop = palaestra.stop_at_reward(5, min_episodes=1, behavior="A")
    assert not stop(summary(9.0))
    assert stop(summary(9.0, behavior="A"))


def test_groups_are_judged_by_what_they_earn_as_one():
    stop = palaestra.stop_at_reward(5, min_episodes=1)
    assert stop(summary(0.0, 0.0, groups=[6.0]))


def test_no_episode_at_all_is_refused():
    with pytest.raises(ConfigError, match="min_episodes of at least 1, got 0"):
        palaestra.stop_at_reward(5, min_episodes=0)
