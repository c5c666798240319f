from __future__ import annotations

import pytest

from palaestra.runtime.logging import run_times
from palaestra.runtime.logging.run_times import UpdateTimes


def unknown(behavior: str) -> float | None:
    """Progress of a trainer that does not tell."""
    return None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, to be set by hand."""
    now = [0.0]
    monkeypatch.setattr(run_times.time, "perf_counter", lambda: now[0])
    return now


def update(times: UpdateTimes, clock: list[float], **seconds: float) -> None:
    """Each behavior's update takes so long."""
    with times.of(list(seconds)):
        for name, spent in seconds.items():
            clock[0] += spent
            times.ended(name)


def test_outside_of_updates_there_is_nothing_to_wait_for(clock: list[float]):
    times = UpdateTimes()
    update(times, clock, A=30.0)
    assert times.wait(unknown) == ""


def test_the_wait_is_what_the_last_update_took_less_what_has_passed(clock: list[float]):
    times = UpdateTimes()
    update(times, clock, A=30.0)
    with times.of(["A"]):
        clock[0] += 12.5
        assert times.wait(unknown) == "an update is under way, about 18 s left"
        clock[0] += 100
        assert times.wait(unknown) == "an update is under way, about 1 s left"


def test_updates_of_other_behaviors_that_follow_count_too(clock: list[float]):
    times = UpdateTimes()
    update(times, clock, A=30.0, B=200.0)
    with times.of(["A", "B"]):
        clock[0] += 10
        assert times.wait(unknown) == "an update is under way, about 3 min 40 s left"
        times.ended("A")
        clock[0] += 150
        assert times.wait(unknown) == "an update is under way, about 50 s left"


def test_of_a_first_update_it_says_that_nothing_is_known(clock: list[float]):
    times = UpdateTimes()
    with times.of(["A"]):
        clock[0] += 7
        assert times.wait(unknown) == "the first update is under way for 7 s; how long one takes is not known yet"


def test_a_first_update_goes_by_what_is_done_of_it(clock: list[float]):
    times = UpdateTimes()
    with times.of(["A"]):
        clock[0] += 7
        assert (
            times.wait(lambda name: 0.0) == "the first update is under way for 7 s; how long one takes is not known yet"
        )
        assert times.wait(lambda name: 0.1) == "an update is under way, about 63 s left"


def test_an_update_that_is_slower_than_the_last_goes_by_what_is_done_of_it(clock: list[float]):
    times = UpdateTimes()
    update(times, clock, A=10.0)
    with times.of(["A"]):
        clock[0] += 5
        assert times.wait(lambda name: 0.1) == "an update is under way, about 5 s left"  # too early to say
        clock[0] += 5
        assert times.wait(lambda name: 0.25) == "an update is under way, about 30 s left"


def test_short_updates_are_not_worth_a_word(clock: list[float]):
    times = UpdateTimes()
    update(times, clock, A=0.4)
    with times.of(["A"]):
        assert times.wait(unknown) == ""
