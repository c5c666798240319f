"""`palaestra.train` and the command line's `learn`: the same engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from palaestra.core.errors import (
    ConfigError,
    Diverged,
    PalaestraError,
    RankLost,
    RunError,
    SeveralProcesses,
    exception_summary,
)
from palaestra.core.plugins import nearest, registry
from palaestra.core.versions import palaestra_version
from palaestra.envs.base import Env
from palaestra.envs.transfer import Transfer
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel import rank_setup, ranks
from palaestra.parallel.closing import closing_safely, reason_of, warning_of_failure
from palaestra.parallel.rank_group import RankGroup
from palaestra.parallel.worker import WorkerLost
from palaestra.runtime.control.os_signals import Stopper, Terminated, break_on_signals, pass_on, stop_on_signals
from palaestra.runtime.curriculum.lessons import Lessons
from palaestra.runtime.curriculum.parameters import invalid_values
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.environments.make import EDITOR, guarded, is_game, make_env
from palaestra.runtime.environments.unity_games import game_settings
from palaestra.runtime.logging.console import Console
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.logging.timers import Timers
from palaestra.runtime.logging.tracker import TrackedRun, Tracker
from palaestra.runtime.logging.tracker_plugins import find_trackers, make_trackers
from palaestra.runtime.logging.trackers import ConsoleTracker, GaugeTracker
from palaestra.runtime.logging.waiting import WaitingNotice
from palaestra.runtime.parts.part import RunPart
from palaestra.runtime.parts.rank_warnings import RankWarnings
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.play.best_models import Reopen, reopening
from palaestra.runtime.run import report
from palaestra.runtime.run.keep_best import KeepBest
from palaestra.runtime.run.loop import train as loop
from palaestra.runtime.run.meetings import journal_of
from palaestra.runtime.run.rank_launch import count_of, shares
from palaestra.runtime.run.report import Report
from palaestra.runtime.run.requests import ProgressReport, Requests
from palaestra.runtime.run.resuming import steps_in
from palaestra.runtime.run.run_settings import NO_FILE, fitted_to, must_be_there, seeded, settled_settings
from palaestra.runtime.run.saving import Saving
from palaestra.runtime.run.stop_when import Callback, Callbacks, StopWhen
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.self_play.sides import SelfPlay
from palaestra.runtime.settings import Loaded, RunSettings
from palaestra.runtime.settings.criteria import ambiguous, never_measured
from palaestra.runtime.storage.checkpoints import Checkpoint, Checkpoints
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.runtime.storage.status import TrainingStatus
from palaestra.runtime.storage.trust import agent_code, learning_code
from palaestra.runtime.storage.writer_lock import sole_writer

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.vector import VectorEnv

Config = Path | str | Mapping[str, Any] | None

STUCK = 3
"""Exit status of a run that ended because it made no progress."""


@dataclass(frozen=True, slots=True)
class Result:
    """Results of a training: models, steps, rewards and the run's folder."""

    folder: Path
    steps: dict[str, int]  # decisions of each behavior
    # mean return of the episodes of each one's last summary; `evaluate` says how good the end is
    rewards: dict[str, float | None]
    episodes: dict[str, int]  # how many these are
    models: dict[str, Path]  # the final ONNX models
    finished: bool  # False: it was stopped early, and resumes
    signal: int | None = None  # the number of the signal that stopped it
    # by behavior, "goal" or "no progress", where stop_when ended the run
    endings: dict[str, str] = field(default_factory=dict)
    unwritten: tuple[str, ...] = ()  # behaviors whose final model could not be written


def train(
    config: Config = None,
    *,
    env: Env | str | gymnasium.Env | VectorEnv | Sequence[gymnasium.Env] | Callable[..., Any] | None = None,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
    sets: Sequence[str] = (),
    trust: bool = False,
    **settings: Any,
) -> Result:
    """Trains as `palaestra learn` does.

    `config` is a file or a tree of settings. `env` is a name as for `--env`; an environment of your own: an `Env`, a
    Gymnasium environment (one area; a list of them: one each) or vector environment; or a function or class that makes
    one of these (called `num_areas` times, 16 by default, where it makes single Gymnasium environments). It is left
    open if you made it. Further keywords are settings of `checkpoint_settings`, `env_settings` and `torch_settings` by
    their YAML names: run_id, resume, force, results_dir, seed, num_areas, device ... Each callback is given every
    Summary; one that returns True ends the training, as `palaestra.stop_at_reward(95)` does.
    `trust`: a resumed run may run the code that its settings name, although its folder was not written by you on this
    machine. Raises PalaestraError. Ctrl-C and SIGTERM save the run, and then do what they do anywhere: Ctrl-C raises
    KeyboardInterrupt, SIGTERM ends the program, unless it handles them itself.
    """
    overrides = sectioned(settings)
    if isinstance(env, str):
        overrides.setdefault("env_settings", {})["env_path"] = env
    try:
        own = None if isinstance(env, str) else env
        result = learn(config, overrides, sets, env=own, callbacks=callbacks, quiet=quiet, trust=trust)
    except Terminated as before_the_run:
        pass_on(before_the_run.number)
        raise
    if result.signal is not None:
        pass_on(result.signal)
    return result


def sectioned(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns keywords by the section of the settings tree that they belong to. Raises ConfigError for an unknown
    one.
    """
    tree: dict[str, Any] = {}
    sections = ("checkpoint_settings", "env_settings", "torch_settings", "engine_settings")
    for key, value in settings.items():
        for section in sections:
            if key in type(getattr(RunSettings(), section)).model_fields:
                tree.setdefault(section, {})[key] = value
                break
        else:
            raise ConfigError(f"train() knows no setting '{key}': keywords are keys of {', '.join(sections)}")
    return tree


def learn(
    config: Config,
    overrides: Mapping[str, Any],
    sets: Sequence[str] = (),
    *,
    env: object | None = None,
    callbacks: Sequence[Callback] = (),
    notes: Sequence[str] = (),
    quiet: bool = False,
    trust: bool = False,
) -> Result:
    """Loads the settings, builds a run, trains, and writes its files. `env` is as for `train`. Raises
    PalaestraError.
    """
    loaded, folder = settled_settings(
        config, overrides, sets, agent_code if env is not None else learning_code, trust=trust
    )
    torch_settings = loaded.settings.torch_settings
    if not ranks.asked() and (count := count_of(torch_settings)) > 1 and not plays_alone(loaded):
        raise SeveralProcesses(count)
    with (
        callers_threads(),
        ranks.joined(
            torch_settings.rank_timeout, torch_settings.device or ("cpu" if torch_settings.processes else None)
        ) as group,
    ):
        loaded = of_rank(loaded, folder, group)
        try:
            return train_rank(loaded, folder, group, env=env, callbacks=callbacks, notes=notes, quiet=quiet)
        except RankLost as error:
            raise RankLost(f"{error}; --resume goes on from the last checkpoint", tell=error.tell) from error
        except WorkerLost as error:
            rank_setup.leave_message(reason(error), group)
            raise WorkerLost(f"{error}; --resume goes on from the last checkpoint") from error
        except BaseException as error:
            rank_setup.leave_message(reason(error), group)
            raise


@contextmanager
def callers_threads() -> Iterator[None]:
    """Gives the program that trains its number of threads back."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def plays_alone(loaded: Loaded) -> bool:
    """Whether a run of several processes is only played, which one process does; that the command line asks for several
    is an error.
    """
    typed = loaded.sourced is not None and any(
        loaded.sourced.source(("torch_settings", key)).words for key in ("processes", "gpus")
    )
    return loaded.settings.checkpoint_settings.inference and not typed


def reason(error: BaseException) -> str:
    """Returns why this rank ends, for the others to report."""
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    return reason_of(error)


def of_rank(loaded: Loaded, folder: RunFolder, group: RankGroup) -> Loaded:
    """Returns the settings as they hold here: torchrun, when it starts ranks again, means the same run. Raises
    ConfigError.
    """
    settings = loaded.settings
    if group.size > 1 and settings.checkpoint_settings.inference:
        raise ConfigError("--inference plays in one process; leave out --processes, --gpus and torchrun")
    rank_setup.must_have_same({"palaestra": palaestra_version(), "torch": torch.__version__}, group)
    if rank_setup.begun_before(str(folder.path), group) and group.from_first(folder.exists):
        again = settings.checkpoint_settings.model_copy(update={"resume": True, "force": False})
        return replace(loaded, settings=settings.model_copy(update={"checkpoint_settings": again}))
    return loaded


def train_rank(
    loaded: Loaded,
    folder: RunFolder,
    group: RankGroup,
    *,
    env: object | None,
    callbacks: Sequence[Callback],
    notes: Sequence[str],
    quiet: bool,
) -> Result:
    """Builds the run of this process, trains, and writes its files; of several ranks the first writes."""
    stopper: Stopper | None = None
    with break_on_signals(), ExitStack() as stack:
        stream = stack.enter_context(open(os.devnull, "w")) if quiet or not group.leads else None
        warnings = RankWarnings()
        console = stack.enter_context(closing(Console(loaded.settings.debug, stream, warnings.heard)))
        warn_all(console, (*notes, *(loaded.warnings if loaded.with_tree is None else ())))
        if not loaded.settings.checkpoint_settings.inference:
            must_be_there(loaded, folder)
            folder.lock = group.first(lambda: stack.enter_context(sole_writer(folder.path, console.warning)))
        found = find_trackers(loaded.settings)
        checkpoint = group.from_first(group.first(lambda: starting_point(folder, loaded.settings, console)))
        settings = group.from_first(seeded(loaded.settings, checkpoint))
        rank_setup.note_begun(str(folder.path), group)
        with WaitingNotice(f"opening {settings.env_settings.env_path or EDITOR}", console.info):
            if env is None:
                world, is_ours = open_env(settings, folder, console, group), True
            else:
                world, is_ours = take_env(env, settings, group)
        if is_ours:
            stack.enter_context(
                closing_safely(world, "the environment", console.warning, lambda: stopper and stopper.leave)
            )
        loaded, settings = fit_settings(loaded, world, settings, console, group)
        if invalid := list(invalid_values(world, settings.environment_parameters)):
            raise loaded.refusal(invalid, "parameters are not taken by the environment")
        timers = Timers()
        shown = {
            **(group.first(lambda: trackers(found, folder, settings, checkpoint, console)) or {}),
            "gauges": GaugeTracker(timers),
        }
        statistics = stack.enter_context(closing(Statistics(shown, console.warning)))
        stack.enter_context(statistics.telling_failure())
        # 1: ML-Agents writes its default into files
        own_areas = env is None and settings.env_settings.num_areas in (None, 1)
        name = settings.env_settings.env_path or EDITOR
        reopen = reopening(settings, env)
        status = TrainingStatus(folder.logs / "training_status.json")
        context = RunContext(settings, folder, world, journal_of(statistics, group), console, group, status)
        with first_wait(settings, env is None, console):
            run = Run(
                context,
                statistics,
                timers,
                lambda run: parts_of(run, reopen, callbacks),
                checkpoint=checkpoint,
                warnings=warnings,
                kind="own" if env is not None else report.kind_of(name),
                own_areas=own_areas,
            )
            stack.enter_context(closing(run))
        check(run, loaded)
        # everything is closed before a signal ends the process again
        with stop_on_signals(run) as stopper, stack.pop_all():
            result = carry_out(run, stopper)
        return replace(result, signal=stopper.heard)


def parts_of(run: Run, reopen: Reopen | None, callbacks: Sequence[Callback]) -> list[RunPart]:
    """Returns the features of a run, in the order in which they take part."""
    checkpoint = run.saved.checkpoint
    step = 0 if checkpoint is None else checkpoint.step
    lessons = Lessons(run.context, run.saved.run.get("lessons"), step, run.lesson_began)
    return [
        SelfPlay(run.context),
        Requests(run),
        lessons,
        StopWhen(run.context, run.still_training, lambda: lessons.curricula.finished),
        Callbacks(run.group.first(lambda: callbacks) or (), run.end),
        KeepBest(run, reopen),
        Saving(run),
        Report(run),
        ProgressReport(run),
    ]


def carry_out(run: Run, stopper: Stopper) -> Result:
    """Trains and writes the run's files. After an error, saves what the run's own folder does not take, and says what
    is safe.
    """
    stopper.status = None
    status = 1
    try:
        begin(run)
        try:
            loop(run)
            result = finish(run)
            run.statistics.end("finished" if result.finished or result.endings else "stopped")
            status = exit_status(result)
            return result
        except Exception as error:  # a program's callback may raise anything
            text = str(error) if isinstance(error, PalaestraError) else exception_summary(error)
            run.part(ProgressReport).tell_end("failed", text)
            saving = run.part(Saving)
            lost = saving.rescue(error) if isinstance(error, RunError) and not isinstance(error, Diverged) else None
            if lost is None or lost.saved is None:
                saving.tell_what_is_safe()
            if lost is not None:
                raise lost from error
            raise
    finally:
        stopper.status = status


def tell_origin(loaded: Loaded, console: Console) -> None:
    """Tells where settings come from, if no file is given."""
    for line in loaded.told:
        console.info(line)
    if loaded.with_tree is not None:
        console.warning(NO_FILE)


def first_wait(settings: RunSettings, named: bool, console: Console) -> AbstractContextManager[object]:
    """Shows what the run waits for until the first decision, if that takes long; waiting for the Editor has its own
    message.
    """
    name = settings.env_settings.env_path or EDITOR
    if named and name == EDITOR:
        return nullcontext()
    game = named and is_game(name)
    what = (
        f"waiting for {name} to ask for decisions"
        if game
        else "starting the environment (what is new in it is compiled) and networks"
    )
    return WaitingNotice(what, console.info)


def take_env(given: object, settings: RunSettings, group: RankGroup) -> tuple[EnvWrapper, bool]:
    """Returns the environment that a program gave to `train`, and whether it was made here. Raises EnvError or
    ConfigError.
    """
    device = device_of(settings, group)
    areas = settings.env_settings.num_areas
    env, is_ours = as_env(
        given,
        areas if areas is None else rank_setup.split(areas, group, "areas", "--num-areas"),
        device,
        settings.env_settings.env_options,
    )
    if env is given:  # the device of the user's own is its own affair
        return EnvWrapper.of(env), is_ours
    return on_device(env, device), is_ours


def device_of(settings: RunSettings, group: RankGroup) -> str:
    """Returns the device in the settings, else this machine's accelerator if it has one. Raises ConfigError."""
    torch_settings = settings.torch_settings
    usual = "cuda" if torch.cuda.is_available() and (torch_settings.gpus or not torch_settings.processes) else "cpu"
    device = torch_settings.device or usual
    if device == "cuda" and group.size > 1:
        device = f"cuda:{group.local_number % max(1, torch.cuda.device_count())}"
    if not device_exists(device):
        raise ConfigError(f"torch device '{device}' is not there: this machine has {', '.join(devices())}")
    return device


def on_device(env: Env, device: str) -> EnvWrapper:
    """Returns the environment with its tables on a device."""
    return EnvWrapper.of(env) if env.device.type == torch.device(device).type else Transfer(env, torch.device(device))


def fit_settings(
    loaded: Loaded, env: EnvWrapper, settings: RunSettings, console: Console, group: RankGroup
) -> tuple[Loaded, RunSettings]:
    """Returns settings that fit the environment if there is no file, else the given ones; says where they come from.

    Without a file warnings are shown now, since those of the defaults would be about settings that are replaced.
    """
    found, settings = fitted_to(loaded, env, settings, group)
    warn_all(console, () if loaded.with_tree is None else found.warnings)
    tell_origin(found, console)
    return found, settings


def warn_all(console: Console, notes: Sequence[str]) -> None:
    """Shows warnings, one after another."""
    for note in notes:
        console.warning(note)


def open_env(settings: RunSettings, folder: RunFolder, console: Console, group: RankGroup) -> EnvWrapper:
    """Opens the environment named in the settings; the Editor if they name none."""
    env = settings.env_settings
    device = device_of(settings, group)
    name = env.env_path or EDITOR
    same = [name for name in settings.behaviors if name in registry("envs")]
    if env.env_path is None and same:
        console.info(
            f"No --env is given: training in the Unity Editor. The built-in environment of that name is --env={same[0]}"
        )
    logs = (
        None
        if settings.checkpoint_settings.inference
        else folder.logs
        if group.leads
        else folder.logs / f"rank-{group.number}"
    )
    games = replace(game_settings(settings, logs, console.tell), group=group)
    areas = env.num_areas
    if group.size > 1:
        games, areas = shares(group, name, games, areas, lambda: make_env(name, device=device, options=env.env_options))
    made = make_env(name, areas=areas, device=device, options=env.env_options, games=games)
    return on_device(guarded(made, name), device)


def devices() -> list[str]:
    """Returns the devices of this machine."""
    return ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]


def device_exists(name: str) -> bool:
    """Whether torch can put a tensor there."""
    with suppress(RuntimeError, AssertionError):
        torch.empty(0, device=name)
        return True
    return False


def starting_point(folder: RunFolder, settings: RunSettings, console: Console) -> Checkpoint | None:
    """Returns the checkpoint to resume or to play; None for a new run or one killed before its first checkpoint. Raises
    RunError.
    """
    chosen = settings.checkpoint_settings
    if not chosen.resume and not chosen.inference:
        folder.must_be_free(chosen.force)
        return None
    folder.must_exist("resume" if chosen.resume else "play")
    checkpoints = Checkpoints(folder.checkpoints, 0)
    if not checkpoints.steps():
        if chosen.inference:
            raise RunError(f"the run '{folder.run_id}' has no checkpoint yet ({folder.path}): there is nothing to play")
        if (file := folder.trained_file()) is not None:
            raise RunError(
                f"the run '{folder.run_id}' has no checkpoint to continue from, but it has results, such as {file}: "
                "put its checkpoints/ back, start a new run under another --run-id, or start this one again with "
                "--force"
            )
        console.warning(f"the run '{folder.run_id}' was not saved before it ended: it starts from step 0")
        return None
    checkpoint = checkpoints.load()
    for warning in checkpoint.warnings:
        console.warning(warning)
    return checkpoint


def trackers(
    found: Mapping[str, Callable[..., Tracker]],
    folder: RunFolder,
    settings: RunSettings,
    checkpoint: Checkpoint | None,
    console: Console,
) -> dict[str, Tracker]:
    """Makes the trackers of a run; in inference only the console, because nothing is written then."""
    run = TrackedRun(
        folder.path, settings, {} if checkpoint is None else steps_in(checkpoint), console.info, console.debug
    )
    if settings.checkpoint_settings.inference:
        return {"console": ConsoleTracker(run)} if "console" in found else {}
    return make_trackers(found, run, console.warning)


def check(run: Run, loaded: Loaded) -> None:
    """Raises ConfigError for what could never happen, and warns of what may not."""
    check_lessons(run, loaded)
    check_teachers(run, loaded)
    warn_of_unused_blocks(run, loaded)


def check_lessons(run: Run, loaded: Loaded) -> None:
    """Raises ConfigError for lessons that could never end; warns if a game may still show what they wait for."""
    if unclear := list(ambiguous(run.settings, run.learners)):
        raise loaded.refusal(unclear, "lessons do not say whom they wait for")
    problems = list(never_measured(run.settings, run.learners))
    if problems and shows_all(run) and not run.env.traits.measures:
        raise loaded.refusal(problems, "lessons would never end")
    for at, sentence in problems:
        if at[-1] == "measure" and "did you mean" not in sentence:
            continue  # a statistic of the game's own, it seems; Lessons warns where none comes
        run.console.warning(
            f"parameter '{at[1]}', lesson {int(at[3]) + 1}: {sentence}; unless that changes, the lesson never ends"
        )


def warn_of_unused_blocks(run: Run, loaded: Loaded) -> None:
    """Warns of names under `behaviors` that the environment does not have, or has not shown so far."""
    for name, text in report.unused_blocks(run, "in this environment" if shows_all(run) else "so far"):
        where = loaded.sourced.source(("behaviors", name)).where if loaded.sourced else ""
        run.console.warning(f"{where}: {text}" if where else text)


def check_teachers(run: Run, loaded: Loaded) -> None:
    """Raises ConfigError for students of a behavior that the environment never has."""
    if run.inference or not shows_all(run):
        return
    problems = []
    there = run.env.behaviors
    for student, absent in run.absent_teachers():
        block = ("behaviors", student) if student in run.settings.behaviors else ("default_settings",)
        sentence = (
            f"the environment has no behavior '{absent}'{nearest(absent, there)} (there are: "
            f"{', '.join(map(repr, there))})"
        )
        problems.append(((*block, "hyperparameters", "teacher_behavior"), sentence))
    if problems:
        raise loaded.refusal(problems, "teachers would never come")


def shows_all(run: Run) -> bool:
    """Whether all behaviors of the environment appear at the start."""
    name = run.settings.env_settings.env_path or ""
    return (
        name.startswith(("builtin:", "gymnasium:", "envpool:", "pettingzoo:")) or name in registry("envs")
    ) and not is_game(name)


def begin(run: Run) -> None:
    """Makes or opens the run's folder, and starts the parts."""
    warnings = [] if run.inference else run.group.first(lambda: prepare_folder(run)) or []
    run.group.first(lambda: report.announce(run, warnings))
    run.start()


def prepare_folder(run: Run) -> list[str]:
    """Makes or opens the run's folder. Returns warnings."""
    resumed = run.saved.checkpoint is not None
    warnings = [*run.models.status.load()] if resumed else []
    if not run.settings.checkpoint_settings.resume:
        run.folder.create(run.settings)
    run.folder.sweep()
    warnings += report.raised_rates(run) if resumed else []
    run.folder.configure(run.settings)
    return warnings


def finish(run: Run) -> Result:
    """Saves, writes the final models, and says where everything is; a run that was finished before stays as it is."""
    run.console.close()  # its live line tells of what is over
    endings = {} if run.inference else run.endings()
    if run.stopped and not run.inference:
        why = "; ".join(f"'{name}': {course.reason}" for name, course in endings.items())
        run.console.info(
            f"Training ends early ({why})" if endings else "Training was stopped; saving what it has learned"
        )
    finals = dict[str, Path]()
    if not run.inference:
        finals = run.group.from_first(run.models.finals(run.learners)) or run.part(Saving).conclude()
    with warning_of_failure("the report", run.console.warning):
        report.conclude(run, finals)
    last = {name: run.statistics.last_reward(name) for name in run.learners}
    rewards = {name: None if one is None else one.judged[0] for name, one in last.items()}
    reason = "; ".join(f"{name}: {course.ending}, {course.reason}" for name, course in endings.items())
    run.part(ProgressReport).tell_end("finished" if run.finished or endings else "stopped", reason)
    episodes = {name: 0 if one is None else one.judged[1] for name, one in last.items()}
    steps = {name: learner.step for name, learner in run.learners.items()}
    why = {name: course.ending for name, course in endings.items()}
    lacking = None if run.inference else run.group.first(lambda: tuple(name for name in steps if name not in finals))
    return Result(run.folder.path, steps, rewards, episodes, finals, run.finished, endings=why, unwritten=lacking or ())


def exit_status(result: Result) -> int:
    """Returns the exit status of `palaestra learn`."""
    return 1 if result.unwritten else STUCK if "no progress" in result.endings.values() else 0
