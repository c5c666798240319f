import json
import math

import numpy as np
import pytest

from palaestra.core.metrics import EXTRINSIC, GROUP_REWARD, LENGTH, REWARD
from palaestra.runtime.logging.statistics import LastReward, Statistics
from palaestra.runtime.logging.tracker import Summary


class Shelf:
    """A tracker that keeps what it gets."""

    def __init__(self) -> None:
        self.summaries: list[Summary] = []
        self.texts: list[tuple[str, str, str]] = []
        self.closed = False

    def write(self, summary: Summary) -> None:
        self.summaries.append(summary)

    def text(self, behavior: str, tag: str, body: str) -> None:
        self.texts.append((behavior, tag, body))

    def close(self) -> None:
        self.closed = True


def summarize(statistics: Statistics, step: int = 10) -> Summary:
    return statistics.summarize("B", step, elapsed=1.5, training=True)


def test_a_value_is_the_mean_the_sum_or_the_last_of_the_period():
    statistics = Statistics()
    for value in (1.0, 2.0, 6.0):
        statistics.add("B", "mean", value)
        statistics.total("B", "sum", value)
        statistics.latest("B", "last", value)
    statistics.extend("B", "mean", np.array([7.0]))
    summary = summarize(statistics)
    assert summary.values == {"mean": 4.0, "sum": 9.0, "last": 6.0}
    assert summary.totals == {"mean": 16.0, "sum": 9.0, "last": 6.0}
    assert summary.histograms == {}


def test_every_tracker_gets_the_summary_and_the_next_period_is_empty():
    shelves = [Shelf(), Shelf()]
    statistics = Statistics({str(i): shelf for i, shelf in enumerate(shelves)})
    statistics.add("B", "tag", 1.0)
    first = summarize(statistics, 10)
    second = summarize(statistics, 20)
    assert [shelf.summaries for shelf in shelves] == [[first, second]] * 2
    assert (first.behavior, first.step, first.elapsed, first.training) == ("B", 10, 1.5, True)
    assert second.values == {}
    statistics.trackers.text("B", "Hyperparameters", "x")
    statistics.trackers.close()
    assert shelves[1].texts == [("B", "Hyperparameters", "x")]
    assert shelves[0].closed


def test_episodes_are_counted_with_one_decision_less():
    statistics = Statistics()
    statistics.episodes("B", [1.0, 3.0], [100, 200])
    summary = summarize(statistics)
    assert summary.values == {REWARD: 2.0, LENGTH: 149.0, EXTRINSIC: 2.0}
    assert summary.histograms[REWARD].tolist() == [1.0, 3.0]
    assert (summary.episodes, summary.mean, summary.std) == (2, 2.0, 1.0)


def test_the_extrinsic_reward_may_differ_from_the_return():
    statistics = Statistics()
    statistics.episodes("B", [1.0], [5], extrinsic=[0.5])
    assert summarize(statistics).values[EXTRINSIC] == 0.5


def test_without_an_episode_there_is_no_reward():
    summary = summarize(Statistics())
    assert summary.values == {}
    assert summary.episodes == 0
    assert math.isnan(summary.mean)


def test_nan_is_passed_over_and_a_tag_of_nothing_else_is_left_out():
    statistics = Statistics()
    statistics.extend("B", "some", [math.nan, 2.0])
    statistics.add("B", "none", math.nan)
    statistics.latest("B", "none", math.nan)
    statistics.total("B", "none", math.nan)
    statistics.spread("B", "none", [math.nan])
    assert summarize(statistics).values == {"some": 2.0}


def test_behaviors_do_not_mix():
    statistics = Statistics()
    statistics.add("B", "tag", 1.0)
    statistics.add("C", "tag", 3.0)
    assert summarize(statistics).values == {"tag": 1.0}
    assert statistics.summarize("C", 1, elapsed=0, training=False).values == {"tag": 3.0}


def test_the_recent_reward_begins_anew_with_each_policy_update():
    statistics = Statistics()
    assert statistics.recent_reward("B") is None
    statistics.episodes("B", [1.0, 2.0], [5, 5])
    summarize(statistics)
    statistics.episodes("B", [6.0], [5])
    assert statistics.recent_reward("B") == 3.0
    statistics.policy_updated("B")
    assert statistics.recent_reward("B") == 3.0  # none ended since: that of the policy before
    statistics.policy_updated("B")
    statistics.episodes("B", [8.0], [5])
    assert statistics.recent_reward("B") == 8.0


def test_where_updates_come_more_often_than_episodes_end_the_newest_ten_count():
    statistics = Statistics()
    for number in range(12):
        statistics.episodes("B", [float(number)], [5])
        statistics.policy_updated("B")
    statistics.policy_updated("B")
    assert statistics.recent_reward("B") == 6.5  # of 2 to 11
    statistics.episodes("B", [1.0] * 20, [5] * 20)
    statistics.policy_updated("B")
    assert statistics.recent_reward("B") == 1.0


def test_the_reward_of_a_run_is_that_of_its_last_summary_however_few_its_episodes_are():
    statistics = Statistics()
    assert statistics.reward("B") is None
    statistics.episodes("B", [10.0] * 50, [5] * 50)
    assert statistics.reward("B") == 10.0  # no summary yet
    summarize(statistics)
    statistics.episodes("B", [100.0, 100.0], [5, 5])
    assert statistics.reward("B") == 10.0
    summarize(statistics)
    assert statistics.reward("B") == 100.0
    summarize(statistics)  # without an episode
    assert statistics.reward("B") == 100.0
    statistics.spread("B", GROUP_REWARD, [30.0, 50.0])
    statistics.episodes("B", [1.0, 2.0], [5, 5], grouped=True)
    summarize(statistics)
    assert statistics.reward("B") == 40.0


def test_the_last_reward_is_that_of_the_newest_summary_with_an_episode():
    statistics = Statistics()
    assert statistics.last_reward("B") is None
    statistics.episodes("B", [1.0, 2.0], [5, 5])
    assert statistics.last_reward("B") == LastReward(None, 2, 1.5, None, (1.5, 2))  # no summary yet
    statistics.summarize("B", 100, elapsed=0, training=True)
    statistics.episodes("B", [10.0], [5])
    statistics.summarize("B", 200, elapsed=0, training=True)
    statistics.summarize("B", 300, elapsed=0, training=True)
    statistics.episodes("B", [50.0], [5])
    assert statistics.last_reward("B") == LastReward(200, 1, 10.0, None, (10.0, 1))


def test_the_last_reward_counts_a_group_once_with_what_it_earned_as_one():
    statistics = Statistics()
    statistics.episodes("B", [1.0, 3.0], [5, 5], judged=[13.0])
    statistics.spread("B", GROUP_REWARD, [10.0])
    statistics.summarize("B", 100, elapsed=0, training=True)
    assert statistics.last_reward("B") == LastReward(100, 2, 2.0, 10.0, (13.0, 1))


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_an_open_summary_survives_a_resume_to_the_last_bit(cut):
    whole = Statistics()
    first = Statistics()
    statistics = first
    for i in range(3):
        if i == cut:
            state = json.loads(json.dumps(first.state_dict()))
            statistics = Statistics()
            statistics.load_state_dict(state)
        for one in (whole, statistics):
            one.episodes("B", [0.1 * i, 1 / 3], [7, 9])
            one.add("B", "mean", 0.1 + i)
            one.total("B", "sum", 0.1 + i)
            one.latest("B", "last", i)
    assert statistics.state_dict() == whole.state_dict()
    assert statistics.recent_reward("B") == whole.recent_reward("B")
    assert statistics.last_reward("B") == whole.last_reward("B")
    a = summarize(whole)
    b = summarize(statistics)
    assert (a.values, a.totals, a.mean, a.std) == (b.values, b.totals, b.mean, b.std)


def test_what_follows_a_saved_state_does_not_change_it():
    statistics = Statistics()
    statistics.episodes("B", [1.0], [5])
    state = statistics.state_dict()
    statistics.episodes("B", [2.0], [5])
    other = Statistics()
    other.load_state_dict(state)
    other.episodes("B", [9.0], [5])
    assert state["recent"] == {"B": [1.0]}
    assert state["since_update"] == {"B": [1.0, 1]}
    assert state["periods"]["B"]["spreads"] == {REWARD: [1.0]}


class Torn(Shelf):
    """A tracker that fails every time."""

    def write(self, summary: Summary) -> None:
        super().write(summary)
        raise ValueError("Too many bins")

    def close(self) -> None:
        raise RuntimeError("closed twice")


def test_a_tracker_that_fails_is_reported_once_tried_again_and_keeps_nothing_from_the_others():
    message: list[str] = []
    torn = Torn()
    shelf = Shelf()
    statistics = Statistics({"torn": torn, "shelf": shelf}, message.append)
    for step in (10, 20, 30):
        summarize(statistics, step)
    statistics.trackers.text("B", "Hyperparameters", "x")
    statistics.trackers.close()
    assert [summary.step for summary in shelf.summaries] == [summary.step for summary in torn.summaries] == [10, 20, 30]
    assert shelf.closed
    assert torn.texts == shelf.texts
    assert len(message) == 1
    assert "the tracker 'torn' could not record the summary of 'B' at step 10: ValueError: Too many bins" in message[0]
    assert "training continues" in message[0]


def test_returns_near_the_largest_number_have_a_mean():
    statistics = Statistics()
    statistics.episodes("B", [1.7e308, 1.7e308], [5, 5])
    assert summarize(statistics).mean == math.inf
