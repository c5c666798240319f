"""Commands that continue, play and show a run, for its messages."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

from palaestra.core.errors import EnvError
from palaestra.envs.base import Env
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.run_folder import RunFolder

PYGAME = {"classic_control": "classic-control", "toy_text": "toy-text", "box2d": "box2d"}
"""Groups of Gymnasium's own environments that draw with pygame, and the extra that installs it."""


def resume_command(folder: RunFolder) -> str:
    """Returns the command that resumes a run."""
    return f"{_learn(folder)} --resume"


def play_command(folder: RunFolder) -> str:
    """Returns the command that plays a run."""
    return f"{_learn(folder)} --inference"


def _learn(folder: RunFolder) -> str:
    elsewhere = "" if folder.results == Path("results") else f" --results-dir={shlex.quote(str(folder.results))}"
    return f"palaestra learn --run-id={shlex.quote(folder.run_id)}{elsewhere}"


def continue_command(run: Run) -> str:
    """Returns the command that continues the run, with more steps if it is finished."""
    further = f" --set 'behaviors.*.max_steps={more_steps(run)}'" if run.finished else ""
    return resume_command(run.folder) + further


def more_steps(run: Run) -> int:
    """Returns the max_steps that doubles a finished run."""
    return 2 * max(limit(run), farthest(run))


def limit(run: Run) -> int:
    """Returns the largest max_steps of its behaviors."""
    return max(learner.settings.max_steps for learner in run.learners.values())


def farthest(run: Run) -> int:
    """Returns the largest step of all behaviors."""
    return max(learner.step for learner in run.learners.values())


def watch_command(name: str, env: Env, record: str, play: str, *, no_graphics: bool = False) -> str | None:
    """Returns the command that shows an environment's agents, after what must be installed first; None if nothing draws
    them.

    `record` and `play` are the commands that record the run and that play it.
    A Unity build draws in its own window, so the command turns `no_graphics` off.
    A Python game in a process of its own draws nothing.
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
    """Judges by what the environment declares: trying would take another copy of it."""
    from palaestra.envs.gymnasium import drawn_by

    place = drawn_by(id)
    if place is None:
        return None
    group = place.removeprefix("gymnasium.envs.").partition(".")[0] if place.startswith("gymnasium.envs.") else ""
    missing = group in PYGAME and find_spec("pygame") is None
    return f'pip install "gymnasium[{PYGAME[group]}]", then {record}' if missing else record
