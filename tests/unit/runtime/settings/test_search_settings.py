from typing import Any

import pytest
import yaml

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import load, to_yaml
from palaestra.runtime.settings.search_settings import SearchSettings
from palaestra.runtime.settings.warnings import FOR_TUNE

LEARNING_RATE = "behaviors.*.hyperparameters.learning_rate"


def search(**block: Any) -> SearchSettings:
    found = load({"behaviors": {"Game": {}}, "search": block}).settings.search
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"trails": 3}, "search.trails: unknown key; did you mean 'trials'?"),
        ({"method": "grid"}, "expected one of tpe, random, got 'grid'"),
        ({"trials": 0}, "expected a number greater than 0"),
        ({"space": {"x": {}}}, "expected exactly one of uniform, log, integer, log_integer, choice, got none"),
        ({"space": {"x": {"log": [1, 2], "uniform": [1, 2]}}}, "got uniform and log"),
        ({"space": {"x": {"log": [0, 1]}}}, "expected numbers greater than 0"),
        ({"space": {"x": {"uniform": [2, 1]}}}, "expected the smaller number first"),
        ({"space": {"x": {"uniform": 3}}}, "expected a list"),
        ({"space": {"x": {"choice": [1]}}}, "at least two different values"),
        ({"space": {"x": {"integer": [1, 4], "step": 2}}}, "to be a multiple of it"),
        ({"space": {"x": {"uniform": [1, 4], "step": 2}}}, "is only for integer"),
        ({"bar": 3, "objectives": ["reward"]}, "no objective needs one"),
        ({"objectives": ["decisions"]}, "search.bar: is missing"),
        ({"objectives": []}, "at least one objective"),
        ({"bar": 3, "objectives": ["reward", "decisions"], "pruner": "median"}, "pruned by one only"),
        ({"pruner": "none", "report_every": 5}, "has no effect without a pruner"),
    ],
)
def test_a_search_that_cannot_be_done_is_refused(block, message):
    with pytest.raises(ConfigError) as error:
        search(**block)
    assert message in str(error.value)


def test_a_bar_makes_decisions_the_objective():
    assert search(bar=90).wanted == ("decisions",)
    assert search().wanted == ("reward",)


def test_trials_are_pruned_by_the_median_where_there_is_one_objective():
    assert search().pruning == "median"
    assert search(bar=3, objectives=["reward", "decisions"]).pruning == "none"


def test_the_pruner_looks_ten_times_and_not_before_the_second():
    assert search().marks(1000) == ([100, 200, 300, 400, 500, 600, 700, 800, 900, 1000], 1)
    assert search(report_every=400, prune_after=800).marks(1000) == ([400, 800, 1200], 1)


def test_a_search_is_read_back_as_it_was_written():
    space = {LEARNING_RATE: {"log": [1e-5, 1e-3]}, "env_settings.num_areas": {"choice": [4, None]}}
    block = {"method": "random", "space": space}
    before = load({"behaviors": {"Game": {}}, "search": block}).settings
    assert load(yaml.safe_load(to_yaml(before))).settings == before


def test_a_run_is_told_that_it_does_not_read_the_search(tmp_path):
    file = tmp_path / "game.yaml"
    file.write_text("behaviors:\n  Game:\nsearch:\n  trials: 3\n")
    assert load(file).warnings == (f"{file}:3: search: {FOR_TUNE}",)
