from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from palaestra.runtime.logging import run_times
from palaestra.runtime.logging.run_times import wait_for


@dataclass
class Updating:
    """A learner in an update."""

    last_update: float | None = None
    update_began: float = 0.0
    trainer: Any = field(default_factory=SimpleNamespace)


def after(monkeypatch: pytest.MonkeyPatch, seconds: float, *learners: Updating, progress: float | None = None) -> str:
    """What a run says so many seconds after the first learner's update began."""
    monkeypatch.setattr(run_times.time, "perf_counter", lambda: seconds)
    if progress is not None:
        learners[0].trainer.progress = progress
    return wait_for(learners)  # pyright: ignore[reportArgumentType]


UNKNOWN = "the first update is under way for 7 s; how long one takes is not known yet"
CASES = [
    ("no update", 0, [], None, ""),
    ("less what has passed", 12.5, [30.0], None, "an update is under way, about 18 s left"),
    ("longer than the last", 112.5, [30.0], None, "an update is under way, about 1 s left"),
    ("another that follows", 10, [30.0, 200.0], None, "an update is under way, about 3 min 40 s left"),
    ("a first one", 7, [None], None, UNKNOWN),
    ("a first one that begins", 7, [None], 0.0, UNKNOWN),
    ("a first one that goes on", 7, [None], 0.1, "an update is under way, about 63 s left"),
    ("too early to say", 5, [10.0], 0.1, "an update is under way, about 5 s left"),
    ("slower than the last", 10, [10.0], 0.25, "an update is under way, about 30 s left"),
    ("a short one", 0, [0.4], None, ""),
]


@pytest.mark.parametrize(
    ("seconds", "last", "progress", "says"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_a_stop_says_how_long_updates_take(seconds, last, progress, says, monkeypatch):
    assert after(monkeypatch, seconds, *map(Updating, last), progress=progress) == says
