"""A study: its files, and the choice of the next trial. Several processes may run trials of one study.

Optuna's storage has trials and values. The process that runs a trial holds a lock on `trials/<number>/.tuner`, which
the operating system releases when the process ends for any reason: an unfinished trial whose lock is free was
interrupted, and is continued.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from palaestra.core.errors import ConfigError, PluginError, RunError
from palaestra.core.files import explain, write_whole
from palaestra.runtime.settings import yaml_file
from palaestra.runtime.settings.search_settings import SearchSettings
from palaestra.runtime.storage.run_folder import check_run_id
from palaestra.runtime.storage.trust import sign
from palaestra.runtime.tune.objectives import DIRECTIONS, Ending, missed
from palaestra.runtime.tune.study_plan import StudyPlan

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.trial import FrozenTrial, Trial

PLAN = "study.yaml"
SQLITE, JOURNAL = "study.db", "study.journal"
NAME = "study"
ENDINGS = "endings"
"""Attribute of a completed trial: how each of its trainings ended, as the fields of `Ending`."""
START = "start"
"""Attribute of the trial that has the file's own values."""
CLAIM, HELD = ".claim", ".tuner"
CLAIM_SECONDS = 120.0
"""Seconds to wait for another process that takes a trial."""


@contextmanager
def quiet_optuna() -> Iterator[Any]:
    """Yields the module optuna, without its log lines and notes about experiments. Raises PluginError if Optuna is not
    installed."""
    try:
        with warnings.catch_warnings():  # its bars would like a widget of notebooks, and are not shown
            warnings.filterwarnings("ignore", "IProgress not found")
            import optuna
    except ImportError as error:
        raise PluginError(
            "`palaestra tune` needs Optuna, which is not installed: pip install 'palaestra[tune]'"
        ) from error
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield optuna
    finally:
        optuna.logging.set_verbosity(before)


class StudyFolder:
    """Paths of a study's files."""

    def __init__(self, results: Path, name: str) -> None:
        """Raises ConfigError for a name that cannot be a folder."""
        try:
            check_run_id(name)
        except ConfigError as error:
            raise ConfigError(str(error).replace("--run-id", "--study", 1)) from None
        self.name = name
        self.results = results
        self.path = results / name
        self.plan = self.path / PLAN

    @property
    def exists(self) -> bool:
        """Whether the study was begun."""
        return self.plan.is_file()

    def trial(self, number: int) -> Path:
        """Returns the folder of a trial."""
        return self.path / "trials" / str(number)

    def run(self, number: int, seed: int) -> Path:
        """Returns the folder of a trial's training."""
        return self.trial(number) / f"seed-{seed}"

    def begin(self, plan: StudyPlan, *, force: bool) -> None:
        """Makes the folder of a new study. Raises RunError if the folder exists, unless `force` is given, which removes
        the folder."""
        if self.exists and not force:
            raise RunError(
                f"the study '{self.name}' exists already ({self.path}): continue it with --resume, start again with "
                f"--force, or choose another --study"
            )
        if self.path.exists() and not self.exists and any(self.path.iterdir()):
            raise RunError(f"{self.path} exists and is no study: choose another --study")
        try:
            if self.exists:
                self._remove()
            self.path.mkdir(parents=True, exist_ok=True)
            self.write(plan)
        except OSError as error:
            raise RunError(f"cannot make the study's folder {self.path}: {explain(error)}") from error

    def write(self, plan: StudyPlan) -> None:
        """Writes the plan, and marks the folder as the user's own."""
        write_whole(self.plan, yaml_file.dump(plan.as_tree(), 120).encode())
        sign(self.path, plan.settings.model_copy(update={"search": plan.search}))

    def _remove(self) -> None:
        for held in self.path.glob(f"trials/*/{HELD}"):
            lock = FileLock(held, timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise RunError(
                    f"the study '{self.name}' is in use: another process trains {held.parent}; stop it first"
                ) from None
            lock.release()
        shutil.rmtree(self.path)

    def storage(self, optuna: Any, kind: str) -> Any:
        """Opens the study's storage: an SQLite file, or a journal file for network file systems."""
        if kind == "journal":
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend

            return JournalStorage(JournalFileBackend(str(self.path / JOURNAL)))
        return optuna.storages.RDBStorage(
            f"sqlite:///{(self.path / SQLITE).as_posix()}", engine_kwargs={"connect_args": {"timeout": CLAIM_SECONDS}}
        )


class TuneStudy:
    """The trials of a study."""

    def __init__(self, folder: StudyFolder, plan: StudyPlan, optuna: Any) -> None:
        """Opens a study whose folder exists, or makes it there. Raises RunError for a damaged one."""
        self.folder = folder
        self.plan = plan
        self._optuna = optuna
        self.states = optuna.trial.TrialState
        self._held: dict[int, FileLock] = {}
        with self._claiming():
            try:
                self.optuna: OptunaStudy = optuna.create_study(
                    storage=folder.storage(optuna, plan.search.storage),
                    study_name=NAME,
                    directions=[DIRECTIONS[objective] for objective in plan.search.wanted],
                    pruner=pruner_of(optuna, plan),
                    load_if_exists=True,
                )
                if not self.all() and (start := plan.start) is not None:
                    near = {each.path: each.nearest(start[each.path]) for each in plan.dimensions if each.path in start}
                    self.optuna.enqueue_trial(near, user_attrs={START: True})
            except Exception as error:  # of SQLAlchemy, sqlite3 or Optuna
                lines = str(error).splitlines() or [type(error).__name__]
                raise RunError(f"cannot open the study in {folder.path}: {lines[0]}") from error

    def all(self) -> list[FrozenTrial]:
        """Returns all trials in their current state."""
        return self.optuna.get_trials(deepcopy=False)

    def values(self, trial: FrozenTrial | Trial) -> dict[str, Any]:
        """Returns the values with which a trial trains, by path. The values of the settings file may lie outside the
        ranges: Optuna treats them as the nearest value in the range."""
        start = self.plan.start
        return dict(start) if start is not None and trial.user_attrs.get(START) else dict(trial.params)

    def endings(self, trial: FrozenTrial) -> list[Ending]:
        """Returns how each training of a completed trial ended; empty without a bar."""
        return [Ending(*each) for each in trial.user_attrs.get(ENDINGS, ())]

    def none_reached(self) -> bool:
        """Whether no completed trial reached the bar (the target reward) with every seed; False without a bar."""
        complete = [trial for trial in self.all() if trial.state == self.states.COMPLETE]
        return self.plan.search.bar is not None and all(missed(self.endings(trial)) for trial in complete)

    def finished(self) -> bool:
        """Whether all trials of the study have ended."""
        trials = self.all()
        return len(trials) >= self.plan.search.total and all(trial.state.is_finished() for trial in trials)

    def claim(self) -> Trial | None:
        """Returns a trial for this process to run: an interrupted trial, else a new one; None if none is left now."""
        with self._claiming():
            trials = self.all()
            for trial in trials:
                if trial.state == self.states.RUNNING and trial.number not in self._held and self._hold(trial.number):
                    found = self._optuna.trial.Trial(self._take_sampler(len(trials)), trial._trial_id)
                    return self._with_values(found)
            begun = sum(trial.state != self.states.WAITING for trial in trials)
            if begun >= self.plan.search.total:
                return None
            asked = self._take_sampler(len(trials)).ask()
            if not self._hold(asked.number):
                raise RunError(f"another process holds the new trial {asked.number} of {self.folder.path}")
            return self._with_values(asked)

    def release(self, number: int) -> None:
        """Releases a trial that has ended, or that will be continued later."""
        lock = self._held.pop(number, None)
        if lock is not None:
            lock.release()

    def close(self) -> None:
        """Releases the locks of all trials that this process held."""
        for number in list(self._held):
            self.release(number)

    def others(self) -> int:
        """Returns how many trials other processes are running now."""
        return sum(trial.state == self.states.RUNNING and trial.number not in self._held for trial in self.all())

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        """Keeps other processes from taking trials within the block."""
        try:
            with FileLock(self.folder.path / CLAIM, timeout=CLAIM_SECONDS):
                yield
        except Timeout:
            raise RunError(
                f"another process has held {self.folder.path / CLAIM} for {CLAIM_SECONDS:.0f} s; is it suspended?"
            ) from None

    def _hold(self, number: int) -> bool:
        """Locks a trial; False if another process holds it."""
        place = self.folder.trial(number)
        place.mkdir(parents=True, exist_ok=True)
        lock = FileLock(place / HELD, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            return False
        now = next(trial for trial in self.all() if trial.number == number)
        if now.state != self.states.RUNNING:  # its process has just ended it
            lock.release()
            return False
        self._held[number] = lock
        return True

    def _take_sampler(self, number: int) -> OptunaStudy:
        """Gives the study a sampler with a unique seed: no other process or session draws the same values."""
        self.optuna.sampler = sampler_of(self._optuna, self.plan.search, number)
        return self.optuna

    def _with_values(self, trial: Trial) -> Trial:
        """Gives a trial its values. Raises RunError if the storage has some that are not in the ranges."""
        for each in self.plan.dimensions:
            try:
                value = each.suggest(trial)
            except ValueError as error:
                self.release(trial.number)
                raise RunError(f"the study in {self.folder.path} does not fit its {PLAN}: {error}") from error
            if not each.contains(value):
                self.release(trial.number)
                raise RunError(
                    f"trial {trial.number} of {self.folder.path} has {each.path} = {value!r}, which is not in its range"
                )
        return trial


def sampler_of(optuna: Any, search: SearchSettings, number: int) -> Any:
    """Returns the sampler of one trial."""
    seed = (search.seed * 1_000_003 + number) % 2**32
    if search.method != "tpe":
        return optuna.samplers.RandomSampler(seed=seed)
    first = max(4, min(10, search.total // 4))
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=first, multivariate=True, constant_liar=True)


def pruner_of(optuna: Any, plan: StudyPlan) -> Any:
    """Returns Optuna's pruner for the study's settings."""
    marks, before = plan.search.marks(plan.longest)
    if plan.search.pruning == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=before + 1)
    if plan.search.pruning == "hyperband":
        return optuna.pruners.HyperbandPruner(
            min_resource=min(before + 1, max(1, len(marks) - 1)), max_resource=len(marks), reduction_factor=3
        )
    return optuna.pruners.NopPruner()
