"""Chooses a run id where a program gives none: from environment and time, so that a notebook's cell can run twice."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaestra.core.errors import ConfigError, RunError
from palaestra.core.files import file_name
from palaestra.parallel import ranks
from palaestra.runtime.run.run_settings import Config
from palaestra.runtime.settings import yaml_file
from palaestra.runtime.settings.examples import here_or_shipped
from palaestra.runtime.settings.sourced_settings import Setting
from palaestra.runtime.storage.run_folder import RunFolder

STAMP = "%Y%m%d-%H%M%S"
STAMPED = r"-\d{8}-\d{6}(?:-\d+)?"
"""Pattern of what follows the environment's name: when the run began, and a number if others began in that second."""


def named(
    config: Config, overrides: Mapping[str, Any], sets: Sequence[Setting], environment: str, ending: str = ""
) -> Mapping[str, Any]:
    """Returns a training's overrides with a run id: the given one, else a new one, or with `resume` the id of the
    environment's newest run. `ending`: what follows the run id in the names of folders. Raises RunError.

    All processes of one run must use the same name: processes that torchrun starts keep the default name.
    """
    keys = ("run_id", "results_dir", "resume", "inference")
    run_id, results, resume, inference = [
        given_value(("checkpoint_settings", key), config, overrides, sets) for key in keys
    ]
    if run_id is not None or ranks.asked():
        return overrides
    folder = Path(str(results or "results"))
    name = file_name(environment).lstrip("-.") or "run"
    chosen = _newest(folder, name, ending) if resume or inference else new_name(folder, name, ending)
    return {**overrides, "checkpoint_settings": {**overrides.get("checkpoint_settings", {}), "run_id": chosen}}


def new_name(results: Path, name: str, ending: str = "") -> str:
    """Returns an unused run name: `name` with the time, and with a number if a run of that name exists."""
    stamped = f"{name}-{time.strftime(STAMP)}"
    number = 1
    while _taken(results, found := stamped if number == 1 else f"{stamped}-{number}", ending):
        number += 1
    return found


def _taken(results: Path, name: str, ending: str) -> bool:
    return any(folder == name or (ending and folder.startswith(name + ending)) for folder in _folders(results))


def _folders(results: Path) -> list[str]:
    try:
        return [path.name for path in results.iterdir()]
    except OSError:
        return []


def _newest(results: Path, name: str, ending: str) -> str:
    """Returns the name of the environment's newest run that a program did not name. Raises RunError."""
    after = rf"{re.escape(ending)}\d+" if ending else ""
    pattern = re.compile(rf"({re.escape(name)}{STAMPED}){after}")
    found = [pattern.fullmatch(folder) for folder in _folders(results)]
    runs = [one[1] for one in found if one is not None and RunFolder(results, one[0]).exists]
    if not runs:
        raise RunError(f"cannot resume: {results} has no run of {name} that was named by its time; add --run-id")
    return max(runs, key=lambda run: [int(part) for part in re.findall(r"\d+", run[len(name) :])])


def given_value(path: tuple[str, str], config: Config, overrides: Mapping[str, Any], sets: Sequence[Setting]) -> Any:
    """Returns the value that settings, keywords or the file give for a key of a section; None if none of them does."""
    section, key = path
    for setting in reversed(sets):
        if setting.path == ".".join(path):
            return setting.value
    found = overrides.get(section, {}).get(key)
    return _section(config, section).get(key) if found is None else found


def _section(config: Config, name: str) -> Mapping[str, Any]:
    """Returns a section of a file or tree; loading it reports what is wrong with it."""
    try:
        tree = yaml_file.read(here_or_shipped(Path(config))).tree if isinstance(config, str | Path) else config
    except ConfigError:
        return {}
    found = tree.get(name) if isinstance(tree, Mapping) else None
    return found if isinstance(found, Mapping) else {}
