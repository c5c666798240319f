import json
from pathlib import Path
from typing import Any

import pytest

from palaestra.core.metrics import ELO, GROUP_REWARD, REWARD
from palaestra.runtime.settings.search_settings import SearchSettings
from palaestra.runtime.tune.objectives import NoValue, ending, shortfall, worth
from palaestra.runtime.tune.trial_curves import (
    CPU,
    STATUS,
    CurvePoint,
    final_value,
    mean_until,
    read_curves,
    step_of_bar,
    value_at,
)


def write_run(run: Path, *lines: dict[str, Any], cpu: tuple[tuple[int, float], ...] = ()) -> Path:
    (run / "run_logs").mkdir(parents=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lines = [json.dumps({"behavior": "A", "step": step, "cpu": seconds}) + "\n" for step, seconds in cpu]
    (run / CPU).write_text("".join(lines))
    return run


def line(step: int, reward: float, episodes: int = 50, behavior: str = "A", **rest: Any) -> dict[str, Any]:
    return {"behavior": behavior, "step": step, "episodes": episodes, REWARD: reward, **rest}


def points(*values: tuple[int, float, int]) -> list[CurvePoint]:
    return [CurvePoint(step, value, float(episodes), episodes) for step, value, episodes in values]


def test_a_mean_is_over_as_many_of_the_newest_summaries_as_have_the_episodes():
    curve = points((10, 0.0, 100), (20, 2.0, 50), (30, 4.0, 150))
    assert mean_until(curve, 3, 100) == (4.0, True)
    assert mean_until(curve, 3, 200) == (3.5, True)
    assert mean_until(curve, 2, 200) == (pytest.approx(2 * 50 / 150), False)


def test_the_bar_is_reached_where_enough_episodes_say_so():
    curve = points((10, 9.0, 10), (20, 9.0, 60), (30, 9.0, 60))
    assert step_of_bar(curve, 8.0, 100) == 30
    assert step_of_bar(curve, 8.0, 10) == 10
    assert step_of_bar(curve, 9.5, 10) is None


def test_a_reward_at_a_mark_waits_for_the_slowest_behavior():
    curves = {"A": points((10, 1.0, 9), (20, 2.0, 9)), "B": points((12, 3.0, 9))}
    assert value_at(curves, 10, 5) == 2.0
    assert value_at(curves, 20, 5) is None
    assert final_value(curves, 5) == 2.5
    assert final_value({}, 5) is None


def test_courses_are_those_of_groups_where_there_are_any_and_half_a_line_is_left_out(tmp_path):
    first = line(10, 0.0, **{GROUP_REWARD: 7.0, ELO: 1200.0})
    run = write_run(tmp_path, first, line(20, 1.0), line(10, 3.0, behavior="B"))
    with (run / "metrics.jsonl").open("a") as out:
        out.write('{"behavior": "A", "st')
    assert [point.value for point in read_curves(run, REWARD, "A")["A"]] == [7.0, 1.0]
    assert set(read_curves(run, REWARD)) == {"A", "B"}
    assert read_curves(run, ELO) == {"A": [CurvePoint(10, 1200.0, 1.0, 50)]}


def test_a_finished_run_is_worth_its_reward_and_its_way_to_the_bar(tmp_path):
    run = write_run(tmp_path, line(10, 1.0), line(20, 5.0), line(30, 8.0), cpu=((10, 1.5), (20, 2.5), (30, 3.0)))
    search = SearchSettings(objectives=("reward", "decisions", "cpu_seconds"), bar=5.0, episodes=50)
    assert worth([run, run], search, {"A": 30}) == [[8.0, 20.0, 2.5]] * 2


def test_a_run_that_misses_the_bar_counts_more_than_its_length_the_further_the_more(tmp_path):
    rewards = {"near": 4.0, "far": 1.0}
    near, far = (write_run(tmp_path / one, line(50, reward), cpu=((50, 4.0),)) for one, reward in rewards.items())
    search = SearchSettings(objectives=("decisions", "cpu_seconds"), bar=5.0, episodes=50)
    values = worth([near, far], search, {"A": 100})
    assert values == [[pytest.approx(120.0), pytest.approx(9.6)], [pytest.approx(180.0), pytest.approx(14.4)]]


def test_a_run_that_ended_at_the_bar_has_reached_it_though_whole_summaries_are_below(tmp_path):
    run = write_run(tmp_path, line(10, 1.0), line(20, 4.0), cpu=((10, 1.5), (20, 2.5)))
    (run / STATUS).write_text(json.dumps({"A": {"ending": {"why": "goal"}}}))
    search = SearchSettings(objectives=("decisions", "cpu_seconds"), bar=5.0, episodes=50)
    assert worth([run], search, {"A": 100}) == [[20.0, 2.5]]
    end = ending(run, search)
    assert end is not None
    assert end.reached
    also_reward = SearchSettings(objectives=("reward", "decisions"), bar=5.0, episodes=50)  # it does not end there
    assert worth([run], also_reward, {"A": 100})[0][1] > 100


@pytest.mark.parametrize(
    ("value", "bar", "missing"),
    [(5.0, 5.0, 0.0), (0.0, 5.0, 1.0), (-9.0, 5.0, 1.0), (-2.0, -1.0, 1.0), (-1.5, -1.0, 0.5)],
)
def test_a_shortfall_is_within_0_and_1(value, bar, missing):
    assert shortfall(value, bar) == pytest.approx(missing)


def test_a_run_without_episodes_is_worth_nothing(tmp_path):
    with pytest.raises(NoValue, match="an episode that ended"):
        worth([tmp_path], SearchSettings(), {})
