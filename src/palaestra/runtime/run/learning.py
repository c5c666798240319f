"""A training from its request to its result: the engine of `palaestra.train` and of the command `learn`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial

import torch

from palaestra.core.errors import (
    CheckpointError,
    ConfigError,
    DemoError,
    Diverged,
    RankLost,
    RunError,
    SeveralProcesses,
)
from palaestra.core.versions import palaestra_version
from palaestra.parallel import rank_setup, ranks
from palaestra.parallel.closing import closing_safely, reason_of
from palaestra.parallel.rank_group import RankGroup
from palaestra.parallel.worker import WorkerLost
from palaestra.runtime.control.os_signals import Stopper, break_on_signals, stop_on_signals
from palaestra.runtime.curriculum.lessons import Lessons
from palaestra.runtime.curriculum.parameters import Parameters, invalid_values
from palaestra.runtime.environments.custom_envs import given_name
from palaestra.runtime.environments.make import EDITOR
from palaestra.runtime.environments.run_env import open_env, take_env
from palaestra.runtime.logging.console import Console
from palaestra.runtime.logging.run_times import Timers
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.logging.tracker_plugins import find_trackers
from palaestra.runtime.logging.trackers import GaugeTracker
from palaestra.runtime.logging.waiting import WaitingNotice
from palaestra.runtime.parts.part import RunPart, part_of
from palaestra.runtime.parts.rank_meetings import journal_of
from palaestra.runtime.parts.rank_warnings import RankWarnings
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.play.best_models import Reopen, reopening
from palaestra.runtime.run.beginning import begin, first_wait, kind_of, starting_point, trackers
from palaestra.runtime.run.checks import check
from palaestra.runtime.run.commands import continue_command
from palaestra.runtime.run.ending import exit_status, finish
from palaestra.runtime.run.features.keep_best import KeepBest
from palaestra.runtime.run.features.progress import ProgressReport
from palaestra.runtime.run.features.report import Report
from palaestra.runtime.run.features.requests import Requests
from palaestra.runtime.run.features.saving import Saving, Showing
from palaestra.runtime.run.features.stop_when import Callback, Callbacks, StopWhen
from palaestra.runtime.run.loop import train as loop
from palaestra.runtime.run.rank_launch import count_of
from palaestra.runtime.run.rescuing import rescue
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.run_settings import (
    TrainingRequest,
    env_flags_must_fit,
    fitted_to,
    must_be_there,
    must_name_env,
    plays_alone,
    seeded,
    settled_settings,
    with_channels,
)
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.self_play.self_play_part import SelfPlay
from palaestra.runtime.settings import Loaded, RunSettings
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder
from palaestra.runtime.storage.status import TrainingStatus
from palaestra.runtime.storage.writer_lock import sole_writer


def learn(request: TrainingRequest) -> Result:
    """Loads the settings, builds a run, trains, and writes its files. Raises PalaestraError."""
    loaded, folder = settled_settings(request)
    if request.env is None:
        env_flags_must_fit(loaded, request.overrides)
        loaded = with_channels(loaded)
    torch_settings = loaded.settings.torch_settings
    if not ranks.asked() and (count := count_of(torch_settings)) > 1 and not plays_alone(loaded):
        must_be_there(loaded, folder)  # before processes start
        chosen = loaded.settings.checkpoint_settings
        if not chosen.resume and not chosen.inference:
            folder.must_be_free(chosen.force)
        raise SeveralProcesses(count)
    device = torch_settings.device or ("cpu" if torch_settings.processes else None)
    with callers_threads(), ranks.joined(torch_settings.rank_timeout, device) as group:
        loaded = of_rank(loaded, folder, group)
        with others_learn_of_failure(group):
            return train_rank(loaded, folder, group, request)


def of_rank(loaded: Loaded, folder: RunFolder, group: RankGroup) -> Loaded:
    """Returns the settings of this rank; if torchrun restarts ranks, the run is resumed. Raises ConfigError."""
    settings = loaded.settings
    if group.size > 1 and settings.checkpoint_settings.inference:
        raise ConfigError("--inference plays in one process; leave out --processes, --gpus and torchrun")
    rank_setup.must_have_same({"palaestra": palaestra_version(), "torch": torch.__version__}, group)
    if rank_setup.begun_before(str(folder.path), group) and group.from_first(folder.exists):
        again = settings.checkpoint_settings.model_copy(update={"resume": True, "force": False})
        return replace(loaded, settings=settings.model_copy(update={"checkpoint_settings": again}))
    return loaded


@contextmanager
def callers_threads() -> Iterator[None]:
    """Restores the number of threads of the program that called the training."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def others_learn_of_failure(group: RankGroup) -> Iterator[None]:
    """Tells the other ranks why this rank's block has failed."""
    try:
        yield
    except RankLost as error:
        raise RankLost(f"{error}; --resume continues from the last checkpoint", reports=error.reports) from error
    except WorkerLost as error:
        rank_setup.leave_message(reason_of(error), group)
        raise WorkerLost(f"{error}; --resume continues from the last checkpoint") from error
    except BaseException as error:
        reason = "it was interrupted" if isinstance(error, KeyboardInterrupt) else reason_of(error)
        rank_setup.leave_message(reason, group)
        raise


def train_rank(loaded: Loaded, folder: RunFolder, group: RankGroup, request: TrainingRequest) -> Result:
    """Builds the run of this process, trains, and writes its files; with several ranks only rank 0 writes."""
    stopper: Stopper | None = None
    env = request.env
    with break_on_signals(), ExitStack() as stack:
        stream = stack.enter_context(open(os.devnull, "w")) if request.quiet or not group.leads else None
        console = stack.enter_context(closing(Console(loaded.settings.debug, stream, brief=request.one_of_several)))
        warnings = RankWarnings()
        console.attach(warnings.add)
        console.warning(*request.notes, *(loaded.warnings if loaded.with_tree is None else ()))
        if not loaded.settings.checkpoint_settings.inference:
            must_be_there(loaded, folder)
        must_name_env(loaded, folder, env)
        until_closed = stack.enter_context(ExitStack())  # of the folder, which is written to until all else is closed
        own = partial(own_folder, folder, loaded.settings, until_closed, console)
        waits = env is None and loaded.settings.env_settings.env_path in (None, EDITOR) and not folder.path.exists()
        if not waits:
            group.first(own)
        found = find_trackers(loaded.settings)
        checkpoint = group.from_first(group.first(lambda: starting_point(folder, loaded.settings, console.warning)))
        settings = group.from_first(seeded(loaded.settings, checkpoint))
        rank_setup.note_begun(str(folder.path), group)
        name = settings.env_settings.env_path or EDITOR
        is_ours = True
        with WaitingNotice(f"opening {name if env is None else given_name(env)}", console.info):
            if env is None:
                world = open_env(settings, folder.logs, console.log, group)
            else:
                world, is_ours = take_env(env, settings, console.log, group)
        if is_ours:
            stack.enter_context(
                closing_safely(world, "the environment", console.warning, lambda: stopper and stopper.leave)
            )
        loaded, settings = fitted_to(loaded, world, settings, console, group)
        if invalid := list(invalid_values(world, settings.environment_parameters)):
            raise loaded.refusal(invalid, "parameters are not taken by the environment")
        timers = Timers()
        of_first = group.first(lambda: trackers(found, folder, settings, checkpoint, console)) or {}
        statistics = Statistics({**of_first, "gauges": GaugeTracker(timers)}, console.warning)
        stack.enter_context(closing(statistics.trackers))
        stack.enter_context(statistics.trackers.noting_failure())
        status = TrainingStatus(folder.logs / "training_status.json")
        journal = journal_of(statistics, group)
        several = request.one_of_several
        context = RunContext(settings, folder, world, journal, console, group, status, one_of_several=several)
        with first_wait(settings, env is None, console):
            run = Run(
                context,
                statistics,
                timers,
                lambda run: parts_of(run, reopening(settings, env, console.log), request.callbacks),
                checkpoint=checkpoint,
                warnings=warnings,
                kind="own" if env is not None else kind_of(name),
                # 1: ML-Agents writes its default into files
                own_areas=env is None and settings.env_settings.num_areas in (None, 1),
            )
            stack.enter_context(closing(run))
        if waits:  # a run to which nothing connects makes no folder
            group.first(own)
        check(run, loaded)
        # everything is closed before a signal ends the process again
        with stop_on_signals(run) as stopper, stack.pop_all():
            result = carry_out(run, stopper)
        return replace(result, signal=stopper.received)


def own_folder(folder: RunFolder, settings: RunSettings, until: ExitStack, console: Console) -> None:
    """Makes this process the only writer of a run's folder until `until` is left; in inference the run is not written
    to.

    Raises RunInUse or RunError.
    """
    chosen = settings.checkpoint_settings
    if chosen.inference:
        return
    folder.lock = until.enter_context(sole_writer(folder.path, console.warning))
    if not chosen.resume:
        folder.must_be_free(chosen.force)


def parts_of(run: Run, reopen: Reopen | None, callbacks: Sequence[Callback]) -> list[RunPart]:
    """Returns the features of a run, in the order in which they take part.

    The order matters within one moment. Requests come before the parts that carry them out, so that these act in the
    same round. Lessons come before `stop_when` and `keep_best`, which measure only the current lesson. Saving comes
    after all parts whose state it saves. The reports come last: they show what the other parts have done.
    """
    settings = run.settings
    saved = run.saved.parts
    step = 0 if run.saved.checkpoint is None else run.saved.checkpoint.step
    seed = settings.env_settings.seed
    parameters = Parameters(
        run.env,
        settings.environment_parameters,
        run.group.own_seed(seed),
        run.group.own_seed(seed + step),
        saved.get(Parameters.name),
    )
    lessons = Lessons(run.context, parameters, saved.get(Lessons.name), run.lesson_began, run.meetings.shared)
    return [
        SelfPlay(run.context),
        Requests(run),
        parameters,
        lessons,
        StopWhen(run.context, run.still_training, lambda: lessons.curricula.finished),
        Callbacks(run.group.first(lambda: callbacks) or (), run.end),
        KeepBest(run, reopen),
        Saving(run),
        Showing(run),
        Report(run),
        ProgressReport(run),
    ]


def carry_out(run: Run, stopper: Stopper) -> Result:
    """Trains and writes the run's files. After an error, saves what it can elsewhere, and says what is saved."""
    status = 1
    try:
        begin(run)
        try:
            loop(run)
            result = finish(run)
            run.statistics.trackers.end("finished" if result.finished or result.endings else "stopped")
            status = exit_status(result)
            return result
        except Exception as error:  # a program's callback may raise anything
            part_of(run.parts, ProgressReport).end("failed", reason_of(error))
            lost = None
            if isinstance(error, RunError) and not isinstance(error, Diverged | CheckpointError):
                lost = rescue(run, error)  # of the others the folder is there
            if lost is None or lost.saved is None:
                part_of(run.parts, Saving).show_saved()
            if lost is not None:
                raise lost from error
            if isinstance(error, ConfigError | DemoError):  # of a behavior that came late
                place = run.folder.path / CONFIGURATION
                again = continue_command(run)
                raise type(error)(f"{error}; change that in {place}, then '{again}' goes on") from error
            raise
    finally:
        stopper.status = status
