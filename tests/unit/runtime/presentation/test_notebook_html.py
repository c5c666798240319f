"""What a notebook shows of results: sides of columns, and the curves with their names."""

import re

import numpy as np

from palaestra.runtime.presentation.inline_curves import svg
from palaestra.runtime.presentation.result_tables import ResultTable

CURVE = (np.array([1000.0, 2000.0]), np.array([20.0, 500.0]))


def test_columns_of_numbers_are_aligned_to_the_right_words_to_the_left_and_empty_ones_left_out():
    head = ["behavior", "reward", "interval", "steps", "model"]
    table = ResultTable(head, [["A<b>", "-", "", "never", "results/a.onnx"], ["B", "-1.5", "", "20,000", "-"]])
    assert re.findall(r"<td [^>]*text-align:(\w+)", table.html())[:4] == ["left", "right", "right", "left"]
    assert "A&lt;b&gt;" in table.html()
    assert table.text().split("\n")[2] == "B           -1.5  20,000  -"


def test_a_curve_above_zero_begins_there_and_has_a_title():
    drawn = svg({"one": CURVE}, "Cumulative <Reward>")
    assert re.findall(r">([^<>]+)</text>", drawn) == ["500", "0", "0", "2,000 decisions"]
    assert drawn.startswith('<div style="opacity:.75">Cumulative &lt;Reward&gt;</div><svg')
    far = svg({"one": (CURVE[0], CURVE[1] + 1000)})
    assert re.findall(r">([^<>]+)</text>", far)[:2] == ["1,500", "1,020"]
    assert re.findall(r">([^<>]+)</text>", svg({"one": (CURVE[0], CURVE[1] * 0.9958)}))[0] == "500"
    point = CURVE[0][:1], CURVE[1][:1]
    assert svg({"one": point}, "title") == ""
    assert svg({"one": CURVE, "other": point}).count("<circle") == 1


def test_long_names_of_several_curves_are_shown_without_what_they_share():
    def names(*of: str) -> list[str]:
        return re.findall(r"&#9632;</span> ([^<]+)<", svg(dict.fromkeys(of, CURVE)))

    runs = [f"Walker-v5-20260131-094500-seed-{seed}" for seed in (1, 10)]
    assert names(*runs) == ["seed-1", "seed-10"]
    assert names("pole-1", "pole-2") == ["pole-1", "pole-2"]
    assert names("learning rate 0.0005", "learning rate 0.002") == ["learning rate 0.0005", "learning rate 0.002"]
    none = np.empty(0), np.empty(0)
    assert "&#9632;" not in svg({"Striker": CURVE})
    assert re.findall(r"</span> ([^<]+)<", svg({"Striker": CURVE, "Goalie": none})) == ["Striker"]
    assert names("x" * 99, "y") == ["x" * 17 + "..." + "x" * 12, "y"]
