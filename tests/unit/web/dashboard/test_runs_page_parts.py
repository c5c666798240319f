"""What the page of runs keeps in its address, and curves of several seeds as one."""

import numpy as np
import pytest
from starlette.datastructures import QueryParams

from palaestra.runtime.logging.history import Points
from palaestra.web.dashboard.chart_options import CurveLine, curve_options
from palaestra.web.dashboard.curves_card import _line
from palaestra.web.dashboard.run_rows import short_settings
from palaestra.web.dashboard.runs_page import first_runs
from palaestra.web.dashboard.runs_view import RunsView


def test_an_address_keeps_the_choices_and_leaves_out_defaults():
    assert RunsView().address == "/"
    view = RunsView(
        ("a", "b/c,d"), ("a",), (), ("hyperparameters.beta",), "Policy/Entropy", "time", 0.0, True, False, "x y"
    )
    assert RunsView.of(QueryParams(view.address.partition("?")[2])) == view


@pytest.mark.parametrize("text", ["smooth=nan&axis=up", "smooth=x", "log=true&unknown=1", "run=" + "a" * 5000])
def test_an_address_of_anything_else_is_passed_over(text: str):
    view = RunsView.of(QueryParams(text))
    assert 0 <= view.smooth <= 0.99
    assert (view.axis, view.log) == ("steps", False)


def test_seeds_are_one_line_with_a_band_between_the_lowest_and_the_highest():
    step, seconds = np.array([100.0, 200.0]), np.array([1.0, 2.0])
    points = [Points(step, seconds, np.array(values)) for values in ([0.0, 10.0], [2.0, 20.0], [4.0, 30.0])]
    line = _line("s", 1, points, RunsView(smooth=0.0))
    assert line.data == [[100.0, 2.0], [200.0, 20.0]]
    assert [low <= middle[1] <= high for middle, (low, high) in zip(line.data, line.ends, strict=True)] == [True, True]
    assert line.ends[1][0] >= 10
    assert line.ends[1][1] <= 30
    options = curve_options([line, CurveLine("other", [[1, 2]])], over_time=False, log=False)
    low, area = options["series"][2:]
    assert low["data"][1] == [200.0, line.ends[1][0]]
    assert area["data"][1][1] == pytest.approx(line.ends[1][1] - line.ends[1][0])
    assert low["stack"] == area["stack"]
    assert options["legend"]["data"] == ["s", "other"]
    assert len(curve_options([line], over_time=False, log=True)["series"]) == 1  # no areas between logarithms


def test_the_runs_that_are_shown_first_have_all_their_seeds():
    runs = ["z", "a-seed-2", "b", "c", "d", "a-seed-1", "e", "a-seed-3"]
    assert first_runs(runs) == ["z", "a-seed-2", "b", "c", "d", "a-seed-1", "a-seed-3"]
    assert first_runs(["a-seed-x", *"bcdef"]) == ["a-seed-x", *"bcde"]


def test_settings_of_a_single_behavior_go_without_its_name():
    one = {
        "behaviors": {"A": {"max_steps": 5, "self_play": None}},
        "env_settings": {"seed": 3},
        "checkpoint_settings": {"run_id": 1},
    }
    assert short_settings(one) == {"max_steps": "5", "env_settings.seed": "3"}
    two = {"behaviors": {"A": {"max_steps": 5}, "B": {"max_steps": 6}}}
    assert short_settings(two) == {"behaviors.A.max_steps": "5", "behaviors.B.max_steps": "6"}
