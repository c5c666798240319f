"""What all tests share."""

import gc
from collections import Counter

import pytest

cases = Counter[str]()
gc.disable()  # until all tests are collected: a third of that time


def pytest_collection_finish() -> None:
    """Looks for garbage from now on, but not among the tests and the libraries."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Makes slow tests of all cases of a test but the first so many, where it is marked `few`."""
    few = item.get_closest_marker("few")
    if few is not None:
        name = item.nodeid.partition("[")[0]
        cases[name] += 1
        if cases[name] > few.args[0]:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _runs_draw_no_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a tiny run's time would go to its picture. Tests that look at it are marked `curves`."""
    if request.node.get_closest_marker("curves") is None:
        monkeypatch.setattr("palaestra.runtime.run.last_words.closing_lines.curves", lambda run: [])


@pytest.fixture
def patient_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets games that are closed end by themselves, however busy the machine: some leave a note as they do."""
    monkeypatch.setattr("palaestra.envs.unity.game_instance.CLOSE_SECONDS", 120.0)
    monkeypatch.setattr("palaestra.envs.unity.process.TERMINATE_GRACE", 120.0)
