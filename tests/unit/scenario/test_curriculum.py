from typing import Any

import pytest

from palaestra.scenario.curriculum import Curricula
from palaestra.scenario.settings import CurriculumSettings


def curricula(*lessons: dict[str, Any], **others: list[dict[str, Any]]) -> Curricula:
    """`wall` with lessons of these criteria, and a last one; others by name."""
    return Curricula({name: _curriculum(list(some)) for name, some in {"wall": lessons, **others}.items()})


def _curriculum(criteria: list[dict[str, Any]]) -> CurriculumSettings:
    lessons = [
        {
            "name": f"L{i}",
            "value": float(i),
            "completion_criteria": {"behavior": "Jump", "signal_smoothing": False, **criterion},
        }
        for i, criterion in enumerate(criteria)
    ]
    return CurriculumSettings.model_validate({"curriculum": [*lessons, {"name": "last", "value": 9.0}]})


def update(all: Curricula, progress: float = 0.0, elo: float | None = None, **others: float) -> list[str]:
    """The parameters that change lesson."""
    ratings = {} if elo is None else {"Jump": elo}
    return [each.parameter for each in all.update({"Jump": progress, **others}, ratings)]


def test_a_lesson_ends_once_the_mean_reward_is_above_the_threshold_and_not_at_it():
    all = curricula({"threshold": 1.0, "min_lesson_length": 2})
    all.episodes("Jump", [0.5, 1.5])
    assert update(all) == []
    all.episodes("Jump", [1.75])  # the last two: 1.625
    assert update(all) == ["wall"]
    assert all.finished


def test_a_lesson_lasts_its_least_number_of_episodes():
    all = curricula({"threshold": 0.0, "min_lesson_length": 3})
    all.episodes("Jump", [5.0, 5.0])
    assert update(all) == []
    all.episodes("Jump", [5.0])
    assert update(all) == ["wall"]


def test_without_a_length_the_last_episode_alone_decides():
    all = curricula({"threshold": 1.0})
    all.episodes("Jump", [9.0, 0.0])
    assert update(all) == []
    all.episodes("Jump", [0.0, 1.5])
    assert update(all) == ["wall"]


def test_progress_waits_for_the_episodes_too():
    all = curricula({"measure": "progress", "threshold": 0.5, "min_lesson_length": 2})
    assert update(all, 0.6) == []
    all.episodes("Jump", [0.0, 0.0])
    assert update(all, 0.5) == []
    assert update(all, 0.51) == ["wall"]


def test_a_smoothed_measure_counts_its_last_value_a_quarter_at_looks_with_new_episodes():
    all = curricula({"threshold": 0.79, "signal_smoothing": True})
    all.episodes("Jump", [0.0])
    update(all)
    all.episodes("Jump", [1.0])
    assert update(all) == []
    assert all.all["wall"].measured == 0.75
    assert update(all) == []  # nothing new was measured
    assert all.all["wall"].measured == 0.75
    all.episodes("Jump", [1.0])
    assert update(all) == ["wall"]  # 0.25 * 0.75 + 0.75 * 1


def test_smoothing_begins_anew_with_each_lesson():
    all = curricula({"threshold": 1.0, "signal_smoothing": True}, {"threshold": 1.0, "signal_smoothing": True})
    all.episodes("Jump", [8.0])
    assert update(all) == ["wall"]
    all.episodes("Jump", [0.5])
    assert update(all) == []
    assert all.all["wall"].measured == 0.5


def test_one_lesson_a_look_and_nothing_measured_before_counts_in_the_next():
    all = curricula({"threshold": 1.0}, {"threshold": 1.0})
    all.episodes("Jump", [5.0, 5.0, 5.0])
    assert update(all) == ["wall"]
    assert update(all) == []
    all.episodes("Jump", [5.0])
    assert update(all) == ["wall"]


def test_a_change_of_one_parameter_has_the_measuring_for_all_begin_anew():
    all = curricula({"threshold": 1.0, "min_lesson_length": 1}, gravity=[{"threshold": 1.0, "min_lesson_length": 3}])
    all.episodes("Jump", [2.0, 2.0])
    assert update(all) == ["wall"]
    all.episodes("Jump", [2.0])
    assert update(all) == []
    assert "1/3 episodes" in all.status()[0]


def test_the_mean_is_of_as_many_episodes_as_the_longest_lesson_of_the_behavior_lasts():
    all = curricula({"threshold": 1.0, "min_lesson_length": 1}, gravity=[{"threshold": 9.0, "min_lesson_length": 4}])
    all.episodes("Jump", [0.0, 0.0, 0.0, 3.9])
    assert update(all) == []
    all.episodes("Jump", [3.9])
    assert update(all) == ["wall"]  # 7.8 / 4


def test_a_rating_ends_a_lesson():
    all = curricula({"measure": "elo", "threshold": 1210.0})
    all.episodes("Jump", [0.0])
    assert update(all, elo=1210.0) == []
    all.episodes("Jump", [0.0])
    assert update(all, elo=1211.0) == ["wall"]


def test_a_metric_is_read_from_summaries_of_the_lesson_alone():
    all = curricula(
        {"measure": "Game/Score", "threshold": 3.0},
        {"measure": "Losses/Value Loss", "threshold": 0.1, "below": True},
    )
    all.summary("Jump", {"Game/Score": 2.0})
    assert update(all) == []
    all.summary("Jump", {"Losses/Value Loss": 0.0})
    assert update(all) == []
    all.summary("Jump", {"Game/Score": 4.0})
    assert update(all) == ["wall"]
    all.summary("Jump", {"Losses/Value Loss": 0.05})  # began in the first lesson
    assert update(all) == []
    all.summary("Jump", {"Losses/Value Loss": 0.1})
    assert update(all) == []
    all.summary("Jump", {"Losses/Value Loss": 0.05})
    assert update(all) == ["wall"]


def test_behaviors_are_measured_apart():
    all = curricula({"threshold": 1.0}, other=[{"behavior": "Run", "threshold": 1.0}])
    all.episodes("Run", [2.0])
    all.episodes("Nobody", [2.0])
    assert update(all) == ["other"]


@pytest.mark.parametrize(
    ("criterion", "line"),
    [
        (
            {"threshold": 0.8, "min_lesson_length": 100},
            "mean reward of Jump 0.705, needs more than 0.8, 2/100 episodes",
        ),
        ({"measure": "progress", "threshold": 0.5}, "progress of Jump 0.3, needs more than 0.5"),
        ({"measure": "Elo", "threshold": 1300}, "Elo of Jump 1203.5, needs more than 1300"),
        (
            {"measure": "Losses/Value Loss", "threshold": 2, "below": True},
            "Losses/Value Loss of Jump not measured yet, needs less than 2",
        ),
    ],
)
def test_the_status_says_what_the_next_lesson_needs(criterion: dict[str, Any], line: str):
    all = curricula(criterion, {})
    all.episodes("Jump", [0.7, 0.71])
    update(all, 0.3, 1203.46)
    assert all.status() == [f"wall lesson 1/3 (L0): {line}"]
    assert all.status("Jump") == all.status()
    assert all.status("Run") == []


def test_a_state_goes_on_as_if_nothing_had_been():
    def made() -> Curricula:
        return curricula({"threshold": 1.0}, {"threshold": 1.0, "signal_smoothing": True, "min_lesson_length": 3})

    whole = made()
    first = made()
    second = made()
    for part in (whole, first):
        part.episodes("Jump", [2.0])
        update(part)
        part.summary("Jump", {"x": 1.0})
        part.episodes("Jump", [0.25, 0.5])
        update(part)
        part.episodes("Jump", [0.125])
    second.load_state_dict(first.state_dict())
    for part in (whole, second):
        part.episodes("Jump", [0.75])
        update(part)
    assert second.state_dict() == whole.state_dict()
    assert second.all["wall"].number == 1


def test_a_shorter_curriculum_goes_on_in_its_last_lesson():
    long = curricula({"threshold": 1.0}, {"threshold": 1.0})
    short = curricula({"threshold": 1.0})
    for _ in range(2):
        long.episodes("Jump", [2.0])
        update(long)
    short.load_state_dict(long.state_dict())
    assert short.all["wall"].number == 1
