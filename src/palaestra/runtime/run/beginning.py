"""The beginning of a run: its starting state, its trackers, its folder, and its first messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from palaestra.core.errors import PalaestraError, RunError
from palaestra.runtime.environments.make import EDITOR, is_game
from palaestra.runtime.logging.bottleneck import EnvKind
from palaestra.runtime.logging.console import Console
from palaestra.runtime.logging.tracker import TrackedRun, Tracker
from palaestra.runtime.logging.tracker_plugins import make_trackers
from palaestra.runtime.logging.trackers import ConsoleTracker
from palaestra.runtime.logging.waiting import WaitingNotice
from palaestra.runtime.run.commands import continue_command, farthest, limit, own_env, resume_command
from palaestra.runtime.run.rate_jumps import raised, sentence
from palaestra.runtime.run.resuming import steps_in
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.settings import RunSettings, load
from palaestra.runtime.storage.checkpoints import Checkpoint, Checkpoints
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder


def starting_point(folder: RunFolder, settings: RunSettings, warn: Callable[[str], object]) -> Checkpoint | None:
    """Returns the checkpoint to resume or play; None for a new run or a run that was never saved. Raises RunError."""
    chosen = settings.checkpoint_settings
    if not chosen.resume and not chosen.inference:
        folder.must_be_free(chosen.force)
        return None
    folder.must_exist("resume" if chosen.resume else "play")
    checkpoints = Checkpoints(folder.checkpoints, 0)
    if checkpoints.steps():
        checkpoint = checkpoints.load()
        for warning in checkpoint.warnings:
            warn(warning)
        return checkpoint
    if chosen.inference:
        raise RunError(f"the run '{folder.run_id}' has no checkpoint yet ({folder.path}): there is nothing to play")
    if (file := folder.trained_file()) is not None:
        raise RunError(
            f"the run '{folder.run_id}' has no checkpoint to continue from, but it has results, such as {file}: "
            "put its checkpoints/ back, start a new run under another --run-id, or start this one again with "
            "--force"
        )
    warn(f"the run '{folder.run_id}' was not saved before it ended: it starts from step 0")
    return None


def trackers(
    found: Mapping[str, Callable[..., Tracker]],
    folder: RunFolder,
    settings: RunSettings,
    checkpoint: Checkpoint | None,
    console: Console,
) -> dict[str, Tracker]:
    """Makes the trackers of a run; for inference only the console, because nothing is written then."""
    steps = {} if checkpoint is None else steps_in(checkpoint)
    run = TrackedRun(folder.path, settings, steps, console.info, console.debug, console.summary)
    if settings.checkpoint_settings.inference:
        return {"console": ConsoleTracker(run)} if "console" in found else {}
    return make_trackers(found, run, console.warning)


def first_wait(settings: RunSettings, named: bool, console: Console) -> AbstractContextManager[object]:
    """Shows what a long start is waiting for, until the first decision; for the Editor there is another message."""
    name = settings.env_settings.env_path or EDITOR
    if named and name == EDITOR:
        return nullcontext()
    if named and is_game(name):
        return WaitingNotice(f"waiting for {name} to ask for decisions", console.info)
    return WaitingNotice("starting the environment (what is new in it is compiled) and networks", console.info)


def kind_of(name: str) -> EnvKind:
    """Returns the kind of the environment that a name means, for advice about speed."""
    if is_game(name):
        return "editor" if name == EDITOR else "game"
    kind, colon, _ = name.partition(":")
    return "python" if colon and kind != "builtin" else "builtin"


def begin(run: Run) -> None:
    """Makes or opens the run's folder, prints where the run starts, and starts the parts."""
    warnings = [] if run.inference else run.group.first(lambda: _prepare_folder(run)) or []
    run.group.first(lambda: _announce(run, warnings))
    run.start()


def _prepare_folder(run: Run) -> list[str]:
    resumed = run.saved.checkpoint is not None
    warnings = run.models.status.load() if resumed else []
    if not run.settings.checkpoint_settings.resume:
        run.folder.create(run.settings)
    run.folder.sweep()
    if resumed:
        warnings = [*warnings, *_raised_rates(run)]
    run.folder.configure(run.settings)
    return warnings


def _raised_rates(run: Run) -> list[str]:
    try:
        before = load(run.folder.path / CONFIGURATION, own_code=False).settings
    except PalaestraError:
        return []
    command = resume_command(run.folder, own_env(run))
    return [sentence(jump, command, len(run.learners)) for jump in raised(before, run.learners)]


def _of(run: Run) -> str:
    """Returns " of N", the max_steps of a run's only behavior; '' with several, whose steps are counted separately."""
    return f" of {limit(run):,}" if len(run.learners) == 1 else ""


def _announce(run: Run, warnings: list[str]) -> None:
    for warning in warnings:
        run.console.warning(warning)
    checkpoint = run.saved.checkpoint
    name = run.folder.run_id
    place = run.folder.path
    if run.inference:
        step = 0 if checkpoint is None else checkpoint.step
        run.console.info(f"Playing '{name}' as it was at step {step:,}; nothing in {place} is changed. Ctrl-C ends it")
    elif checkpoint is None:
        run.console.info(f"Starting '{name}' from step 0{_of(run)}; its files are in {place}")
    elif run.finished:
        run.console.info(
            f"The run '{name}' is finished: it has reached its max_steps of {limit(run):,} (it is at step "
            f"{farthest(run):,}). To train it further, raise them: {continue_command(run)}"
        )
    else:
        run.console.info(f"Resuming '{name}' from step {checkpoint.step:,}{_of(run)}; its files are in {place}")
    for note in run.env.traits.notes:
        run.console.info(note)
