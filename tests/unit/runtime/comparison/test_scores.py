import math

import numpy as np
import pytest

from palaestra.core.errors import ConfigError
from palaestra.runtime.comparison.scores import Measure, cleaned, ranges, resampled, score
from palaestra.runtime.logging.history import Points


def points(values, steps=None, seconds=None):
    steps = np.arange(1, len(values) + 1) * 10.0 if steps is None else np.array(steps, float)
    return Points(steps, steps / 10 if seconds is None else np.array(seconds, float), np.array(values, float))


CURVE = points(range(10))


def test_a_score_is_the_mean_of_the_last_summaries():
    assert score("x", CURVE, Measure(last=0.2)).score == 8.5
    assert score("x", CURVE, Measure(last=0)).score == 9
    assert score("x", CURVE, Measure(last=1)).score == 4.5


def test_a_run_is_measured_at_a_step_that_it_has_reached():
    found = score("x", CURVE, Measure(at=50, last=0.3))
    assert (found.score, found.step) == (3.5, 50)
    assert score("x", CURVE, Measure(at=105)).step == 100  # the next summary would have been at 110
    assert score("x", CURVE, Measure(at=200)) is None
    assert score("x", CURVE, Measure(at=5)) is None


def test_the_first_summary_at_a_bar_counts():
    found = score("x", points([1, 3, 2, 4]), Measure(bar=3))
    assert (found.bar_step, found.bar_seconds) == (20, 2)
    assert score("x", points([1, 3]), Measure(bar=3.1)).bar_step == math.inf
    assert score("x", points([5, 3, 2]), Measure(bar=3, lower=True)).bar_step == 20


def test_values_that_are_not_finite_and_steps_that_were_repeated_are_dropped():
    curve = cleaned(points([1, math.nan, 3, 4, 5], steps=[10, 20, 30, 20, 30]), None)
    assert curve.step.tolist() == [10, 20, 30]
    assert curve.value.tolist() == [1, 4, 5]
    assert cleaned(points([math.inf]), None) is None


def test_values_are_normalized():
    assert cleaned(points([0, 50, 100]), (0, 50)).value.tolist() == [0, 1, 2]


def test_curves_are_compared_over_the_part_that_all_have():
    x, values = resampled([points([1, 2, 3]), points([10, 30], steps=[20, 40])], by_time=False)
    assert x.tolist() == [20, 30]
    assert values.tolist() == [[2, 3], [10, 20]]
    x, values = resampled([points([1, 2], seconds=[0, 4]), points([5, 6], seconds=[0, 2])], by_time=True)
    assert x.tolist() == [0, 2]
    assert values.tolist() == [[1, 1.5], [5, 6]]


def test_curves_without_a_common_part_have_one_point():
    x, values = resampled([points([1, 2]), points([5], steps=[90])], by_time=False)
    assert x.tolist() == [20]
    assert values.tolist() == [[2], [5]]


def test_ranges_are_given_for_all_tasks_for_one_or_found():
    curves = {"A": [points([1, 5])], "B": [points([2, math.nan]), points([8])]}
    assert ranges(["0,10"], curves) == {"A": (0, 10), "B": (0, 10)}
    assert ranges(["minmax", "A=0,10"], curves) == {"A": (0, 10), "B": (2, 8)}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("A", "expected LOW,HIGH"),
        ("1,2,3", "expected LOW,HIGH"),
        ("nan,1", "expected LOW,HIGH"),
        ("C=0,1", "there is no task 'C'"),
        ("1,1", "both ends of the range of 'A' are 1"),
        ("minmax", "both ends"),
    ],
)
def test_a_range_that_is_none_says_why(word, message):
    with pytest.raises(ConfigError, match=message):
        ranges([word], {"A": [points([1, 1])]})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"last": 1.5}, "--last is 1.5"),
        ({"confidence": 95}, "--confidence is 95"),
        ({"at": -1}, "--at"),
        ({"bar": math.nan}, "--bar"),
    ],
)
def test_a_measure_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        Measure(**wrong)
