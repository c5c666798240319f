"""Keywords that `train`, `train_seeds` and `tune` have in common, turned into settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from pydantic import BaseModel

from palaestra.api.run_names import given_value
from palaestra.core.errors import CallError
from palaestra.core.plugins import nearest, registry
from palaestra.core.wording.python_words import OF_EVERY_BEHAVIOR
from palaestra.envs.base import Env
from palaestra.models.settings import NetworkSettings
from palaestra.rewards.settings import REWARDS, AMPSettings, ExtrinsicSettings
from palaestra.runtime.environments.registered_envs import GivenEnv, recognized
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.run_settings import Config
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.settings.fitting import preset_for
from palaestra.runtime.settings.foreign_names import answer
from palaestra.runtime.settings.sourced_settings import Setting, of_every_behavior
from palaestra.runtime.settings.track_words import trackers_of
from palaestra.scenario.settings import SelfPlaySettings
from palaestra.trainers.behavior_settings import BehaviorSettings, trainer_name
from palaestra.trainers.settings import TRAINERS

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.vector import VectorEnv

    Environment: TypeAlias = (
        str | Env | gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any] | Sequence[Any] | Callable[..., Any]
    )
else:
    Environment = Any
"""The name of an environment, one of your own, or a function or class that makes one."""

Trainer: TypeAlias = Literal["ppo", "sac", "poca", "bc"] | str | type[Any]
Track: TypeAlias = str | Sequence[str] | Mapping[str, Mapping[str, Any]]

SECTIONS = ("checkpoint_settings", "env_settings", "torch_settings", "engine_settings")
"""Sections of the settings whose keys are keywords."""
SUFFIX = re.compile(r"\.(py|yaml|exe|app|x86_64)$")
SHORT = {keyword: path for path, keyword in OF_EVERY_BEHAVIOR.items()}
"""Path in a behavior's settings of each keyword that sets them in every behavior."""


class SettingOptions(TypedDict, total=False):
    """Keywords for the settings that are changed most, as for `palaestra.train`."""

    max_steps: float
    trainer: Trainer
    learning_rate: float
    batch_size: float
    buffer_size: float
    hidden_units: int
    num_layers: int
    summary_freq: float
    stop_at: float
    stop_without_progress: float
    num_areas: int
    num_envs: int
    device: str
    results_dir: str | Path
    resume: bool
    force: bool
    settings: Mapping[str, Any]
    trust: bool


class TrainingOptions(SettingOptions, total=False):
    """Keywords of `palaestra.train`, except `config`, `env` and `seed`."""

    keep_best: bool | float | Mapping[str, Any]
    run_id: str
    initialize_from: str | Path | Result
    callbacks: Callable[..., Any] | Sequence[Callable[..., Any]]
    track: Track


def overrides_of(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns keywords that are not None as a part of the settings tree. Raises CallError for a keyword that is no
    setting; the message names Palaestra's word for it, or the nearest keyword."""
    tree: dict[str, Any] = {}
    for key, given in options.items():
        value = class_by_name(given) if key == "trainer" and isinstance(given, type) else plain(given)
        if key == "trainer" and not isinstance(value, str | None):
            raise CallError(f'trainer is {value!r:.80}; expected "ppo", "sac", "poca", "bc", or a class of your own')
        if key in SHORT:
            if value is not None and value is not False:
                _put(tree, ["behaviors", "*", *SHORT[key].split(".")], _best(value) if key == "keep_best" else value)
        elif key == "track":
            tree |= {} if value is None else {"trackers": tracked(value)}
        elif (section := section_of(key)) is None:
            raise unknown_argument(function, key, value)
        elif value is not None:
            _put(tree, [section, key], value)
    return tree


def _put(tree: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


def class_by_name(trainer: type) -> str:
    """Returns the name by which settings refer to a trainer's class. Raises CallError if the class has no name."""
    try:
        return trainer_name(trainer)
    except ValueError as error:
        raise CallError(f"trainer: {error}") from None


def _best(value: Any) -> Any:
    """Returns the settings block for `keep_best`: True, the decisions between two evaluations, or the block itself."""
    return {} if value is True else {"every": value} if isinstance(value, int | float | str) else value


def tracked(track: Any) -> dict[str, dict[str, Any]]:
    """Returns the trackers that `track` names, with their options."""
    if isinstance(track, Mapping) and all(isinstance(one, Mapping | None) for one in track.values()):
        return {str(name): dict(options or {}) for name, options in track.items()}
    names = [track] if isinstance(track, str) else track
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise CallError(
            f'track is {track!r:.80}; expected the name of a tracker, such as "wandb", several of them, or '
            'a dictionary such as {"wandb": {"project": "walkers"}}'
        )
    return trackers_of(names)


def section_of(key: str) -> str | None:
    """Returns the section of the settings that has a key."""
    kinds = {section: type(getattr(RunSettings(), section)) for section in SECTIONS}
    return next((section for section, kind in kinds.items() if key in kind.model_fields), None)


def settings_of(settings: object) -> list[Setting]:
    """Returns the settings of a dictionary, which is nested or has dotted keys. Keys of a behavior, such as
    `time_horizon` or `hyperparameters.beta`, apply to every behavior. Raises CallError."""
    if settings is None:
        return []
    if not isinstance(settings, Mapping):
        raise CallError(
            f"settings is {settings!r:.80}; expected a dictionary, such as "
            '{"hyperparameters.beta": 0.01, "env_settings.seed": 3}'
        )
    found = [Setting(path, plain(value), f'settings["{written}"]') for written, path, value in _leaves(settings)]
    paths = [one.path for one in found]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise CallError(f"settings give {twice.removeprefix('behaviors.*.')} twice: leave out one of the two")
    return found


def _leaves(settings: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yields each value with its path as written and its full path; a `mirror` section counts as one value."""
    for key, value in settings.items():
        written = f"{above}{key}"
        if not all(written.split(".")):
            raise CallError(
                f'settings["{written}"]: expected keys with dots between them, such as "hyperparameters.beta"'
            )
        if isinstance(value, Mapping) and value and "mirror" not in written.split("."):
            yield from _leaves(value, f"{written}.")
        else:
            yield written, of_every_behavior(written), value


def plain(value: Any) -> Any:
    """Returns a value in the types that a settings file can hold: numbers of NumPy, paths and devices become Python's
    own types; a training's result becomes its folder."""
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Result):
        return str(value.folder)
    if isinstance(value, Path) or type(value).__name__ == "device":
        return str(value)
    if type(value).__module__ in ("numpy", "torch") and hasattr(value, "tolist"):
        return value.tolist()
    return value


def unknown_argument(function: Callable[..., Any], key: str, value: object) -> CallError:
    """Returns the error for an unknown keyword: it names Palaestra's keyword, or the nearest keyword."""
    forms = signature(function).parameters.values()
    known = [form.name for form in forms if form.kind is not Parameter.VAR_KEYWORD]
    what = f"{function.__name__}() has no argument '{key}'"
    simple = isinstance(value, int | float | str) and not isinstance(value, bool)
    if (ours := answer(key, in_python=True, value=str(value) if simple else None)) is not None:
        names_ours = re.match(r"--|\w+=", ours)
        return CallError(f"{what}: {'here it is ' if names_ours else ''}{ours}")
    if (path := _setting(key)) is not None:
        shown = repr(value) if simple else "..."
        return CallError(f'{what}: it is a setting, settings={{"{path}": {shown}}}')
    every = [*known, *(name for section in SECTIONS for name in type(getattr(RunSettings(), section)).model_fields)]
    if near := nearest(key, every):
        return CallError(f"{what}{near}")
    return CallError(f"{what} (it has: {', '.join(known)}; settings={{...}} takes every other setting)")


def _setting(key: str) -> str | None:
    """Returns the path of a setting of this name, of every behavior or of the run."""
    if key in RunSettings.model_fields:
        return key
    places: list[tuple[str, type[BaseModel]]] = [("", BehaviorSettings)]
    places += [("hyperparameters.", kind) for kind in TRAINERS.values()]
    places += [("network_settings.", NetworkSettings), ("reward_signals.extrinsic.", ExtrinsicSettings)]
    places += [("self_play.", SelfPlaySettings), ("reward_signals.amp.", AMPSettings)]
    named = f"reward_signals.{key}" if key in REWARDS else None
    return next((head + key for head, kind in places if key in kind.model_fields), named)


def check_config(function: Callable[..., Any], config: object) -> None:
    """Raises CallError for text that is no settings file, such as an environment given without `env=`."""
    what = f"{function.__name__}() takes a settings file or a dictionary first"
    if config is not None and (not isinstance(config, str | Path | Mapping) or config == ""):
        raise CallError(f"{what}, and got {config!r:.80}; give an environment as env=...")
    if isinstance(config, str) and not Path(config).is_file():
        is_env = ":" in config or config in registry("envs") or preset_for(f"gymnasium:{config}") is not None
        if is_env and not config.endswith((".yaml", ".yml")):
            raise CallError(f'{what}; give the environment as env="{config}"')


def given_env(env: object, config: Config, overrides: dict[str, Any], sets: Sequence[Setting]) -> GivenEnv:
    """Returns the facts about a program's environment, and adds its name to the overrides.

    A function that makes an environment is called once, to look at the environment. Raises EnvError.
    """
    if isinstance(env, str | Path) and not str(env).strip():
        raise CallError(f'env is {env!r}; name an environment, such as env="3DBall"')
    place = overrides.setdefault("env_settings", {})
    if env is None or isinstance(env, str | Path):
        if env is not None:
            place["env_path"] = str(env)
        name = given_value(("env_settings", "env_path"), config, overrides, sets)
        label = name or (config if isinstance(config, str | Path) else "editor")
        return GivenEnv(None, SUFFIX.sub("", re.split(r"[:/\\]", str(label))[-1]))
    found = recognized(env, given_value(("env_settings", "env_options"), config, overrides, sets) or {})
    if found.name is not None:
        place["env_path"] = found.name
    if config is None and found.name is None and found.shipped_for is not None:
        place["env_path"] = None  # of the shipped settings: another environment
    if config is None and found.env is not None and found.form != "function":
        place.setdefault("num_areas", None)
    return found
