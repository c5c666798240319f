"""Follows one trial: starts its trainings in turn, reports the curve of the reward, and records how the trial ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import ConfigError, RunError
from palaestra.core.files import write_whole
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.settings import load
from palaestra.runtime.tune.objectives import DIRECTIONS, Ending, NoValue, ending, missed, worth
from palaestra.runtime.tune.study import ENDINGS, TuneStudy
from palaestra.runtime.tune.study_plan import lengths_of
from palaestra.runtime.tune.trial_curves import final_value, read_curves, value_at
from palaestra.runtime.tune.trial_launch import TrialTraining
from palaestra.runtime.tune.trial_process import Outcome, TrialTask

if TYPE_CHECKING:
    from optuna.trial import Trial

RESTARTS = 2
"""Most restarts of a training whose process was stopped or killed by someone else."""


class TrialRun:
    """A trial that this process runs."""

    def __init__(self, study: TuneStudy, trial: Trial, launch: Callable[[TrialTask], TrialTraining]) -> None:
        self.number = trial.number
        self.failure = ""
        """Why the trial failed; empty: it has not failed."""
        self.values: list[float] | None = None
        """Value of each objective, once the trial is complete."""
        self.endings: list[Ending] = []
        """How each training of the trial ended, once the trial is complete; empty without a bar."""
        self.pruned = False
        self._study = study
        self._trial = trial
        self._launch = launch
        self._search = study.plan.search
        self._training: TrialTraining | None = None
        self._restarts = 0
        self._seeds = list(study.plan.seeds())
        self._trained: list[int] = []
        self._settings = None
        known = study.all()[trial.number]
        self._reported = set(known.intermediate_values)
        self._marks, _ = self._search.marks(study.plan.longest)
        self._read_size = -1

    @property
    def parameters(self) -> dict[str, Any]:
        """Its values by path."""
        return self._study.values(self._trial)

    def poll(self) -> bool:
        """Does all due work; returns whether the trial has ended and is recorded in the study. Call it a few times a
        second."""
        if self._training is None:
            return self._start()
        ended = self._training.ended()
        self._report(ended)
        if ended is None:
            return False
        self._training = None
        if self.pruned:
            return self._record_pruned("pruned")
        if ended.kind == "finished":
            self._restarts = 0
            return self._next_seed()
        if ended.kind in ("stopped", "lost") and self._restarts < RESTARTS:
            self._restarts += 1
            return False
        if ended.kind == "diverged":
            return self._record_pruned(ended.message)
        return self._record_failed(ended.message or "its process was stopped again and again")

    def stop(self) -> None:
        """Makes the current training save and end; the trial stays unfinished and can be continued."""
        if self._training is not None:
            self._training.stop()

    @property
    def stopped(self) -> bool:
        """Whether none of the trial's processes is running."""
        return self._training is None or self._training.ended() is not None

    def close(self) -> None:
        """Ends the trial's process at once."""
        if self._training is not None:
            self._training.close()

    def _start(self) -> bool:
        """Starts the training of the next seed, or takes the result of one that has ended already."""
        seed = self._seeds[0]
        task = self._task(seed)
        before = Outcome.read(Path(task.outcome))
        if before is not None and before.kind == "finished":
            self._report(before)
            return self._next_seed()
        try:
            self._write_settings()
        except ConfigError as error:
            return self._record_failed(str(error))
        self._training = self._launch(self._task(seed))
        return False

    def _next_seed(self) -> bool:
        """Goes on to the next seed; ends the trial after the last, or if the first missed the only bar."""
        seed = self._seeds.pop(0)
        self._trained.append(seed)
        if self._seeds and "reward" not in self._search.wanted and missed(self._endings()):
            self._seeds.clear()
        return False if self._seeds else self._record_worth()

    def _endings(self) -> list[Ending]:
        """Returns how the finished trainings have ended."""
        found = [ending(self._study.folder.run(self.number, seed), self._search) for seed in self._trained]
        return [each for each in found if each is not None]

    def _task(self, seed: int) -> TrialTask:
        place = self._study.folder.trial(self.number)
        return TrialTask(
            settings=str(place / "settings.yaml"),
            results_dir=str(place.parent),
            run_id=f"{self.number}/seed-{seed}",
            seed=seed,
            outcome=str(place / f"seed-{seed}.json"),
            log=str(place / f"seed-{seed}.log"),
            sets=[] if self._settings is None else self._study.plan.sets(self._settings),
        )

    def _write_settings(self) -> None:
        """Writes the settings of the trial. Raises ConfigError if its values do not go together."""
        plan = self._study.plan
        self._settings = load(plan.tree_of(self.parameters), own_code=False).settings
        text = plan.text_of(self.parameters, f"Trial {self.number} of the study {self._study.folder.name}")
        write_whole(self._study.folder.trial(self.number) / "settings.yaml", text.encode())

    def _report(self, ended: Outcome | None) -> None:
        """Reports the first seed's reward at the marks reached, and notes whether the trial must be pruned."""
        if self._search.pruning == "none" or self.pruned or self._seeds[:1] != self._study.plan.seeds()[:1]:
            return
        run = self._study.folder.run(self.number, self._seeds[0])
        size = _size(run / METRICS)
        if size == self._read_size and ended is None:
            return
        self._read_size = size
        curves = read_curves(run, self._search.metric, self._search.behavior)
        sign = 1.0 if DIRECTIONS[self._search.wanted[0]] == "maximize" else -1.0
        for number, mark in enumerate(self._marks, 1):
            if number in self._reported:
                continue
            value = value_at(curves, mark, self._search.episodes)
            # it reached the bar: its reward stays there
            if value is None and ended is not None and ended.kind == "finished":
                value = final_value(curves, self._search.episodes)
            if value is None:
                return
            self._reported.add(number)
            self._trial.report(sign * value, number)
            if ended is None and self._trial.should_prune():
                self.pruned = True
                self.stop()
                return

    def _record_worth(self) -> bool:
        plan = self._study.plan
        runs = [self._study.folder.run(self.number, seed) for seed in self._trained]
        try:
            found = worth(runs, self._search, lengths_of(self._settings or plan.settings))
        except NoValue as error:
            return self._record_failed(str(error))
        self.values = [sum(each) / len(each) for each in zip(*found, strict=True)]
        if len(found) > 1:
            self._trial.set_user_attr("seeds", found)
        self.endings = self._endings()
        self._trial.set_user_attr(ENDINGS, [astuple(each) for each in self.endings])
        self._study.optuna.tell(self._trial, self.values)
        return self._end()

    def _record_pruned(self, why: str) -> bool:
        self.pruned = True
        self._trial.set_user_attr("why", why)
        self._study.optuna.tell(self._trial, state=self._study.states.PRUNED)
        return self._end()

    def _record_failed(self, why: str) -> bool:
        self.failure = why
        self._trial.set_user_attr("why", why)
        self._study.optuna.tell(self._trial, state=self._study.states.FAIL)
        return self._end()

    def _end(self) -> bool:
        self._study.release(self.number)
        return True


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def must_not_all_fail(failed: list[TrialRun], complete: bool, folder: Path) -> None:
    """Raises RunError if the first trials all failed, because later trials would fail too."""
    if complete or len(failed) < 3:
        return
    last = failed[-1]
    raise RunError(
        f"the first {len(failed)} trials failed, the last with: {last.failure}\n  Its log: "
        f"{folder / 'trials' / str(last.number)}"
    )
