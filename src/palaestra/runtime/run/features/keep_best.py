"""Keeps the best model of a behavior, and its checkpoint, according to the setting `keep_best`.

Policies are evaluated in a separate environment, with separate random numbers, and only after a summary or at the end
of the run, so training is bit-identical with and without the setting. In whatever way a run ends, its final policy is a
candidate; after a signal the run is saved first, and the evaluation must be short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from palaestra.core.display import readable
from palaestra.core.errors import STOPS, ConfigError
from palaestra.core.files import best_file, file_name
from palaestra.core.metrics import REWARD
from palaestra.models.trunk import Trunk
from palaestra.parallel.closing import reason_of
from palaestra.runtime.collect.learner import Learner, must_be_finite
from palaestra.runtime.environments.make import EDITOR
from palaestra.runtime.logging.bottleneck import EVALUATION
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.parts.part import RunPart, part_of
from palaestra.runtime.play.best_models import LeftOut, Reopen, Trials
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.rank_states import with_other_ranks
from palaestra.scenario.ending_settings import KeepBestSettings

FOLDER = "best"
"""Folder within a behavior's, with the checkpoint of its best model."""
SHARE = 10
"""Least number of evaluations in a run if `every` is not set."""
SPARE = 10.0
"""Seconds that an evaluation may take after a signal has ended the run, which is then saved: job systems wait for some
30 s."""


@dataclass
class Best:
    """The best model of a behavior so far."""

    value: float | None = None
    step: int = 0
    due: int = 0
    """Step of the first summary at which the behavior is next measured."""
    measured: int = -1
    """Step at which the behavior was last measured."""
    latest: float | None = None
    """Value of the last measurement."""


class KeepBest(RunPart):
    """Evaluates the behaviors whose settings ask for it, and keeps the models that are better than all before."""

    name = "keep_best"
    what_is_closed = "the environment of evaluations"

    def __init__(self, run: Run, reopen: Reopen | None) -> None:
        """`reopen`: opens another environment; None if that is impossible."""
        self._run = run
        self._trials = Trials(reopen, lambda: run.asked_to_stop, run.settings.env_settings.env_path or EDITOR)
        self._best: dict[str, Best] = {}
        self._summaries: list[Summary] = []
        """Summaries since the last measurement."""
        self._refused: set[str] = set()
        """Behaviors that appeared late, and whose `keep_best` cannot be followed."""
        self._left_out = False
        """Whether a signal has interrupted an evaluation."""

    @property
    def idle(self) -> bool:
        """Whether no behavior keeps its best model."""
        return all(self._wanted(learner) is None for learner in self._run.learners.values())

    def joined(self, learner: Learner) -> None:
        """Raises ConfigError for settings that cannot be applied; a resumed run only warns."""
        wanted = self._wanted(learner)
        if wanted is None:
            return
        problem = _name_taken(learner.name, self._run.learners, self._wanted) or _hindrance(
            learner, wanted, possible=self._trials.possible
        )
        if problem is not None:
            if not self._run.begun:
                raise ConfigError(f"behavior '{learner.name}': {problem}")
            self._refused.add(learner.name)
            self._run.console.warning(f"behavior '{learner.name}': {problem}; its best model is not kept")
        elif wanted.every is not None and wanted.every < learner.settings.summary_freq:
            self._run.console.info(
                f"'{learner.name}' is measured for keep_best at summaries, so every {learner.settings.summary_freq:,} "
                f"decisions (summary_freq), not every {wanted.every:,}"
            )

    def _wanted(self, learner: Learner) -> KeepBestSettings | None:
        off = learner.inference or learner.name in self._refused
        return None if off else learner.settings.keep_best

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Reads a summary, after which the policy may be evaluated."""
        if self._wanted(learner) is not None:
            self._summaries.append(summary)

    def round_ended(self) -> None:
        """Evaluates the behaviors that are due."""
        summaries = self._summaries
        self._summaries = []
        for summary in summaries:
            learner = self._run.learners[summary.behavior]
            wanted = self._wanted(learner)
            assert wanted is not None
            # the final policy is evaluated once, by `loop_ended`
            if wanted.metric is None and not learner.training:
                continue
            best = self._best.setdefault(learner.name, Best(due=_due(learner, wanted, 0)))
            known = best.measured == learner.step or best.measured >= learner.settings.max_steps
            if not known and (summary.step >= best.due or not learner.training):
                self._compare(learner, best, wanted, summary)

    def loop_ended(self) -> None:
        """Evaluates the final policies, unless a signal has ended the run."""
        if not self._run.group.from_first(self._run.asked_to_stop):
            self._measure_finals()

    def measure_saved(self) -> bool:
        """After a signal has ended a run and the run is saved, evaluates its final policies, unless this takes too
        long. Returns whether a policy is better than all before. On all ranks."""
        if self._left_out or not self._run.group.from_first(self._run.asked_to_stop):
            return False
        self._trials.allow(SPARE)
        return self._measure_finals()

    def _measure_finals(self) -> bool:
        """Measures the final policies, whether or not a summary falls on the end of the run. Returns whether one is
        better than before."""
        run = self._run
        better = False
        for learner in () if run.inference or run.step == run.first_step else run.meetings.shared():
            wanted = self._wanted(learner)
            if wanted is None:
                continue
            best = self._best.setdefault(learner.name, Best(due=_due(learner, wanted, 0)))
            newer = wanted.metric is None and _network(learner, None) is not learner.trainer.network
            if best.measured != learner.step or newer:
                better |= self._compare(learner, best, wanted, None)
        return better

    def _compare(self, learner: Learner, best: Best, wanted: KeepBestSettings, summary: Summary | None) -> bool:
        """Evaluates a policy, and keeps it if it is the best up to now. Returns whether it is."""
        run = self._run
        with run.clock.spending_on(EVALUATION):
            measured, left_out = run.group.when_first_is_done(lambda: self._measure(learner, best, wanted, summary))
            if left_out:
                self._left_out = True
                return False
            best.measured = learner.step
            best.latest = measured
            best.due = _due(learner, wanted, learner.step if summary is None else summary.step)
            if measured is None or not _is_better(measured, best):
                return False
            best.value = measured
            best.step = learner.step
            self._keep(learner, _network(learner, summary), measured)
            return True

    def _measure(
        self, learner: Learner, best: Best, wanted: KeepBestSettings, summary: Summary | None
    ) -> tuple[float | None, bool]:
        """Returns the policy's value (None without one), and whether it was not evaluated because the run stops."""
        run = self._run
        if wanted.metric is not None:
            return _metric(run, learner, wanted.metric, summary)
        try:
            networks = {name: (_network(one, summary), one.spec) for name, one in run.learners.items()}
            value = self._trials.mean_reward(learner.name, networks, wanted)
        except LeftOut as reason:
            run.console.info(f"'{learner.name}' is not evaluated at step {learner.step:,}: {reason}")
            return None, True
        except STOPS:
            raise
        except BaseException as error:  # a user's environment may raise anything, and the run trains in another
            run.console.warning(
                f"'{learner.name}' could not be evaluated at step {learner.step:,}: {reason_of(error)}; training "
                f"continues"
            )
            return None, False
        run.console.info(
            f"'{learner.name}' at step {learner.step:,}: mean reward {value:.3f} over {wanted.episodes} episodes of "
            f"keep_best{', the best so far' if _is_better(value, best) else ''}"
        )
        return (value if np.isfinite(value) else None), False

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
                run.console.detail(f"The best '{learner.name}' up to now ({value:.3f}): {path}")

        run.group.first(write)

    def report(self) -> Iterator[tuple[str, str]]:
        """Yields the best model of each behavior that keeps one, with its value and the final policy's value."""
        for name, learner in self._run.learners.items():
            path = best_file(self._run.folder.path, name)
            wanted, best = self._wanted(learner), self._best.get(name)
            if wanted is None or best is None or best.value is None or not path.is_file():
                continue
            what = "reward" if wanted.metric is None else wanted.metric
            count = f" over {wanted.episodes} episodes" if wanted.metric is None else ""
            if best.step == learner.step:
                last = "; the last is the same"
            elif best.measured != learner.step:
                last = "; the last was not measured"
            else:
                last = (
                    "; the last model: nothing to evaluate"
                    if best.latest is None
                    else f"; the last: {readable(best.latest)}"
                )
            yield "best", f"{path} (step {best.step:,}, {what} {readable(best.value)}{count}{last})"

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the best models so far."""
        return {name: asdict(best) for name, best in self._best.items()}

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores the best models."""
        self._best = {name: Best(**one) for name, one in state.items()}

    def close(self) -> None:
        """Closes the environment of evaluations, if it was opened."""
        self._trials.close()


def has_better_than_last(run: Run) -> bool:
    """Whether the best model of a behavior is better than its last model."""
    for name, state in part_of(run.parts, KeepBest).state_dict().items():
        best, last = Best(**state), run.learners[name].step if name in run.learners else None
        is_last = last in (None, best.step) or (best.measured == last and best.latest == best.value)
        if best.value is not None and not is_last and best_file(run.folder.path, name).is_file():
            return True
    return False


def _network(learner: Learner, summary: Summary | None) -> Trunk:
    """Returns the network that acts at a summary; at the end of a run (None), the one after the last update."""
    return learner.process.newest_network() if summary is None else learner.trainer.network


def _due(learner: Learner, wanted: KeepBestSettings, step: int) -> int:
    """Returns the step after `step` at which a behavior is measured next."""
    settings = learner.settings
    every = wanted.every or min(settings.checkpoint_interval, max(settings.max_steps // SHARE, 1))
    return (step // every + 1) * every


def _is_better(value: float, best: Best) -> bool:
    return bool(np.isfinite(value)) and (best.value is None or value > best.value)


def _name_taken(
    behavior: str, learners: Mapping[str, Learner], wanted: Callable[[Learner], KeepBestSettings | None]
) -> str | None:
    """Returns why the file of a best model would collide with another behavior's file; None if it does not."""
    for name, other in ((behavior, f"{behavior}-{FOLDER}"), (behavior.removesuffix(f"-{FOLDER}"), behavior)):
        if name != other and name in learners and other in learners and wanted(learners[name]) is not None:
            return f"keep_best of '{name}' would write the file of behavior '{other}'; rename one of them"
    return None


def _hindrance(learner: Learner, wanted: KeepBestSettings, *, possible: bool) -> str | None:
    """Returns why a behavior cannot be evaluated separately, and what to do; None if it can, or need not. `possible`: a
    separate environment can be opened."""
    if wanted.metric is not None:
        return None
    if learner.settings.self_play is not None:
        return (
            "keep_best would evaluate the policy against itself, which is meaningless; choose a metric, such as "
            "metric: Self-play/ELO"
        )
    if not possible:
        return (
            "keep_best evaluates in a separate environment, and this environment cannot be opened twice; choose a "
            "metric of the training, such as metric: Environment/Cumulative Reward, or give train() a function "
            "that makes one"
        )
    return None


def _metric(run: Run, learner: Learner, metric: str, summary: Summary | None) -> tuple[float | None, bool]:
    """Returns a metric of a summary, or of the time since the last one: left out if that is too short."""
    if summary is None:
        value = run.statistics.so_far(learner.name, metric)
        return value, value is None
    if metric == REWARD:
        return (float(summary.judged.mean()) if len(summary.judged) else None), False
    return summary.values.get(metric), False
