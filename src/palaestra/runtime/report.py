"""What a run says of itself at its beginning and at its end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaestra.runtime.checkpoints import Checkpoint
from palaestra.runtime.folder import RunFolder
from palaestra.runtime.run import Run
from palaestra.runtime.sinks import METRICS
from palaestra.runtime.watching import watch_command


def announce(run: Run, checkpoint: Checkpoint | None, warnings: Sequence[str]) -> None:
    """Where the run starts and, for a new one, with which settings."""
    for warning in warnings:
        run.console.warning(warning)
    name, place = run.folder.run_id, run.folder.path
    if run.inference:
        step = 0 if checkpoint is None else checkpoint.step
        run.console.info(f"Playing '{name}' as it was at step {step:,}; nothing in {place} is changed. Ctrl-C ends it")
    elif checkpoint is None:
        for behavior, learner in run.learners.items():
            run.tracker.text(behavior, "Hyperparameters", outline(learner.settings.model_dump()))
        run.console.info(f"Starting '{name}' from step 0; its files are in {place}")
    elif run.finished:
        run.console.info(
            f"The run '{name}' is finished: it has reached its max_steps of {limit(run):,}. To train it further, raise them: {go_on(run)}"
        )
    else:
        run.console.info(f"Resuming '{name}' from step {checkpoint.step:,}; its files are in {place}")
    run.lessons.announce()


def conclude(run: Run, finals: Mapping[str, Path]) -> None:
    """How it went, where everything is, and what can be done with it."""
    for student, absent in () if run.inference else run.teachers.absent(run.learners):
        run.console.warning(f"'{student}' has learned nothing in this session: its teacher's behavior, '{absent}', never came")
    total = max(run.session_seconds, 1e-9)
    shares = ", ".join(f"{name} {100 * spent / total:.0f} %" for name, spent in run.seconds.items())
    lines = [f"{run.step_now():,} decisions in {total:.1f} s: {run.step_now() / total:,.0f} a second ({shares})", *rewards(run)]
    if not run.inference:
        lines += [f"model        {path}" for path in finals.values()]
        lines += [f"curves       {path}" for path in curves(run)]
        lines.append(f"TensorBoard  tensorboard --logdir {shlex.quote(str(run.folder.results))}")
        if finals and run.settings.env_settings.env_path:
            lines.append(f"test it      palaestra evaluate {shlex.quote(str(run.folder.path))}")
            lines += [f"watch it     {command}" for command in watching(run)]
        lines.append(f"go on        {go_on(run)}")
    run.console.info("\n  ".join(lines))


def watching(run: Run) -> list[str]:
    """How its agents can be watched; empty where nothing can draw them."""
    name, no_graphics = run.settings.env_settings.env_path, run.settings.engine_settings.no_graphics
    record = f"palaestra record {shlex.quote(str(run.folder.path))}"
    command = watch_command(name or "", run.collector.env, record, play_command(run.folder), no_graphics=bool(no_graphics))
    return [] if command is None else [command]


def rewards(run: Run) -> list[str]:
    """A line a behavior."""
    lines = []
    for name in run.learners:
        mean = run.tracker.mean_reward(name)
        lines.append(f"{name}: " + ("no episode ended" if mean is None else f"mean reward {mean:.2f} over the last episodes"))
    return lines


def curves(run: Run) -> list[Path]:
    """Learning curves as a picture, where there is a summary. That they cannot be drawn must not make a good run fail."""
    if not (run.folder.path / METRICS).exists():
        return []
    from palaestra.runtime.curves import save_curves  # matplotlib takes half a second to import

    try:
        return [save_curves(run.folder.path)]
    except Exception as problem:  # whatever matplotlib makes of numbers near the largest that there are
        run.console.warning(f"the learning curves could not be drawn: {problem}")
        return []


def tell_what_is_safe(run: Run) -> None:
    """After an error: how much of the run is saved."""
    steps = [] if run.inference else run.checkpoints.steps()
    if steps:
        run.console.info(f"The run is saved as it was at step {steps[-1]:,}; to go on from there: {go_on(run)}")


def go_on(run: Run) -> str:
    """The command that continues the run; one that is finished needs more steps."""
    further = f" --set 'behaviors.*.max_steps={2 * limit(run)}'" if run.finished else ""
    return resume_command(run.folder) + further


def resume_command(folder: RunFolder) -> str:
    """The command that resumes a run."""
    return f"{_learn(folder)} --resume"


def play_command(folder: RunFolder) -> str:
    """The command that plays a run."""
    return f"{_learn(folder)} --inference"


def _learn(folder: RunFolder) -> str:
    elsewhere = "" if folder.results == Path("results") else f" --results-dir={shlex.quote(str(folder.results))}"
    return f"palaestra learn --run-id={shlex.quote(folder.run_id)}{elsewhere}"


def limit(run: Run) -> int:
    """The largest max_steps of its behaviors."""
    return max(learner.settings.max_steps for learner in run.learners.values())


def outline(tree: Mapping[str, Any], depth: int = 1) -> str:
    """Settings as an indented list, for people."""
    lines = []
    for key, value in tree.items():
        nested = isinstance(value, Mapping)
        lines.append("\t" * depth + f"{key}:" + ("" if nested else f"\t{value}"))
        if nested:
            lines.append(outline(value, depth + 1))
    return "\n".join(lines)
