import random

import pytest

from palaestra.runtime.settings.search_settings import RangeSettings
from palaestra.runtime.tune.dimensions import Dimension, plain, short_names

LOG = Dimension("a", RangeSettings(log=(1e-5, 1e-1)))
UNIFORM = Dimension("a", RangeSettings(uniform=(0.8, 1.0)))
INTEGER = Dimension("a", RangeSettings(integer=(2, 10), step=2))
CHOICE = Dimension("a", RangeSettings(choice=(64, 128, 256)))
ALL = (LOG, UNIFORM, INTEGER, CHOICE, Dimension("a", RangeSettings(log_integer=(1, 1000))))


@pytest.mark.parametrize("dimension", ALL, ids=lambda each: each.kind)
def test_every_value_that_is_drawn_or_moved_is_in_the_range(dimension: Dimension):
    rng = random.Random(0)
    for _ in range(200):
        value = dimension.draw(rng)
        assert dimension.contains(value)
        assert dimension.contains(dimension.moved(value, 0.5, rng))


def test_a_number_moves_by_about_its_share_on_its_own_scale():
    rng = random.Random(1)
    moved = [
        LOG.moved(1e-3, 0.25, rng) for _ in range(100)
    ]  # a quarter of four decades is a factor of ten, half to one and a half of it
    assert all(10**0.49 < max(value / 1e-3, 1e-3 / value) < 10**1.51 for value in moved)
    assert min(moved) < 1e-3 < max(moved)


def test_a_whole_number_moves_by_a_step_at_least():
    assert {INTEGER.moved(4, 0.01, random.Random(seed)) for seed in range(20)} == {2, 6}


def test_a_choice_moves_to_a_neighbor():
    assert {CHOICE.moved(128, 0.1, random.Random(seed)) for seed in range(20)} == {64, 256}
    assert {CHOICE.moved(256, 0.1, random.Random(seed)) for seed in range(20)} == {128, 256}


def test_true_is_no_number_and_one_is_not_true():
    assert not UNIFORM.contains(True)
    assert not Dimension("a", RangeSettings(choice=(True, False))).contains(1)
    assert not INTEGER.contains(3)


def test_names_are_as_short_as_they_can_be_told_apart():
    paths = ["behaviors.A.hyperparameters.beta", "behaviors.A.x.gamma", "behaviors.A.y.gamma"]
    assert list(short_names(paths).values()) == ["beta", "x.gamma", "y.gamma"]


def test_numbers_are_shown_short():
    assert [plain(value) for value in (123456.7, 0.000123456, 64, True, "linear")] == [
        "123,457",
        "0.0001235",
        "64",
        "True",
        "linear",
    ]
