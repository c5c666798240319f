"""What all tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _runs_draw_no_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a tiny run's time would go to its picture. Tests that look at it are marked `curves`."""
    if request.node.get_closest_marker("curves") is None:
        monkeypatch.setattr("palaestra.runtime.run.report.curves", lambda run: [])
