"""The training loop: collect, meet, update, summarize. What else a run does, its parts do
(`runtime/parts/part.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

from palaestra.core.errors import EnvError
from palaestra.runtime.logging.bottleneck import LEARNING
from palaestra.runtime.run.training_run import Run

PAUSE = 0.25
"""Seconds after which collecting pauses to handle signals and the progress line."""


def train(run: Run) -> None:
    """Collects, learns and summarizes, until every behavior has reached its max_steps or the run is stopped."""
    while not run.finished and not run.meetings.stopping:
        collect(run)
        due = run.meetings.due(run.collector, run.stopped)
        update(run, run.meet() if due else [])
        measure(run)
        if due:
            summarize(run)
            for part in run.at_work:
                part.round_ended()
        run.pause()
    for part in run.parts:
        part.finished()


def collect(run: Run) -> None:
    """Steps the environment until a rollout is full, something is due or a pause is over. Raises Diverged if diverged
    weights caused an EnvError.
    """
    if run.meetings.meets_first:
        return
    pause = perf_counter() + PAUSE
    with run.timers("collect"):
        try:
            run.collector.advance(run.ticks_ahead(), lambda: run.stopped or perf_counter() > pause)
        except EnvError:
            run.must_be_finite()
            raise


def update(run: Run, full: Iterable[str]) -> None:
    """Updates the policies that learn from the rollouts of these behaviors, which are full."""
    rollouts = {name: run.collector.take(name) for name in full}
    learning = [(learner, rollout) for name, rollout in rollouts.items() for learner in run.students(name)]
    with run.update_times.of([learner.name for learner, _ in learning]), run.threads.all():
        for learner, rollout in learning:
            with run.timers("update"), run.clock.spending_on(LEARNING):
                metrics = learner.update(rollout)
            run.note_update(learner, metrics)
    run.retire()


def measure(run: Run) -> None:
    """Adds the episodes that ended, and what was measured, to the statistics."""
    run.add_episodes()
    for learner in run.take_updated():
        run.statistics.policy_updated(learner.name)
        for part in run.at_work:
            part.updated(learner)
    for part in run.at_work:
        part.collected()


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
        run.end()
