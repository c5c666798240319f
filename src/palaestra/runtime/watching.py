"""How the agents of a run can be watched, which depends on what can draw them."""

from __future__ import annotations

from importlib.util import find_spec

from palaestra.core.errors import EnvError
from palaestra.envs.base import Env
from palaestra.runtime.environments import is_game

PYGAME = {"classic_control": "classic-control", "toy_text": "toy-text", "box2d": "box2d"}
"""Groups of Gymnasium's own environments that draw with pygame, and the extra that installs it."""


def watch_command(name: str, env: Env, record: str, play: str, *, no_graphics: bool = False) -> str | None:
    """The command that shows an environment's agents, after what must be installed first; None where nothing draws them.

    `record` and `play` are the commands that record the run and that play it. A Unity build draws in a window of its own, for which
    one that was trained without (`no_graphics`) is told so. A game in Python that runs as a process draws nowhere.
    """
    if is_game(name):
        window = " --set engine_settings.no_graphics=false" if no_graphics else ""
        return None if name.endswith(".py") else f"{play} --time-scale=1{window}"
    if name.startswith("gymnasium:"):
        return _gymnasium(name.removeprefix("gymnasium:"), record)
    try:
        env.render(0)
    except (EnvError, NotImplementedError):
        return None
    return record


def _gymnasium(id: str, record: str) -> str | None:
    """Judged by what the environment declares: to try it would take another copy of it."""
    from palaestra.envs.gymnasium import drawn_by

    place = drawn_by(id)
    if place is None:
        return None
    group = place.removeprefix("gymnasium.envs.").partition(".")[0] if place.startswith("gymnasium.envs.") else ""
    missing = group in PYGAME and find_spec("pygame") is None
    return f'pip install "gymnasium[{PYGAME[group]}]", then {record}' if missing else record
