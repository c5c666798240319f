"""What all tests share."""

from __future__ import annotations

import gc

import pytest

gc.disable()  # until all tests are collected: a third of that time


def pytest_collection_finish() -> None:
    """Looks for garbage from now on, but not among the tests and the libraries."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _runs_draw_no_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a tiny run's time would go to its picture. Tests that look at it are marked `curves`."""
    if request.node.get_closest_marker("curves") is None:
        monkeypatch.setattr("palaestra.runtime.run.report.curves", lambda run: [])
