"""Settings with which a new run begins: those shipped for an environment, or another run's."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import yaml

from palaestra.core.errors import ConfigError, RunError
from palaestra.core.plugins import registry
from palaestra.runtime.settings import RunSettings, load
from palaestra.runtime.settings.examples import made_for
from palaestra.runtime.storage.run_folder import CONFIGURATION
from palaestra.runtime.storage.trust import is_own, learning_code, overwrites, user_trackers

OF_A_RUN = ("checkpoint_settings", "debug", "search")
"""Sections that belong to one run, and are left out of a copy."""


def settings_for(env: str) -> dict[str, Any]:
    """Returns the settings shipped for a built-in environment, with its name; without an example, only its name. Raises
    ConfigError."""
    if env not in registry("envs"):
        raise ConfigError(f"'{env}' is no built-in environment: start others in the terminal, with palaestra learn")
    example = made_for(env)
    tree: Any = yaml.safe_load(example.read_text(encoding="utf-8")) if example is not None else {"default_settings": {}}
    return {"env_settings": {**(tree.get("env_settings") or {}), "env_path": env}, **_without(tree, ("env_settings",))}


def settings_of_run(folder: Path) -> dict[str, Any]:
    """Returns the values of a run's settings that differ from the defaults. Raises RunError or ConfigError."""
    file = folder / CONFIGURATION
    if not file.is_file():
        raise RunError(f"{folder} has no {CONFIGURATION} to copy")
    return _without(changed(load(file, own_code=False).settings), OF_A_RUN)


def changed(settings: RunSettings) -> dict[str, Any]:
    """Returns the values that are not defaults, as a tree; trainers are always included, since hyperparameters depend
    on them."""
    tree: dict[str, Any] = settings.model_dump(mode="json", exclude_defaults=True)
    blocks = [(tree["behaviors"][name], block) for name, block in settings.behaviors.items()]
    if settings.default_settings is not None:
        blocks.append((tree.setdefault("default_settings", {}), settings.default_settings))
    for given, block in blocks:
        rest = dict(given)
        given.clear()
        given.update({"trainer_type": block.trainer_type, **_without(rest, ("trainer_type",))})
    return tree


def must_be_allowed(tree: dict[str, Any], origin: Path | None, trust: bool) -> None:
    """Raises ConfigError if settings name code or programs: only code of the copied run is allowed, and only if this
    user wrote or trusted its folder on this machine.

    A page is less safe than a terminal: another person may have its address.
    """
    settings = load(tree, own_code=False).settings
    named = [*overwrites(settings), *learning_code(settings), *user_trackers(settings).items()]
    if origin is not None and (origin / CONFIGURATION).is_file():
        before = load(origin / CONFIGURATION, own_code=False).settings
        if trust or is_own(origin, before):
            known = [*learning_code(before), *user_trackers(before).items()]
            named = [one for one in named if one not in known]
    if named:
        path, what = named[0]
        where = ".".join(path) if isinstance(path, tuple) else f"trackers.{path}"
        raise ConfigError(
            f"{where}: {what} names code, a program or another place to write to, which a page does not take: use "
            "palaestra learn in a terminal"
        )


def free_name(results: Path, wanted: str) -> str:
    """Returns an unused name for a run: `wanted`, or `wanted` with a number."""
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    return next(name for name in names if not (results / name).exists())


def _without(tree: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in keys}
