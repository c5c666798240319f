from itertools import product

import numpy as np
import pytest

from palaestra.runtime.comparison.intervals import (
    band,
    estimate,
    improvement,
    improvement_probability,
    interquartile_mean,
    interval,
)

# five runs of three tasks of two settings; the figures beside them were computed with rliable 1.2.0 (50,000 and 20,000
# samples)
ONE = [
    [70.409, 44.322, 29.8, 83.23, 47.187],
    [47.222, 57.737, 58.84, 61.129, 56.66],
    [78.362, 65.688, 52.696, 62.947, 48.897],
]
OTHER = [
    [51.092, 64.578, 70.458, 53.172, 52.304],
    [64.41, 61.001, 64.726, 64.703, 60.782],
    [55.229, 60.485, 49.895, 98.702, 80.046],
]


def arrays(scores):
    return [np.array(task) for task in scores]


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([3.0], 3.0),
        ([1.0, 9.0], 5.0),
        ([1.0, 2.0, 9.0], 4.0),
        ([0.0, 1.0, 2.0, 90.0], 1.5),
        ([5.0, 0.0, 1.0, 2.0, 90.0], 8 / 3),
    ],
)
def test_a_quarter_of_the_values_is_left_out_at_each_end(values, mean):
    assert interquartile_mean(np.array(values)) == pytest.approx(mean)


def test_an_infinite_value_counts_as_the_greatest():
    assert interquartile_mean(np.array([np.inf, 1.0, 2.0, 3.0])) == 2.5
    assert interquartile_mean(np.array([np.inf, np.inf, 2.0, 3.0])) == np.inf


def test_the_interval_of_three_runs_is_that_of_all_27_ways_to_draw_them():
    scores = np.array([1.0, 2.0, 6.0])
    every = np.array([np.mean(drawn) for drawn in product(scores, repeat=3)])
    found = estimate([scores], resamples=200_000)
    assert found.value == 3.0
    ends = tuple(np.quantile(every, [0.025, 0.975], method="inverted_cdf"))
    assert (found.low, found.high) == pytest.approx(ends, abs=1e-9)


def test_estimates_agree_with_those_of_rliable():
    one = estimate(arrays(ONE)[:1], resamples=50_000)
    assert (one.value, one.low, one.high) == pytest.approx((53.97266667, 34.64066667, 78.95633333))
    three = estimate(arrays(ONE), resamples=50_000)
    assert three.value == pytest.approx(56.86844444)
    assert (three.low, three.high) == pytest.approx((51.289, 64.33), abs=0.08)


def test_probabilities_of_improvement_agree_with_those_of_rliable():
    found = improvement(arrays(ONE), arrays(OTHER), resamples=20_000)
    assert found.value == pytest.approx(0.28)
    assert (found.low, found.high) == pytest.approx((0.0933, 0.48), abs=0.0134)  # the bootstrap has steps of 1/75
    assert improvement_probability(arrays(OTHER), arrays(ONE)) == pytest.approx(0.72)


def test_ties_are_half_a_win():
    found = improvement_probability([np.array([1.0, 2.0])], [np.array([2.0, 0.0])])
    assert found == pytest.approx((0 + 1 + 0.5 + 1) / 4)


def test_a_single_run_has_no_interval():
    assert estimate([np.array([3.0])]).low is None
    assert improvement([np.array([3.0])], [np.array([2.0])]).high is None
    middle, low, high = band(np.array([[1.0, 2.0]]))
    assert middle.tolist() == low.tolist() == high.tolist() == [1.0, 2.0]


def test_tasks_are_drawn_apart_so_that_their_difference_does_not_widen_the_interval():
    found = estimate([np.zeros(5), np.full(5, 100.0)])
    assert (found.value, found.low, found.high) == (50.0, 50.0, 50.0)


def test_an_interval_may_end_at_infinity():
    found = estimate([np.array([1.0, 2.0, 3.0, np.inf, np.inf])])
    assert found.low is not None
    assert found.low < 3.0
    assert found.high == np.inf
    assert interval(np.array([1.0, 1.0]), 0.9).tolist() == [1.0, 1.0]


def test_every_point_of_a_band_is_the_estimate_of_its_values():
    curves = np.random.default_rng(0).normal(size=(5, 3))
    middle, low, high = band(curves, resamples=20_000)
    for at in range(3):
        found = estimate([curves[:, at]], resamples=20_000, seed=1)
        assert (middle[at], low[at], high[at]) == pytest.approx((found.value, found.low, found.high), abs=0.1)


def test_a_long_band_is_computed_in_parts():
    curves = np.random.default_rng(0).normal(size=(40, 90))
    whole = band(curves, resamples=2_000)
    some = band(curves[:, 40:50], resamples=2_000)
    for left, right in zip(whole, some, strict=True):
        np.testing.assert_allclose(left[40:50], right)
