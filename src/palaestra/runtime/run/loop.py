"""The training loop: collect, synchronize ranks, update, measure, summarize. The parts of a run do all its other work
(`runtime/parts/part.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import torch

from palaestra.core.errors import EnvError
from palaestra.core.metrics import GROUP_REWARD, SUCCESS
from palaestra.runtime.collect.episodes import Episodes
from palaestra.runtime.collect.learner import Learner, must_be_finite
from palaestra.runtime.logging.bottleneck import bottleneck
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run.training_run import Run, setup_of

PAUSE = 0.25
"""Seconds after which collecting pauses to handle signals and the progress line."""


def train(run: Run) -> None:
    """Collects, learns and summarizes, until every behavior has reached its max_steps or the run is stopped."""
    pause = perf_counter() + PAUSE
    while not run.finished and not run.meetings.stopping:
        collect(run, pause)
        due = run.meetings.due(run.collector, run.stopped)
        updated = update(run, meet(run) if due else [])
        measure(run, updated)
        run.retire()
        if due:
            summarize(run)
            for part in run.at_work["round_ended"]:
                part.round_ended()
        if perf_counter() >= pause:
            for part in run.parts:
                part.paused()
            run.threads.look_for_company(run.console.warning)
            pause = perf_counter() + PAUSE
    if run.clock.rounds:
        for part in run.parts:
            part.paused()
    for part in run.parts:
        part.loop_ended()


def collect(run: Run, pause: float) -> None:
    """Steps the environment until a rollout is full, something is due, or a pause is due. Raises Diverged if an
    EnvError was caused by diverged weights."""
    if run.meetings.meets_first:
        return
    begun = perf_counter()
    ticks = [learner.ticks_ahead for learner in run.meetings.awaited()]
    ticks += [ahead for part in run.at_work["ticks_ahead"] if (ahead := part.ticks_ahead()) is not None]
    try:
        run.collector.advance(min(ticks, default=1), lambda: run.stopped or perf_counter() > pause)
    except EnvError:
        must_be_finite(run.learners)
        raise
    run.clock.collecting += perf_counter() - begun
    run.clock.rounds += 1


def meet(run: Run) -> list[str]:
    """Meets the other ranks. Returns the behaviors whose rollouts are full on all ranks."""
    full = run.meetings.meet(run.collector, stopped=run.stopped, lost=run.folder.may_be_lost)
    if run.meetings.lost:
        run.must_be_writable()
    elif run.meetings.have_met:
        for part in run.at_work["met"]:
            part.met()
    return full


def update(run: Run, full: Iterable[str]) -> list[Learner]:
    """Updates the policies that learn from the full rollouts of these behaviors. Returns their learners."""
    rollouts = {name: run.collector.take(name) for name in full}
    shared = run.meetings.shared()
    learning = [(one, rollout) for name, rollout in rollouts.items() for one in shared if one in run.students[name]]
    run.updating = [learner for learner, _ in learning]
    if learning:
        torch.set_num_threads(run.threads.learning)
    for learner, rollout in learning:
        metrics = learner.update(rollout)
        run.updating = run.updating[1:]
        learner.messages.send_warnings(run.console.warning, rollout)
        for tag, value in metrics.items():
            run.journal.add(learner.name, tag, value)
    if learning:
        torch.set_num_threads(run.threads.acting)
    return [learner for learner, _ in learning]


def measure(run: Run, updated: Iterable[Learner]) -> None:
    """Adds the episodes that ended, and the environment's measurements, to the statistics."""
    for name, collector in run.teachers.collectors.items():
        returns = collector.meter.take()
        for student in run.students[name] if len(returns.returns) else ():
            run.journal.add(student.name, "Imitation/Teacher Reward", float(returns.together.mean()))
    for learner in run.learners.values():
        ended = learner.collector.meter.take()
        if len(ended.returns):
            for part in run.at_work["episodes_ended"]:
                part.episodes_ended(learner, ended)
            add_episodes(run, learner, ended)
    if run.learners:
        for tag, value, kind in run.env.take_measurements():
            for name in run.learners:  # it belongs to none in particular
                run.journal.measure(name, tag, value, kind)
    for learner in updated:
        run.statistics.policy_updated(learner.name)
        for part in run.at_work["updated"]:
            part.updated(learner)
    for part in run.at_work["collected"]:
        part.collected()


def add_episodes(run: Run, learner: Learner, ended: Episodes) -> None:
    """Adds episodes of a behavior to the statistics."""
    rewards = learner.settings.reward_signals
    strength = rewards["extrinsic"].strength if "extrinsic" in rewards else 0.0
    run.journal.episodes(
        learner.name,
        ended.returns.tolist(),
        ended.lengths.tolist(),
        extrinsic=(ended.together * strength).tolist(),
        judged=ended.judged.tolist(),
        grouped=bool(ended.in_group.any()),
    )
    run.journal.spread(learner.name, GROUP_REWARD, ended.group_returns[ended.last_of_group].tolist())
    run.journal.extend(learner.name, SUCCESS, ended.success.tolist())


def summarize(run: Run) -> None:
    """Writes the summaries that are due, and ends the run if no behavior needs more training."""
    due = [learner for learner in run.meetings.shared() if learner.step >= learner.next_summary]
    if due:
        run.meetings.report()
        run.must_be_writable()  # before a summary counts as written
    for learner in due:
        summary = write_summary(run, learner)
        for part in run.at_work["summarized"]:
            part.summarized(learner, summary)
    if any(part.endings() for part in run.at_work["endings"]):
        run.end()


def write_summary(run: Run, learner: Learner) -> Summary:
    """Ends the period of a behavior whose summary is due, and sends the summary to the trackers."""
    step = learner.summary_due()
    assert step is not None
    times = run.clock.times_since_summary(learner.name, run.meetings.times)
    times["bottleneck"] = bottleneck(run.meetings.times, setup_of(run))
    summary = run.statistics.summarize(
        learner.name, step, elapsed=run.clock.elapsed, training=learner.training or run.finished, times=times
    )
    learner.messages.send(run.console.info, run.console.warning)
    return summary
