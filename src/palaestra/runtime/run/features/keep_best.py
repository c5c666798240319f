"""Keeps the best model of a behavior, and the checkpoint that it is of, as `keep_best` says.

Policies are evaluated aside: in an environment of their own, with random numbers of their own, and only when a summary
has been written or the run has ended, so that a run learns the same, digit for digit, with and without.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.brains.model import load_policy
from palaestra.core.errors import STOPS, ConfigError, EnvError
from palaestra.core.files import file_name
from palaestra.core.metrics import REWARD
from palaestra.envs.base import Env
from palaestra.models.trunk import Trunk
from palaestra.onnx_export import onnx
from palaestra.parallel.closing import reason_of
from palaestra.runtime.collect.learner import Learner, must_be_finite
from palaestra.runtime.logging.bottleneck import EVALUATION
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.parts.part import RunPart, endings_of
from palaestra.runtime.play.best_models import Reopen, untouched_random_numbers
from palaestra.runtime.play.evaluation import Evaluation, evaluate
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.rank_states import with_other_ranks
from palaestra.scenario.ending_settings import KeepBestSettings

FOLDER = "best"
"""Folder within a behavior's, with the checkpoint of its best model."""


@dataclass
class Best:
    """The best model of a behavior so far."""

    value: float | None = None
    step: int = 0
    due: int = 0
    """Step of the first summary at which the behavior is measured next."""
    measured: int = -1
    """Step at which it was measured last."""


class _LeftOut(Exception):
    """Raised within an evaluation when the run is told to stop."""


class KeepBest(RunPart):
    """Measures the behaviors whose settings say so, and keeps those that are better than before."""

    name = "keep_best"
    what_is_closed = "the environment of evaluations"

    def __init__(self, run: Run, reopen: Reopen | None) -> None:
        """`reopen`: opens another environment; None if there cannot be one."""
        self._run = run
        self._reopen = reopen
        self._best: dict[str, Best] = {}
        self._env: Env | None = None
        self._summaries: list[Summary] = []
        """Summaries of the present round."""
        self._refused: set[str] = set()
        """Behaviors that appeared late, whose settings cannot be followed."""

    @property
    def idle(self) -> bool:
        """Whether no behavior keeps its best model."""
        return all(self._wanted(learner) is None for learner in self._run.learners.values())

    def joined(self, learner: Learner) -> None:
        """Raises ConfigError for settings that cannot be followed. In a run that goes on it warns of them."""
        if self._wanted(learner) is None:
            return
        problem = self._problem(learner)
        if problem is not None:
            if not self._run.begun:
                raise ConfigError(f"behavior '{learner.name}': {problem}")
            self._refused.add(learner.name)
            self._run.console.warning(f"behavior '{learner.name}': {problem}; its best model is not kept")

    def _problem(self, learner: Learner) -> str | None:
        others = self._run.learners
        for name, other in (
            (learner.name, f"{learner.name}-{FOLDER}"),
            (learner.name.removesuffix(f"-{FOLDER}"), learner.name),
        ):
            if name != other and name in others and other in others and self._wanted(others[name]) is not None:
                return f"keep_best of '{name}' would write the file of behavior '{other}'; rename one of them"
        wanted = self._wanted(learner)
        if wanted is None or wanted.metric is not None:
            return None
        if learner.settings.self_play is not None:
            return (
                "keep_best would evaluate the policy against itself, which says nothing; choose a metric, such as "
                "metric: Self-play/ELO"
            )
        if self._reopen is None:
            return (
                "keep_best evaluates in an environment of its own, and this one cannot be opened twice; choose a "
                "metric of the training, such as metric: Environment/Cumulative Reward, or give train() a function "
                "that makes one"
            )
        return None

    def _wanted(self, learner: Learner) -> KeepBestSettings | None:
        off = learner.inference or learner.name in self._refused
        return None if off else learner.settings.keep_best

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Takes a summary, after which the policy may be measured."""
        if self._wanted(learner) is not None:
            self._summaries.append(summary)

    def round_ended(self) -> None:
        """Measures the behaviors whose turn it is."""
        summaries = self._summaries
        self._summaries = []
        for summary in summaries:
            learner = self._run.learners[summary.behavior]
            wanted = self._wanted(learner)
            assert wanted is not None
            # the final policy is evaluated once, by `loop_ended`
            if wanted.metric is None and not learner.training:
                continue
            best = self._best.setdefault(learner.name, Best())
            known = best.measured == learner.step or best.measured >= learner.settings.max_steps
            if not known and (summary.step >= best.due or not learner.training):
                self._compare(learner, best, wanted, summary)

    def loop_ended(self) -> None:
        """Evaluates the final policies, whether or not a summary falls on the end of the run."""
        run = self._run
        if run.inference or run.step == run.first_step or not (run.finished or endings_of(run.parts)):
            return
        for learner in run.meetings.shared():
            wanted = self._wanted(learner)
            if wanted is None or wanted.metric is not None:
                continue
            best = self._best.setdefault(learner.name, Best())
            if best.measured != learner.step or _network(learner, None) is not learner.trainer.network:
                self._compare(learner, best, wanted, None)

    def _compare(self, learner: Learner, best: Best, wanted: KeepBestSettings, summary: Summary | None) -> None:
        run = self._run
        with run.clock.spending_on(EVALUATION):
            measured, left_out = run.group.when_first_is_done(lambda: self._measure(learner, wanted, summary))
            if left_out:
                return
            best.measured = learner.step
            step = learner.step if summary is None else summary.step
            best.due = step + (wanted.every or learner.settings.checkpoint_interval)
            if measured is None or (best.value is not None and measured <= best.value):
                return
            best.value = measured
            best.step = learner.step
            self._keep(learner, _network(learner, summary), measured)

    def _measure(
        self, learner: Learner, wanted: KeepBestSettings, summary: Summary | None
    ) -> tuple[float | None, bool]:
        """Returns the policy's value (None if there is none), and whether it is left out as the run stops."""
        run = self._run
        if summary is not None and wanted.metric == REWARD:
            return (float(summary.judged.mean()) if len(summary.judged) else None), False
        if summary is not None and wanted.metric is not None:
            return summary.values.get(wanted.metric), False
        try:
            value = self._evaluate(learner, wanted, summary)
        except _LeftOut:
            run.console.info(f"'{learner.name}' is not evaluated at step {learner.step:,}, because the run stops")
            return None, True
        except STOPS:
            raise
        except BaseException as error:  # a user's environment may raise anything, and the run trains in another
            run.console.warning(
                f"'{learner.name}' could not be evaluated at step {learner.step:,}: {reason_of(error)}; training goes "
                "on"
            )
            return None, False
        run.console.info(
            f"'{learner.name}' at step {learner.step:,}: mean reward {value:.3f} over {wanted.episodes} episodes of "
            "keep_best"
        )
        return (value if np.isfinite(value) else None), False

    def _evaluate(self, learner: Learner, wanted: KeepBestSettings, summary: Summary | None) -> float:
        run = self._run

        def go_on(_: int) -> None:
            if run.asked_to_stop:
                raise _LeftOut

        go_on(0)
        with untouched_random_numbers(), tempfile.TemporaryDirectory() as place:
            files = {name: Path(place) / f"{file_name(name)}.onnx" for name in run.learners}
            for name, file in files.items():
                onnx.export(_network(run.learners[name], summary), run.learners[name].spec, file)
            policies = {name: load_policy(file, seed=wanted.seed) for name, file in files.items()}
            if self._env is None:
                assert self._reopen is not None
                self._env = self._reopen(min(wanted.episodes, 100))
            results = evaluate(
                self._env,
                policies,
                wanted.episodes,
                deterministic=wanted.deterministic,
                seed=wanted.seed,
                progress=go_on,
            )
            return _mean(learner.name, results)

    def _keep(self, learner: Learner, network: Trunk, value: float) -> None:
        run = self._run
        must_be_finite(run.learners)
        state = with_other_ranks(run.state_dict(), run.group)

        def write() -> None:
            path = run.models.write_best(learner, network, value)
            if path is not None:
                folder = run.folder.path / file_name(learner.name) / FOLDER
                folder.mkdir(parents=True, exist_ok=True)
                Checkpoints(folder / "checkpoints", 1).save(run.step, state)
                run.console.info(f"The best '{learner.name}' so far ({value:.3f}): {path}")

        run.group.first(write)

    def report(self) -> Iterator[str]:
        """Yields the best model of each behavior that keeps one, with its value and step."""
        for name, best in self._best.items():
            path = self._run.folder.path / f"{file_name(name)}-best.onnx"
            if best.value is not None and path.is_file():
                yield f"best model   {path} ({best.value:.4g} at step {best.step:,})"

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the best models so far."""
        return {name: asdict(best) for name, best in self._best.items()}

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores the best models."""
        self._best = {name: Best(**one) for name, one in state.items()}

    def close(self) -> None:
        """Closes the environment of evaluations, if it was opened."""
        if self._env is not None:
            self._env.close()
            self._env = None


def _network(learner: Learner, summary: Summary | None) -> Trunk:
    """Returns the network that acts at a summary; at the end of a run (None), the one after the last update."""
    return learner.process.newest_network() if summary is None else learner.trainer.network


def _mean(behavior: str, results: Mapping[str, Evaluation]) -> float:
    """Returns a behavior's mean return, of whole groups if it has any. Raises EnvError if it has not played."""
    own = [result for name, result in results.items() if name == behavior or name.startswith(f"{behavior}?team=")]
    if not own:
        there = ", ".join(results) or "no behavior"
        raise EnvError(f"it did not appear in the environment of evaluations (there: {there})")
    groups = np.concatenate([result.group_returns for result in own])
    returns = groups if len(groups) else np.concatenate([result.returns for result in own])
    return float(returns.mean())
