"""Whether a run was good enough long before its end, by what it has written."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from palaestra.core.metrics import GROUP_REWARD, REWARD
from palaestra.runtime.run.last_words.passed_bar import PassedBar, passed_bar

RISE = [20.0, 60.0, 150.0, 300.0, 450.0, *[500.0] * 20]


def written(folder: Path, rewards: Sequence[float | None], episodes: int = 200, tag: str = REWARD) -> Path:
    """A run with a summary for each reward, every 1,000 steps."""
    lines = [
        {"behavior": "B", "step": 1000 * number, "episodes": episodes, **({} if reward is None else {tag: reward})}
        for number, reward in enumerate(rewards, 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"behavior": "B", "st')
    return folder


@pytest.mark.parametrize("tag", [REWARD, GROUP_REWARD])
def test_a_known_bar_is_named_with_the_step_at_which_stop_at_would_have_ended_the_run(tmp_path: Path, tag: str):
    found = passed_bar(written(tmp_path, RISE, tag=tag), "B", 475.0)
    assert found == PassedBar(475.0, 6000, 6 / 25, known=True)
    assert found.sentence("Pole") == (
        "the mean of the newest 100 episodes passed 475, the benchmark of Pole, at step 6,000 (24 % of the run): "
        "`--stop-at=475` ends there"
    )


def test_the_bar_is_passed_where_a_hundred_episodes_together_reach_it(tmp_path: Path):
    """Ten episodes in each summary: those of the rise count for as long as they are among the newest hundred."""
    found = passed_bar(written(tmp_path, RISE, episodes=10), "B", 475.0)
    assert found is not None
    assert found.step == 13_000  # 300, 450 and eight times 500


def test_of_long_episodes_it_is_told_that_a_hundred_take_long():
    assert PassedBar(475.0, 70_000, 0.7, known=True, length=500).sentence("Pole") == (
        "the mean of the newest 100 episodes passed 475, the benchmark of Pole, at step 70,000 (70 % of the run; 100 "
        "episodes of 500 decisions take 50,000): `--stop-at=475` ends there"
    )


@pytest.mark.parametrize(
    ("rewards", "benchmark"),
    [
        (RISE, 501.0),  # never
        ([20.0] * 20 + [500.0] * 5, 475.0),  # late
        ([None] * 25, 475.0),
        ([], None),
        (RISE[:12], None),  # too few summaries to see a level
        ([20.0 * number for number in range(25)], None),  # it still rises
        ([1.0, *[0.9, 1.1] * 15], None),  # it has never risen
        ([0.0, *[100.0] * 10, *[60.0] * 5, *[100.0] * 10], None),  # it has fallen since
    ],
)
def test_what_came_late_or_never_and_what_still_changes_is_not_spoken_of(
    tmp_path: Path, rewards: list[float | None], benchmark: float | None
):
    assert passed_bar(written(tmp_path, rewards), "B", benchmark) is None


def test_without_a_benchmark_it_is_the_level_at_which_the_reward_has_stood_still(tmp_path: Path):
    noise = np.random.default_rng(1).normal(0, 2.0, len(RISE))
    found = passed_bar(written(tmp_path, [float(one) for one in RISE + noise]), "B", None)
    assert found is not None
    assert (found.reward, found.step, found.known) == (470.0, 6000, False)
    assert "hardly changed since it passed 470 at step 6,000" in found.sentence("Pole")
    low = [-1200.0, -600.0, *[-150.0] * 24]
    found = passed_bar(written(tmp_path, low), "B", None)
    assert found is not None
    assert (found.reward, found.step) == (-210.0, 3000)


def test_other_behaviors_of_the_run_do_not_count(tmp_path: Path):
    assert passed_bar(written(tmp_path, RISE), "A", 475.0) is None
