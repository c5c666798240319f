"""Keeps the best model of a behavior, and the checkpoint that it is of, as `keep_best` says.

Policies are evaluated aside: in an environment of their own, with random numbers of their own, and only when a summary
has been written or the run has ended, so that a run learns the same, digit for digit, with and without.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from palaestra.brains.model import load_policy
from palaestra.core.errors import STOPS, ConfigError, EnvError
from palaestra.core.files import file_name
from palaestra.core.metrics import REWARD
from palaestra.export import onnx
from palaestra.parallel import ranks
from palaestra.parallel.closing import reason_of
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.bottleneck import EVALUATION
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.play.best_models import Best, Reopen, untouched_random_numbers
from palaestra.runtime.play.evaluation import Evaluation, evaluate
from palaestra.runtime.run.saving import state_dict, with_ranks
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.scenario.ending_settings import KeepBestSettings

FOLDER = "best"
"""Folder within a behavior's, with the checkpoint of its best model."""


def prepare(run: Run, reopen: Reopen | None) -> None:
    """Gives a run the function that opens another environment. Raises ConfigError for a `keep_best` that cannot be
    followed.
    """
    run.best.reopen = reopen
    for name, learner in run.learners.items():
        wanted = learner.settings.keep_best
        if wanted is None or run.inference:
            continue
        if f"{name}-{FOLDER}" in run.learners:
            raise ConfigError(
                f"behavior '{name}': keep_best would write the file of behavior '{name}-{FOLDER}'; rename one of them"
            )
        if wanted.metric is not None:
            continue
        if learner.settings.self_play is not None:
            raise ConfigError(
                f"behavior '{name}': keep_best would evaluate the policy against itself, which says nothing; choose a "
                "metric, such as "
                "metric: Self-play/ELO"
            )
        if reopen is None:
            raise ConfigError(
                f"behavior '{name}': keep_best evaluates in an environment of its own, and this one cannot be opened "
                "twice; choose a "
                "metric of the training, such as metric: Environment/Cumulative Reward, or give train() a function "
                "that makes one"
            )


def keep_best(run: Run, summaries: Iterable[Summary]) -> None:
    """Measures the behaviors whose turn it is, and keeps those that are better than before. All ranks take part."""
    for summary in summaries:
        learner = run.learners[summary.behavior]
        wanted = learner.settings.keep_best
        if wanted is None or run.inference:
            continue
        if wanted.metric is None and not learner.training:  # its final policy is evaluated once, by `keep_final`
            continue
        best = run.best.found.setdefault(learner.name, Best())
        known = best.measured == learner.step or best.measured >= learner.settings.max_steps
        if not known and (summary.step >= best.due or not learner.training):
            _compare(run, learner, best, wanted, summary)


def keep_final(run: Run) -> None:
    """Evaluates the final policies of a run that has ended by itself, whether or not a summary falls on its end. All
    ranks take part.
    """
    if run.inference or run.step == run.first_step or not (run.finished or run.endings):
        return
    for learner in run.learners.values():
        wanted = learner.settings.keep_best
        if wanted is None or wanted.metric is not None:
            continue
        learner.finish()
        best = run.best.found.setdefault(learner.name, Best())
        if best.measured != learner.step:
            _compare(run, learner, best, wanted, None)


def _compare(run: Run, learner: Learner, best: Best, wanted: KeepBestSettings, summary: Summary | None) -> None:
    """Measures the present policy, and keeps it if it is better than the best before. `summary`: None at the end of a
    run.
    """
    with run.timers("evaluate"), run.clock.spending_on(EVALUATION):
        measured, left_out = ranks.from_first(
            _measure(run, learner, wanted, summary) if ranks.leads() else (None, False)
        )
        if left_out:
            return
        best.measured = learner.step
        best.due = (learner.step if summary is None else summary.step) + (
            wanted.every or learner.settings.checkpoint_interval
        )
        if measured is None or (best.value is not None and measured <= best.value):
            return
        best.value = measured
        best.step = learner.step
        keep(run, learner, best)


class _LeftOut(Exception):
    """Raised within an evaluation when the run is told to stop."""


def _measure(
    run: Run, learner: Learner, wanted: KeepBestSettings, summary: Summary | None
) -> tuple[float | None, bool]:
    """Returns the value of the present policy; None if there is none, which is logged. Also whether it is left out, as
    the run stops.
    """
    if summary is not None and wanted.metric == REWARD:
        return (float(summary.judged.mean()) if len(summary.judged) else None), False
    if summary is not None and wanted.metric is not None:
        return summary.values.get(wanted.metric), False

    def go_on(_: int) -> None:
        if run.told_to_stop:
            raise _LeftOut

    try:
        go_on(0)
        with untouched_random_numbers(), tempfile.TemporaryDirectory() as place:
            files = {name: Path(place) / f"{file_name(name)}.onnx" for name in run.learners}
            for name, file in files.items():
                onnx.export(run.learners[name].trainer.network, run.learners[name].spec, file)
            policies = {name: load_policy(file, seed=wanted.seed) for name, file in files.items()}
            env = run.best.env(min(wanted.episodes, 100))
            results = evaluate(
                env, policies, wanted.episodes, deterministic=wanted.deterministic, seed=wanted.seed, progress=go_on
            )
            value = _mean(learner.name, results)
    except _LeftOut:
        run.console.info(f"'{learner.name}' is not evaluated at step {learner.step:,}, because the run stops")
        return None, True
    except STOPS:
        raise
    except BaseException as error:  # a user's environment may raise anything, and the run trains in another
        run.console.warning(
            f"'{learner.name}' could not be evaluated at step {learner.step:,}: {reason_of(error)}; training goes on"
        )
        return None, False
    run.console.info(
        f"'{learner.name}' at step {learner.step:,}: mean reward {value:.3f} over {wanted.episodes} episodes of "
        "keep_best"
    )
    return (value if np.isfinite(value) else None), False


def _mean(behavior: str, results: Mapping[str, Evaluation]) -> float:
    """Returns the mean return of a behavior's episodes; of groups, that of whole groups. Raises EnvError if the
    behavior has not played.
    """
    own = [result for name, result in results.items() if name == behavior or name.startswith(f"{behavior}?team=")]
    if not own:
        raise EnvError(
            f"it did not appear in the environment of evaluations (there: {', '.join(results) or 'no behavior'})"
        )
    groups = np.concatenate([result.group_returns for result in own])
    returns = groups if len(groups) else np.concatenate([result.returns for result in own])
    return float(returns.mean())


def keep(run: Run, learner: Learner, best: Best) -> None:
    """Writes `<Behavior>-best.onnx` and the checkpoint of this moment. Raises Diverged or RunError."""
    run.must_be_finite()
    state = with_ranks(state_dict(run))
    if not ranks.leads():
        return
    assert best.value is not None
    path = run.models.write_best(learner, best.value)
    if path is None:
        return
    folder = run.folder.path / file_name(learner.name) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    Checkpoints(folder / "checkpoints", 1).save(run.step, state)
    run.console.info(f"The best '{learner.name}' so far ({best.value:.3f}): {path}")
