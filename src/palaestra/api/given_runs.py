"""The argument `runs` and the keywords for Unity games, which several functions of the API share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, cast

from palaestra.core.errors import CallError
from palaestra.core.plugins import nearest
from palaestra.envs.spaces.option_names import OF_RUN
from palaestra.runtime.environments.make import options_with
from palaestra.runtime.run.result import Result
from palaestra.runtime.seeds.seed_results import SeedResults
from palaestra.runtime.settings import load
from palaestra.runtime.settings.tree import EngineSettings, EnvSettings

Run: TypeAlias = "str | Path | Result"
"""A run id, a run's folder, or the result of a training."""
Runs: TypeAlias = "Run | SeedResults | Sequence[Run | SeedResults]"
"""One run or several runs."""
GAME = {
    "engine_settings": set(EngineSettings.model_fields),
    "env_settings": set(EnvSettings.model_fields) - {"env_path", "env_options", "num_areas", "seed"},
}
"""Keywords of Unity games, by the section of the settings that they belong to."""


class GameOptions(TypedDict, total=False):
    """Keywords for Unity games: the engine's settings, and the most used settings of the game's process."""

    width: int
    height: int
    quality_level: int
    time_scale: float
    target_frame_rate: int
    capture_frame_rate: int
    no_graphics: bool
    no_graphics_monitor: bool
    env_args: Sequence[str]
    base_port: int
    editor_port: int
    bind: str
    timeout_wait: float
    max_message_mb: float
    side_channels: Sequence[str]


def listed(runs: object) -> list[Any]:
    """Returns one or several runs as a list, in which each seed of a group of seeds is an item."""
    if isinstance(runs, SeedResults):
        runs = [*runs.results.values()]
    if isinstance(runs, str | bytes | Mapping) or not isinstance(runs, Iterable):
        return [runs]
    return [run for one in cast(Iterable[object], runs) for run in listed(one)]


def word_of(run: object) -> str:
    """Returns the text that names a run on the command line. Raises CallError for an object that is not a run."""
    if isinstance(run, Result):
        return str(run.folder)
    if isinstance(run, Path) or (isinstance(run, str) and run.strip()):
        return str(run)
    if isinstance(run, type):
        what = f"the class {run.__name__}"
    else:
        what = repr(run) if isinstance(run, str) else f"an instance of {type(run).__name__}"
    raise CallError(f"expected a run (a run id, a run's folder, or the Result of a training), got {what}")


def words_of(runs: object) -> list[str]:
    """Returns the texts that name runs. Raises CallError if no run is given."""
    if words := [word_of(run) for run in listed(runs)]:
        return words
    raise CallError("no run is given: expected a run id, a run's folder, the Result of a training, or several")


def chosen_options(options: Mapping[str, Any] | None, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns options of an environment, with its parameters among them, as those who open it expect."""
    tree = {"default_settings": {}, OF_RUN: dict(parameters or {})}
    checked = load(tree, own_code=False).settings.environment_parameters if parameters else None
    return options_with(options or {}, checked)


def game_flags(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns options of Unity games as a part of the settings tree. Raises CallError for any other keyword."""
    tree: dict[str, dict[str, Any]] = {}
    for key, value in options.items():
        section = next((name for name, fields in GAME.items() if key in fields), None)
        if section is None:
            own = [one.name for one in signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
            known = [*own, *(name for fields in GAME.values() for name in fields)]
            raise CallError(f"{function.__name__}() has no argument '{key}'{nearest(key, known)}")
        tree.setdefault(section, {})[key] = list(value) if key == "env_args" else value
    return tree
