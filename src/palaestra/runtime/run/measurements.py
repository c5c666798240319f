"""Tells a run's statistics which episodes ended and what the environment measured."""

from __future__ import annotations

from palaestra.core.metrics import GROUP_REWARD, SUCCESS
from palaestra.envs.base import Measures
from palaestra.runtime.run.training_run import Run


def note_episodes(run: Run) -> None:
    """Sums the episodes that ended and tells the statistics."""
    for name, seat in run.teachers.seats.items():
        returns = seat.meter.take()
        for pupil in run.teachers.pupils(name, run.learners) if len(returns.returns) else []:
            run.statistics.add(pupil.name, "Imitation/Teacher Reward", float((returns.returns + returns.group_returns).mean()))
    for name, learner in run.learners.items():
        ended = learner.seat.meter.take()
        run.lessons.episodes(name, ended)
        if len(ended.returns):
            rewards = learner.settings.reward_signals
            strength = rewards["extrinsic"].strength if "extrinsic" in rewards else 0.0
            extrinsic = (ended.returns + ended.group_returns) * strength
            told = {"extrinsic": extrinsic.tolist()}
            if ended.mates.any():
                told["judged"] = (ended.returns + ended.group_returns)[ended.last | ~ended.mates].tolist()
            run.statistics.episodes(name, ended.returns.tolist(), ended.lengths.tolist(), **told)
            run.statistics.spread(name, GROUP_REWARD, ended.group_returns[ended.last].tolist())
            run.statistics.extend(name, SUCCESS, ended.success.tolist())
    run.self_play.note(run.statistics)


def note_measurements(run: Run) -> None:
    """Tells the statistics what the environment measured itself, once for each behavior: an environment names none."""
    if not run.learners or not isinstance(run.env, Measures):
        return
    for tag, value, kind in run.env.take_measurements():
        for name in run.learners:
            match kind:
                case "mean":
                    run.statistics.add(name, tag, value)
                case "latest":
                    run.statistics.latest(name, tag, value)
                case "total":
                    run.statistics.total(name, tag, value)
                case "spread":
                    run.statistics.spread(name, tag, (value,))
