"""The engine of the function and the command `tune`: runs the trials of a study, side by side, and writes its
report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palaestra.core.display import print_now
from palaestra.core.errors import ConfigError, RunError
from palaestra.core.plugins import registry
from palaestra.parallel.closing import closing_safely
from palaestra.runtime.control.os_signals import break_on_signals
from palaestra.runtime.environments.make import EDITOR, guarded, is_game, make_env, opening_options
from palaestra.runtime.run.run_settings import TrainingRequest, shipped_settings
from palaestra.runtime.settings import load
from palaestra.runtime.settings.fitting import fitted, with_pace, with_summaries
from palaestra.runtime.settings.sourced_settings import Setting
from palaestra.runtime.storage.trust import (
    in_run_folder,
    learning_code,
    must_be_trusted,
    must_be_trusted_file,
    must_stay_inside,
)
from palaestra.runtime.tune.dimensions import plain, short_names
from palaestra.runtime.tune.objectives import describe_missed, missed
from palaestra.runtime.tune.study import StudyFolder, TuneStudy, quiet_optuna
from palaestra.runtime.tune.study_plan import StudyPlan, code_of, code_of_choices, differences, make_plan, measures
from palaestra.runtime.tune.study_report import BEST, measured, ranked, shown_table, write_report
from palaestra.runtime.tune.trial_launch import TrialTraining
from palaestra.runtime.tune.trial_process import TrialTask
from palaestra.runtime.tune.trial_run import TrialRun, must_not_all_fail
from palaestra.runtime.tune.tune_result import TuneResult

POLL = 0.2
"""Seconds between two looks at the trials."""
CLAIM_EVERY = 1.0
"""Seconds between two attempts to take a trial while none is available."""
SAVE_SECONDS = 75.0
"""Seconds that trials have to save when the search is stopped."""

Show = Callable[[str], object]


@dataclass(frozen=True)
class SearchRequest:
    """A study as the user asks for it."""

    folder: StudyFolder
    config: Path | Mapping[str, Any] | None
    overrides: Mapping[str, Any]
    """Values of flags, as a part of the settings tree."""
    sets: Sequence[Setting | str] = ()
    block: str | Path | Mapping[str, Any] | None = None
    """A `search` block in place of the file's, as for `read_block`."""
    resume: bool = False
    force: bool = False
    trust: bool = False


def run_search(request: SearchRequest, show: Show = print_now) -> TuneResult:
    """Begins or continues a study, runs its trials and writes its report. Raises PalaestraError."""
    folder = request.folder
    with ExitStack() as stack:
        stack.enter_context(break_on_signals())
        optuna = stack.enter_context(quiet_optuna())
        plan = settled_plan(request, show)
        for note in plan.notes:
            show(f"note: {note}")
        study = TuneStudy(folder, plan, optuna)
        stack.callback(study.close)
        announce(study, show, resume=request.resume)
        Tuning(study, TrialTraining, show).run()
        best = write_report(study, show)
        found = measured(study, best)
        pairs = zip(plan.search.wanted, found, strict=True)
        values = {name: math.inf if value is None else value for name, value in pairs}
        complete = ranked(study)
        return TuneResult(
            folder.path,
            folder.path / BEST,
            best.number,
            values,
            study.values(best),
            len(complete),
            None not in found,
            shown_table(study, complete),
        )


def settled_plan(request: SearchRequest, show: Show) -> StudyPlan:
    """Returns the plan of a new study, after making its folder, or of a resumed study. Raises PalaestraError."""
    folder = request.folder
    config = request.config
    if request.resume and request.force:
        raise ConfigError("--resume continues the study and --force starts it again: give one of the two")
    must_be_trusted_files(request)
    must_stay_inside(folder.path, request.trust)
    if not request.resume:
        overrides = request.overrides
        if config is None:
            config = usual_settings(request, show)
            overrides = with_pace(config, overrides, request.sets) if isinstance(config, Path) else overrides
        plan = make_plan(config, overrides, request.sets, request.block)
        must_name_env(plan)
        folder.begin(plan, force=request.force)
        return plan
    if not folder.exists:
        raise RunError(
            f"there is no study '{folder.name}' in {folder.results}: begin it without --resume, with a settings file"
        )
    kept = kept_plan(folder, trust=request.trust)
    plan = make_plan(config or folder.plan, request.overrides, request.sets, request.block)
    if changed := differences(kept, plan):
        verb = "differs" if len(changed) == 1 else "differ"
        raise ConfigError(
            f"the study '{folder.name}' was begun with other settings: {', '.join(changed[:4])} {verb} from "
            f"{folder.plan}; continue with those (palaestra tune --study={folder.name} --resume), or begin another "
            f"--study"
        )
    if plan.search.total != kept.search.total:
        folder.write(plan)
    return replace(plan, notes=())


def usual_settings(request: SearchRequest, show: Show) -> Path | dict[str, Any]:
    """Returns the settings that `palaestra learn` uses without a file: the file that is shipped for the environment, or
    settings that fit its spaces. Raises ConfigError if neither can be found."""
    shipped = shipped_settings(TrainingRequest(None, request.overrides))
    if shipped is not None:
        show(f"note: trials start from {shipped.parent.name}/{shipped.name}, which is shipped for this environment")
        return shipped
    loaded = load(None, request.overrides, request.sets)
    place = loaded.settings.env_settings
    if place.env_path is None or is_game(place.env_path):
        raise ConfigError(
            "name a settings file, such as configs/ppo/3DBall.yaml; only with --resume, or with the --env of an "
            "environment that is no game, it can be left out"
        )
    made = make_env(place.env_path, areas=place.num_areas, options=opening_options(loaded.settings))
    env = guarded(made, place.env_path)
    with closing_safely(env, place.env_path, show):
        default = loaded.settings.default_settings
        tree = fitted(
            env.behaviors, env.num_areas, "ppo" if default is None else default.trainer_type, env.traits.opponents
        )
    fit = load(tree, request.overrides, request.sets).settings
    show("note: no settings file is given and none is shipped: trials start from settings that fit the spaces")
    return with_summaries(tree, {name: fit.behaviors[name].max_steps for name in tree["behaviors"]})


def must_be_trusted_files(request: SearchRequest) -> None:
    """Raises RunError if the file of the settings or of the search belongs to another user's run and names code."""
    config = request.config
    block = request.block
    if isinstance(config, Path):
        must_be_trusted_file(config, request.overrides, request.sets, code_in=learning_code, trust=request.trust)
    searched = config if block is None else Path(block) if isinstance(block, str | Path) else None
    if config is not None and isinstance(searched, Path) and searched.is_file() and in_run_folder(searched):
        plan = make_plan(config, request.overrides, request.sets, block, own_code=False)
        settings = plan.settings.model_copy(update={"search": plan.search})
        must_be_trusted(searched.parent, settings, code_of_choices(plan), request.trust)


def must_name_env(plan: StudyPlan) -> None:
    """Raises ConfigError for a study without an environment: each trial would wait for the Editor."""
    if plan.settings.env_settings.env_path is not None:
        return
    same = [name for name in plan.settings.behaviors if name in registry("envs")]
    hint = "such as --env=Game.x86_64 or --env=3DBall"
    if same:
        hint = f"the built-in environment of that name is --env={same[0]}"
    raise ConfigError(
        f"no environment is named: add --env; {hint}. --env={EDITOR} waits for the Unity Editor at each trial"
    )


def kept_plan(folder: StudyFolder, *, trust: bool) -> StudyPlan:
    """Returns the plan in a study's folder. Raises RunError if the study is not the user's own and would run code."""
    plan = make_plan(folder.plan, {}, own_code=False)
    signed = plan.settings.model_copy(update={"search": plan.search})
    must_be_trusted(folder.path, signed, code_of(plan), trust)
    return plan


def announce(study: TuneStudy, show: Show, *, resume: bool) -> None:
    """Prints the study's name, method and objectives, and the range of each setting."""
    search = study.plan.search
    trials = study.all()
    done = sum(trial.state.is_finished() for trial in trials)
    state = f"{done} of {search.total} trials have ended" if resume else f"{search.total} trials"
    show(
        f"Study '{study.folder.name}' ({search.method}): {state}, {search.jobs} side by side, by {measures(search)}; "
        f"{study.folder.path}"
    )
    for each in study.plan.dimensions:
        words = (
            ", ".join(str(value) for value in each.values)
            if each.kind == "choice"
            else f"{each.values[0]:g} to {each.values[1]:g}"
        )
        show(f"  {each.path}: {each.kind.replace('_', ' ')} {words}")


class Tuning:
    """The loop over the trials that this process runs."""

    def __init__(self, study: TuneStudy, launch: Callable[[TrialTask], TrialTraining], show: Show) -> None:
        self._study = study
        self._launch = launch
        self._show = show
        self._running: list[TrialRun] = []
        self._failed: list[TrialRun] = []
        self._names = short_names([each.path for each in study.plan.dimensions])
        self._next_claim = 0.0
        self._waited = False

    def run(self) -> None:
        """Runs trials until all trials of the study have ended, including the trials of other processes. Raises
        KeyboardInterrupt after everything is saved."""
        try:
            while not self._step():
                time.sleep(POLL)
        except KeyboardInterrupt:
            self._save()
            raise
        finally:
            for trial in self._running:
                trial.close()

    def _step(self) -> bool:
        """Does all due work; returns whether the study has ended."""
        if self._fill():
            return True
        for trial in list(self._running):
            if trial.poll():
                self._running.remove(trial)
                self._next_claim = 0.0
                self._show_end(trial)
        return False

    def _fill(self) -> bool:
        """Takes trials until enough run. Returns whether no trial is left to run and none will be added."""
        while len(self._running) < self._study.plan.search.jobs and time.monotonic() >= self._next_claim:
            trial = self._study.claim()
            if trial is None:
                self._next_claim = time.monotonic() + CLAIM_EVERY
                self._show_waiting()
                return not self._running and self._study.finished()
            continued = (self._study.folder.trial(trial.number) / "settings.yaml").exists()
            self._running.append(TrialRun(self._study, trial, self._launch))
            begins = "goes on" if continued else "begins"
            self._show(f"trial {trial.number} {begins}: {self._shown(self._study.values(trial))}")
        return False

    def _show_waiting(self) -> None:
        if not self._running and not self._waited and (others := self._study.others()):
            self._waited = True
            self._show(f"waiting for {others} {'trial' if others == 1 else 'trials'} of another process")

    def _show_end(self, trial: TrialRun) -> None:
        if trial.failure:
            self._failed.append(trial)
            self._show(f"trial {trial.number} failed: {trial.failure}")
            complete = any(each.state == self._study.states.COMPLETE for each in self._study.all())
            must_not_all_fail(self._failed, complete, self._study.folder.path)
        elif trial.values is None:
            self._show(f"trial {trial.number} was ended early (pruned)")
        else:
            search = self._study.plan.search
            short = missed(trial.endings)
            pairs = zip(search.wanted, trial.values, strict=True)
            parts = [f"{name} {plain(value)}" for name, value in pairs if name == "reward" or not short]
            if short and search.bar is not None:
                parts.append(describe_missed(trial.endings, search.bar, search.episodes))
            self._show(f"trial {trial.number}: {', '.join(parts)}")

    def _shown(self, values: Mapping[str, Any]) -> str:
        return ", ".join(f"{self._names[path]} {plain(value)}" for path, value in values.items())

    def _save(self) -> None:
        """Stops what runs, saved."""
        self._show(f"stopping: saving {len(self._running)} {'trial' if len(self._running) == 1 else 'trials'}")
        for trial in self._running:
            trial.stop()
        deadline = time.monotonic() + SAVE_SECONDS
        while time.monotonic() < deadline and not all(trial.stopped for trial in self._running):
            time.sleep(POLL)
        folder = self._study.folder
        place = "" if str(folder.results) == "results" else f" --results-dir={folder.results}"
        self._show(f"Go on with: palaestra tune --study={folder.name}{place} --resume")
