from __future__ import annotations

import math

import pytest

pytest.importorskip("nicegui")

from palaestra.web.layout import within


@pytest.mark.parametrize("sent", [None, "7", [1], {"a": 1}, True, math.nan])
def test_a_slider_takes_numbers_only(sent: object):
    assert within(sent, 0.0, 2.0) is None


@pytest.mark.parametrize(("sent", "taken"), [(1, 1.0), (1e308, 2.0), (-math.inf, 0.0), (10**400, 2.0), (0.5, 0.5)])
def test_a_slider_takes_numbers_of_its_range(sent: float, taken: float):
    assert within(sent, 0.0, 2.0) == taken
