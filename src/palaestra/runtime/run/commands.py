"""Commands that continue, play and show a run, for its messages."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

from palaestra.core.errors import EnvError
from palaestra.envs.base import Env
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.parts.part import endings_of, part_of
from palaestra.runtime.play.run_models import BEST
from palaestra.runtime.run.features.keep_best import has_better_than_last
from palaestra.runtime.run.features.report import Report
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.run_folder import RunFolder

PYGAME = ("classic_control", "toy_text", "box2d")
"""Groups of Gymnasium's own environments that draw with pygame."""


def resume_command(folder: RunFolder, env: str = "") -> str:
    """Returns the command that resumes a run. `env`: the flag for its environment."""
    return f"{_learn(folder)}{env} --resume"


def _learn(folder: RunFolder) -> str:
    elsewhere = "" if folder.results == Path("results") else f" --results-dir={shlex.quote(str(folder.results))}"
    return f"palaestra learn --run-id={shlex.quote(folder.run_id)}{elsewhere}"


def continue_command(run: Run) -> str:
    """Returns the command that continues the run, with more steps if it is finished."""
    further = f" --max-steps={more_steps(run)}" if run.finished else ""
    return resume_command(run.folder, own_env(run)) + further


def more_steps(run: Run) -> str:
    """Returns the max_steps that doubles a finished run, rounded to two digits."""
    steps = 2 * max(limit(run), farthest(run))
    unit = 10 ** max(len(str(steps)) - 2, 0)
    rounded = round(steps / unit) * unit
    mantissa, exponent = f"{rounded:.1e}".split("e")
    return f"{mantissa[0]}e{int(exponent)}" if rounded >= 1_000_000 and mantissa.endswith(".0") else str(rounded)


def own_env(run: Run) -> str:
    """Returns the placeholder flag for an environment that a program has made."""
    return " --env=..." if run.kind == "own" else ""


def next_commands(run: Run, *, models: bool) -> list[str]:
    """Returns the commands that work for a run, the wanted command first. `models`: whether all models were written."""
    folder, name = run.folder, run.settings.env_settings.env_path
    place = shlex.quote(folder.run_id if folder.results == Path("results") else str(folder.path))
    if not models:
        return [f"palaestra export {place}", continue_command(run)]
    chosen = f"{place}@{BEST}" if has_better_than_last(run) else place
    commands = []
    if name or run.kind == "own":
        commands.append(f"palaestra evaluate {chosen}{own_env(run)}")
    if name:
        hidden = bool(run.settings.engine_settings.no_graphics)
        play = f"{_learn(folder)} --inference"
        watch = watch_command(name, run.env, f"palaestra record {chosen}", play, no_graphics=hidden)
        commands += [] if watch is None else [watch]
    if find_spec("nicegui") is not None:
        commands.append(f"palaestra view {place}")
    if endings_of(run.parts) or (run.finished and part_of(run.parts, Report).hopeless):  # nothing is to be gained
        return commands
    further = continue_command(run)
    return [*commands, further] if run.finished else [further, *commands]


def limit(run: Run) -> int:
    """Returns the largest max_steps of the run's behaviors."""
    return max(learner.settings.max_steps for learner in run.learners.values())


def farthest(run: Run) -> int:
    """Returns the largest step of all behaviors."""
    return max(learner.step for learner in run.learners.values())


def watch_command(name: str, env: Env, record: str, play: str, *, no_graphics: bool = False) -> str | None:
    """Returns the command that shows an environment's agents; None if they cannot be drawn here.

    `record` and `play` are the commands that record the run and that play it. A Unity build draws in its own window, so
    the command turns `no_graphics` off. A Python game in a separate process draws nothing.
    """
    if is_game(name):
        window = " --set engine_settings.no_graphics=false" if no_graphics else ""
        return None if name.endswith(".py") else f"{play} --time-scale=1{window}"
    if name.startswith(("pettingzoo:", "envpool:")):
        return record  # drawn only if it is made for that: the command makes another
    if name.startswith("gymnasium:"):
        return _gymnasium(name.removeprefix("gymnasium:"), record)
    try:
        env.render(0)
    except (EnvError, NotImplementedError):
        return None
    return record


def _gymnasium(id: str, record: str) -> str | None:
    """Judges by the environment's declarations: a trial would need another copy of it."""
    from palaestra.envs.gymnasium import drawn_by

    place = drawn_by(id)
    if place is None:
        return None
    group = place.removeprefix("gymnasium.envs.").partition(".")[0] if place.startswith("gymnasium.envs.") else ""
    return None if group in PYGAME and find_spec("pygame") is None else record
