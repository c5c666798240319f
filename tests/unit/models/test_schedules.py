from __future__ import annotations

import pytest

from palaestra.models.optimizer import scheduled


def test_a_constant_schedule_stays():
    assert scheduled("constant", 0.2, 0.1, 900, 1000) == 0.2


@pytest.mark.parametrize(("step", "value"), [(0, 0.2), (500, 0.15), (1000, 0.1), (1200, 0.1)])
def test_a_linear_schedule_falls_to_its_last_value_at_max_steps(step: int, value: float):
    assert scheduled("linear", 0.2, 0.1, step, 1000) == pytest.approx(value)
