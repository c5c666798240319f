"""The training loop: everything that a run does, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from palaestra.core.errors import EnvError
from palaestra.data.rollout import Rollout
from palaestra.runtime.logging.console import ProgressRow
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run import report
from palaestra.runtime.run.measurements import note_episodes, note_measurements
from palaestra.runtime.run.training_run import Run

Callback = Callable[[Summary], object]
"""Called with every summary; a callback that returns True ends the run, saved."""

PAUSE = 0.25
"""Seconds after which collecting is interrupted for a look at signals and the progress line."""


def train(run: Run, callbacks: Sequence[Callback] = ()) -> None:
    """Collects, learns, reports and saves, until every behavior has reached its max_steps or the run is stopped."""
    while not run.finished and not run.stopped:
        pause = perf_counter() + PAUSE
        with run.timers("collect"):
            rollouts = collect(run, pause)
        note_episodes(run)
        note_measurements(run)
        report.outline_new(run)
        with run.update_times.of([pupil.name for name in rollouts for pupil in run.teachers.pupils(name, run.learners)]):
            for name, rollout in rollouts.items():
                with run.timers("update"):
                    run.update(name, rollout)
        run.retire()
        run.folder.must_be_writable(at_once=False)
        summarize(run, callbacks)
        run.change_lessons()
        if run.checkpoint_due():
            run.save()
        show(run)


def collect(run: Run, pause: float) -> Mapping[str, Rollout]:
    """Steps the environment until `pause`, and returns the full rollouts. Raises Diverged if diverged weights caused an EnvError."""
    try:
        return run.collector.collect(run.ticks_ahead(), lambda: run.stopped or perf_counter() > pause)
    except EnvError:
        run.must_be_finite()
        raise


def summarize(run: Run, callbacks: Sequence[Callback]) -> None:
    """Writes the summaries that are due."""
    for name, learner in run.learners.items():
        if learner.step >= learner.next_summary:
            run.folder.must_be_writable()  # before the summary counts as written
        due = learner.summary_due()
        if due is None:
            continue
        run.lessons.note(run.statistics, name)
        summary = run.statistics.summarize(name, due, elapsed=run.clock.elapsed, training=learner.training or run.finished)
        run.lessons.summary(summary)
        for symptom in run.symptoms.note(summary, learner.settings, learner.spec.action):
            run.console.warning(symptom)
        for line in run.lessons.status(name):
            run.console.info(line)
        learner.tell(run.console.info, run.console.warning)
        if any(callback(summary) is True for callback in callbacks):
            run.stopped = True


def show(run: Run) -> None:
    """Updates the progress line."""
    if not run.console.due():
        return
    rows = [
        ProgressRow(name, learner.step, None if run.inference else learner.settings.max_steps, run.statistics.mean_reward(name))
        for name, learner in run.learners.items()
    ]
    spent, session = run.clock.spent(run.collector.seconds), run.clock.session
    run.console.progress(rows, {name: seconds / session for name, seconds in spent.items()}, run.lessons.status())
