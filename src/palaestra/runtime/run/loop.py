"""The training loop: collect, meet, update, summarize. What else a run does, its parts do
(`runtime/parts/part.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

from palaestra.core.errors import EnvError
from palaestra.runtime.logging.bottleneck import LEARNING
from palaestra.runtime.run.run import Run

PAUSE = 0.25
"""Seconds after which collecting pauses to handle signals and the progress line."""


def train(run: Run) -> None:
    """Collects, learns and summarizes, until every behavior has reached its max_steps or the run is stopped."""
    while not run.finished and not run.meetings.stopping:
        collect(run)
        if run.meetings.due(run.collector, run.stopped):
            full = run.meet()
            update(run, full)
            summarize(run)
            for part in run.at_work:
                part.round_ended()
        for part in run.parts:
            part.paused()
    for part in run.parts:
        part.finished()


def collect(run: Run) -> None:
    """Steps the environment until a rollout is full, something is due or a pause is over, and measures the episodes
    that ended. Raises Diverged if diverged weights caused an EnvError.
    """
    pause = perf_counter() + PAUSE
    if not run.meetings.meets_first:
        with run.timers("collect"):
            try:
                run.collector.advance(run.ticks_ahead(), lambda: run.stopped or perf_counter() > pause)
            except EnvError:
                run.must_be_finite()
                raise
    run.measure_episodes()
    for part in run.at_work:
        part.collected()


def update(run: Run, full: Iterable[str]) -> None:
    """Updates the policies that learn from the rollouts of these behaviors, which are full."""
    rollouts = {name: run.collector.take(name) for name in full}
    learning = [(learner, rollout) for name, rollout in rollouts.items() for learner in run.students(name)]
    with run.update_times.of([learner.name for learner, _ in learning]), run.threads.all():
        for learner, rollout in learning:
            with run.timers("update"), run.clock.spending_on(LEARNING):
                metrics = learner.update(rollout)
            run.note_update(learner, metrics)
            for part in run.at_work:
                part.updated(learner)
    run.retire()


def summarize(run: Run) -> None:
    """Writes the summaries that are due."""
    due = [learner for learner in run.learners.values() if learner.step >= learner.next_summary]
    if due:
        run.meetings.report()
        run.must_be_writable()  # before a summary counts as written
    for learner in due:
        summary = run.write_summary(learner)
        for part in run.at_work:
            part.summarized(learner, summary)
    if run.endings():
        run.stopped = True
