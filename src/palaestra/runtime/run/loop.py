"""The training loop: everything that a run does, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from palaestra.core.errors import EnvError
from palaestra.core.metrics import GROUP_REWARD, SUCCESS
from palaestra.data.rollout import Rollout
from palaestra.envs.base import Measures
from palaestra.parallel import ranks
from palaestra.runtime.logging.bottleneck import LEARNING
from palaestra.runtime.logging.console import ProgressRow
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run import report
from palaestra.runtime.run.keeping_best import keep_best, keep_final
from palaestra.runtime.run.obeying import obey, tell_progress
from palaestra.runtime.run.saving import (
    is_late,
    may_be_lost,
    must_be_writable,
    save_if_due,
    saves_much,
    write_due_models,
)
from palaestra.runtime.run.training_run import Run

Callback = Callable[[Summary], object]
"""Called with every summary; a callback that returns True ends the run, saved."""

PAUSE = 0.25
"""Seconds after which collecting pauses to handle signals and the progress line."""


def train(run: Run, callbacks: Sequence[Callback] = ()) -> None:
    """Collects, learns, reports and saves, until every behavior has reached its max_steps or the run is stopped."""
    while not run.finished and not run.rounds.stopping:
        pause = perf_counter() + (
            0.0 if run.save_due else PAUSE
        )  # the next tick may be the one on which no trainer is busy
        with run.timers("collect"):
            if not run.rounds.meets_first:
                collect(run, pause)
        note_episodes(run)
        note_measurements(run)
        report.outline_new(run)
        if ranks.size() == 1:
            obey(run)
        if not run.rounds.due(run.stopped):
            show(run)
            continue
        full = run.rounds.meet(
            stopped=run.stopped,
            late=lambda: is_late(run),
            lost=lambda: may_be_lost(run),
            saves_much=lambda: saves_much(run),
        )
        if run.rounds.lost:
            must_be_writable(run)
        if ranks.size() > 1:
            obey(run)
        rollouts = {name: run.collector.take(name) for name in full}
        learning = [student.name for name in rollouts for student in run.teachers.students(name, run.learners)]
        with run.update_times.of(learning), run.all_threads():
            for name, rollout in rollouts.items():
                with run.timers("update"):
                    update(run, name, rollout)
        run.retire()
        if ranks.size() == 1:  # several have heard of it when they met
            run.folder.must_be_writable(at_once=False)
        keep_best(run, summarize(run, callbacks))
        change_lessons(run)
        write_due_models(run)
        save_if_due(run)
        show(run)
    keep_final(run)


def collect(run: Run, pause: float) -> None:
    """Steps the environment until `pause` or until a rollout is full. Raises Diverged if diverged weights caused an
    EnvError.
    """
    try:
        run.collector.advance(run.ticks_ahead(), lambda: run.stopped or perf_counter() > pause)
    except EnvError:
        run.must_be_finite()
        raise


def update(run: Run, name: str, rollout: Rollout) -> None:
    """Updates the learners of a rollout and adds their metrics to the statistics."""
    for learner in run.teachers.students(name, run.learners):
        with run.clock.spending_on(LEARNING):
            metrics = learner.update(rollout)
        learner.warn(run.console.warning)
        run.update_times.ended(learner.name)
        for tag, value in metrics.items():
            run.journal.add(learner.name, tag, value)
        run.statistics.policy_updated(learner.name)
        run.self_play.updated(learner.name)


def summarize(run: Run, callbacks: Sequence[Callback]) -> list[Summary]:
    """Writes the summaries that are due, and returns them."""
    written = list[Summary]()
    if any(learner.step >= learner.next_summary for learner in run.learners.values()):
        run.rounds.report()
    for name, learner in run.learners.items():
        if learner.step >= learner.next_summary:
            must_be_writable(run)  # before the summary counts as written
        due = learner.summary_due()
        if due is None:
            continue
        run.lessons.log(run.statistics, name)
        training = learner.training or run.finished
        times = report.times_since_summary(run, name)
        summary = run.statistics.summarize(name, due, elapsed=run.clock.elapsed, training=training, times=times)
        written.append(summary)
        run.lessons.summary(summary)
        for symptom in run.symptoms.note(summary, learner.settings, learner.spec.action):
            run.console.warning(symptom)
        for line in run.lessons.status(name):
            run.console.info(line)
        learner.tell(run.console.info, run.console.warning)
        wanted = None if run.inference or not learner.training else learner.settings.stop_when
        if (ended := run.goals.note(summary, wanted, last_lesson=run.lessons.curricula.finished)) is not None:
            run.console.info(f"'{name}' needs no more training ({ended.ending}): {ended.reason}")
            run.models.status.set_ending(name, ended.ending, ended.reason)
        if ranks.leads() and any(callback(summary) is True for callback in callbacks):  # what stops rank 0 stops all
            run.stopped = True
    if ranks.leads() and run.endings:
        run.stopped = True
    report.tell_bottleneck_once(run)
    return written


def change_lessons(run: Run) -> None:
    """Starts the lessons that are due."""
    met = run.lessons.advance(run.learners, {name: behavior.elo for name, behavior in run.self_play.behaviors.items()})
    if met:
        run.models.status.forget_endings(run.goals.begin_lesson(run.learners))
        for collector in run.collector.collectors.values():
            collector.meter.mark()
    if any(criterion.require_reset for criterion in met):
        run.collector.restart(run.settings.env_settings.seed + run.step)


def show(run: Run) -> None:
    """Updates the progress line and the file of the progress."""
    tell_progress(run)
    if not run.console.due():
        return
    rows = [
        ProgressRow(
            name, learner.step, None if run.inference else learner.settings.max_steps, run.statistics.reward(name)
        )
        for name, learner in run.learners.items()
    ]
    spent = run.clock.spent()
    session = run.clock.session
    run.console.progress(rows, {name: seconds / session for name, seconds in spent.items()}, run.lessons.status())


def note_episodes(run: Run) -> None:
    """Adds the episodes that ended to the statistics."""
    for name, collector in run.teachers.collectors.items():
        returns = collector.meter.take()
        for student in run.teachers.students(name, run.learners) if len(returns.returns) else []:
            run.journal.add(student.name, "Imitation/Teacher Reward", float(returns.together.mean()))
    for name, learner in run.learners.items():
        ended = learner.collector.meter.take()
        run.journal.lessons(name, run.lessons.measured_returns(ended))
        if len(ended.returns):
            rewards = learner.settings.reward_signals
            strength = rewards["extrinsic"].strength if "extrinsic" in rewards else 0.0
            columns = {"extrinsic": (ended.together * strength).tolist(), "judged": ended.judged.tolist()}
            grouped = bool(ended.in_group.any())
            run.journal.episodes(name, ended.returns.tolist(), ended.lengths.tolist(), grouped=grouped, **columns)
            run.journal.spread(name, GROUP_REWARD, ended.group_returns[ended.last_of_group].tolist())
            run.journal.extend(name, SUCCESS, ended.success.tolist())
    run.self_play.note(run.journal)


def note_measurements(run: Run) -> None:
    """Adds what the environment measured to the statistics of every behavior, because it belongs to none in
    particular.
    """
    if not run.learners or not isinstance(run.env, Measures):
        return
    for tag, value, kind in run.env.take_measurements():
        for name in run.learners:
            run.journal.measure(name, tag, value, kind)
