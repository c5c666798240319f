"""A run with several threads says once if other programs leave fewer cores than it has threads."""

import pytest
import torch

from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect import threads
from palaestra.runtime.collect.threads import ComputeThreads

SAID = (
    "other programs on this machine leave about {} cores for {} threads, which wait for one another: --torch-threads=1 "
    "may be several times as fast, also with --resume"
)


@pytest.fixture(autouse=True)
def _same_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def said(
    monkeypatch: pytest.MonkeyPatch, number: int, later: tuple[float, float, float], *, busy: bool = False
) -> list:
    """Returns the warnings of a run whose clocks are 0 at first, then `later` (seconds, own, idle)."""
    clocks = iter([(0.0, 0.0, 0.0), later])
    monkeypatch.setattr(threads, "_clocks", lambda: next(clocks))
    monkeypatch.setattr(threads, "SPAN", 0.0)
    chosen = ComputeThreads(number, {}, RankGroup(), cores_are_busy=busy)
    chosen.choose(print)
    warnings = list[str]()
    for _ in range(3):
        chosen.look_for_company(warnings.append)
    return warnings


def test_threads_that_have_too_few_cores_are_told_once(monkeypatch: pytest.MonkeyPatch):
    # in 10 s the run computed 11 s on 2 cores, and nobody left more than 1 s idle: 1.2 cores for 2 threads
    assert said(monkeypatch, 2, (10.0, 11.0, 1.0)) == [SAID.format(1.2, 2)]


@pytest.mark.parametrize("later", [(10.0, 12.0, 8.0), (10.0, 2.0, 300.0), (10.0, 20.0, 0.0)])
def test_threads_that_have_their_cores_are_not(monkeypatch: pytest.MonkeyPatch, later: tuple[float, float, float]):
    assert said(monkeypatch, 2, later) == []


def test_one_thread_or_copies_of_the_environment_beside_it_are_not_measured(monkeypatch: pytest.MonkeyPatch):
    assert said(monkeypatch, 1, (10.0, 5.0, 0.0)) == []
    assert said(monkeypatch, 2, (10.0, 5.0, 0.0), busy=True) == []


def test_the_clocks_count_seconds_of_this_process_and_of_all_cores():
    before = threads._clocks()
    sum(range(3_000_000))
    after = threads._clocks()
    assert after[1] - before[1] > 0.0
    assert after[0] - before[0] >= 0.9 * (after[1] - before[1])
