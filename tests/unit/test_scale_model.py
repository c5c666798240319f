"""The arithmetic of `benchmarks/scale_model.py`, with numbers worked by hand."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "scale_model.py"


def load_model() -> Any:
    spec = importlib.util.spec_from_file_location("scale_model", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["scale_model"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


model = load_model()
COSTS = model.Costs(
    tick=1.0, agent=0.5, message=2.0, overhead=1.0, minibatch=3.0, row=0.25, hand_over=0.1, exchange=2.0
)
GAME = model.Workload("game", step=9.0, agents=2, rollout=8, batch=4, epochs=2, core=1.0)


def test_one_copy_and_the_process_wait_for_each_other_in_turn():
    # a tick: 1 + 2 + 2 * 0.5 = 4 s of choosing, then 9 + 1 = 10 s of the copy, for which all ticks but the first wait
    assert model.collecting(COSTS, GAME, 1, 1.0, 8) == (30.0, 16.0)


def test_copies_that_are_ready_together_share_a_tick():
    # two ready at once: 1 + 2 * (2 + 1) = 7 s for four decisions; both are ready again 10 s later
    assert model.collecting(COSTS, GAME, 2, 2.0, 8) == (10.0, 14.0)


def test_copies_that_keep_more_cores_busy_than_there_are_take_longer():
    # two copies on one core: 20 s instead of 10; asleep in their step they only share the 1 s beside it
    assert model.collecting(COSTS, GAME, 2, 1.0, 8) == (20.0, 14.0)
    assert model.collecting(COSTS, replace(GAME, core=0.0), 2, 1.0, 8) == (10.0, 14.0)


def test_a_built_in_environment_steps_in_the_process_itself():
    # 4 ticks of 2 agents: 4 * 2 * 9 s; 4 * (1 + 2 * 0.5) s
    assert model.collecting(COSTS, replace(GAME, built_in=True), 1, 1.0, 8) == (72.0, 8.0)


def test_ranks_share_the_rows_of_a_gradient_step_and_exchange_once_for_each_doubling():
    # 2 epochs of 2 gradient steps: 3 + 0.25 * 4 = 4 s each; four ranks: 3 + 0.25 s, and 2 * 2 s of exchange
    assert model.learning(COSTS, GAME, 1) == (16.0, 0.0)
    assert model.learning(COSTS, GAME, 4) == (13.0, 16.0)


def test_a_threaded_run_takes_as_long_as_the_longer_of_both_and_names_it():
    serial = model.predict(COSTS, GAME, model.Place(1, 1.0))
    assert serial.rate == pytest.approx(8 / (30 + 16 + 16))
    assert serial.bottleneck == "environment"
    threaded = model.predict(COSTS, GAME, model.Place(1, 1.0, threaded=True))
    assert threaded.rate == pytest.approx(8 / (30 + 16 + 0.8))
    slow = model.predict(replace(COSTS, minibatch=20.0), GAME, model.Place(1, 1.0, threaded=True))
    assert slow.rate == pytest.approx(8 / (4 * 21))
    assert slow.bottleneck == "learning"  # 84 - 46.8 = 37.2 s of waiting for it, 30 s of the environment
