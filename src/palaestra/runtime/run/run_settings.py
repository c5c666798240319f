"""The settings with which a run begins: from its file, from the folder that is resumed, or chosen for its
environment."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palaestra.core.errors import ConfigError, EnvError, RunError
from palaestra.core.files import MODEL_FILES
from palaestra.core.plugins import registry
from palaestra.envs.wrapper import EnvWrapper
from palaestra.hub.hub_names import is_hub_name
from palaestra.parallel import ranks
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.control.progress_file import of_program
from palaestra.runtime.environments.make import IN_PROCESS, is_game
from palaestra.runtime.environments.run_env import must_be_enough
from palaestra.runtime.environments.unity_games import placed_channel
from palaestra.runtime.logging.console import Console
from palaestra.runtime.run.features.stop_when import Callback
from palaestra.runtime.run.rank_launch import count_of
from palaestra.runtime.settings import Loaded, RunSettings, load
from palaestra.runtime.settings.fitting import describe_fit, fitted, preset_for, with_pace, with_summaries
from palaestra.runtime.settings.sourced_settings import Setting
from palaestra.runtime.settings.tree import EngineSettings, blocks_of
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.storage.checkpoints import Checkpoint
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder, check_run_id, origin_folder
from palaestra.runtime.storage.trust import (
    agent_code,
    learning_code,
    must_be_trusted_file,
    must_stay_inside,
    overwrites,
)

Config = Path | str | Mapping[str, Any] | None
"""A settings file, a tree of settings, or nothing."""
_OF_ENV = ("base_port", "editor_port", "bind", "env_args")
ONLY_OF_GAMES = frozenset({*_OF_ENV, *EngineSettings.model_fields} - {"time_scale"})
"""Settings that a flag may only change if the environment is a Unity game."""


@dataclass(frozen=True)
class TrainingRequest:
    """A training as the user asks for it."""

    config: Config
    overrides: Mapping[str, Any]
    """Values of flags or keywords, as a part of the settings tree."""
    sets: Sequence[Setting | str] = ()
    env: object | None = None
    """The environment that a program passes, as to `palaestra.train`; None: the settings name it."""
    callbacks: Sequence[Callback] = ()
    notes: Sequence[str] = ()
    """Warnings to show at the start."""
    quiet: bool = False
    one_of_several: bool = False
    """Whether this run is one of several seeds, which have a common summary."""
    trust: bool = False
    shipped_for: str | None = None
    """Name of the environment whose shipped settings apply if none are given; None: the environment of the settings."""


def settled_settings(request: TrainingRequest) -> tuple[Loaded, RunFolder]:
    """Returns the settings and the run's folder; a resumed run's own settings if none are given. Raises ConfigError or
    RunError.

    If someone else wrote the folder and `trust` is not given, code that the folder's settings name and links out of the
    folder are refused.
    """
    config, overrides, sets, trust = request.config, request.overrides, request.sets, request.trust
    code_in = learning_code if request.env is None else agent_code
    given = overrides.get("checkpoint_settings", {})
    own = None
    notes = ()
    if config is None and (given.get("resume") or given.get("inference")):
        folder = run_folder(Path(given.get("results_dir", "results")), given.get("run_id", "ppo"))
        folder.must_exist("resume" if given.get("resume") else "play")
        config = own = folder.path / CONFIGURATION
        if not own.is_file():
            raise RunError(
                f"the run '{folder.run_id}' has no {CONFIGURATION}: give its settings file on the command line"
            )
        # what the run was once started with is not what is asked for now, nor need it lie where it lay then
        anew = {"resume": False, "force": False, "inference": False, "initialize_from": None}
        anew |= {"run_id": folder.run_id, "results_dir": str(folder.results)}
        overrides = {**overrides, "checkpoint_settings": {**anew, **given}}
    elif config is None and (config := shipped_settings(request)) is not None:
        notes = (
            f"No settings file is given: training with {config.parent.name}/{config.name}, which is shipped for this "
            "environment",
        )
        overrides = with_pace(config, overrides, sets)
    config = Path(config) if isinstance(config, str) else config
    try:
        if isinstance(config, Path):
            must_be_trusted_file(
                config, overrides, sets, code_in=lambda found: [*code_in(found), *overwrites(found)], trust=trust
            )
        loaded = load(config, overrides, sets)
    except ConfigError as error:
        if own is None or error.file != own:
            raise
        raise RunError(
            f"{error}; these are the run's own settings: --set changes one, a settings file takes the place of all"
        ) from error
    checkpoint = loaded.settings.checkpoint_settings
    folder = run_folder(Path(checkpoint.results_dir), checkpoint.run_id)
    must_stay_inside(folder.path, trust)
    return replace(loaded, notes=(*loaded.notes, *notes)), folder


def env_flags_must_fit(loaded: Loaded, overrides: Mapping[str, Any]) -> None:
    """Raises ConfigError for several copies of the Editor (no environment named), for fewer areas than processes, and
    for a Unity flag with an environment that is no Unity game. The same keys in a settings file are accepted: a file
    may serve several environments."""
    env = loaded.settings.env_settings
    name = env.env_path
    if env.num_envs > 1 and name is None:
        sentence = f"expected 1 without env_path (--env), got {env.num_envs}"
        raise loaded.refusal([(("env_settings", "num_envs"), sentence)], "")
    known = name is not None and (name.partition(":")[0] in (*IN_PROCESS, "builtin") or name in registry("envs"))
    if known and not is_game(name):
        given = [key for section in ("env_settings", "engine_settings") for key in overrides.get(section, {})]
        if (flag := next((key for key in given if key in ONLY_OF_GAMES), None)) is not None:
            raise ConfigError(f"--{flag.replace('_', '-')} is only for Unity games, and {name} is not one")
    if not ranks.asked() and (count := count_of(loaded.settings.torch_settings)) > 1 and not plays_alone(loaded):
        must_be_enough(loaded.settings, count)


def with_channels(loaded: Loaded) -> Loaded:
    """Adds to side channels next to the settings file, such as configs/my_channels:Greeter, their folder, so that a
    resumed run finds them; adds a warning if the environment is no game and ignores them."""
    env = loaded.settings.env_settings
    if not env.side_channels or loaded.sourced is None:
        return loaded
    if env.env_path is not None and not is_game(env.env_path):
        where = loaded.sourced.source(("env_settings", "side_channels")).where
        ignored = f"{where}: side_channels are ignored: {env.env_path} is not a Unity game"
        return replace(loaded, warnings=(*loaded.warnings, ignored))
    folder = None if loaded.sourced.file is None else loaded.sourced.file.parent
    found = tuple(placed_channel(channel, folder or Path()) for channel in env.side_channels)
    own = env.model_copy(update={"side_channels": found})
    return replace(loaded, settings=loaded.settings.model_copy(update={"env_settings": own}))


def run_folder(results: Path, run_id: str) -> RunFolder:
    """Returns the folder of the run that the command line names. Raises ConfigError for an invalid name."""
    check_run_id(run_id)
    return RunFolder(results, run_id)


def must_be_there(loaded: Loaded, folder: RunFolder) -> None:
    """Raises RunError if the run to resume or to start from does not exist. Does not check runs on the Hub. Raises
    ConfigError if a teacher or an opponent is a model of the run itself, whose models --force removes."""
    chosen = loaded.settings.checkpoint_settings
    if chosen.force and not chosen.resume and not chosen.inference and (own := list(_own_models(loaded, folder))):
        raise loaded.refusal(own, "models would be removed before they are played")
    key = "resume" if chosen.resume else "initialize_from"
    source = None if loaded.sourced is None else loaded.sourced.source(("checkpoint_settings", key))
    asked = "" if source is None or source.words else source.where
    if chosen.resume:
        folder.must_exist("resume", asked)
    elif chosen.initialize_from is not None and not chosen.inference and not is_hub_name(chosen.initialize_from):
        origin_folder(folder.results, chosen.initialize_from).must_exist("initialize from it", asked)


def _own_models(loaded: Loaded, folder: RunFolder) -> Iterator[tuple[Key, str]]:
    """Yields path and error of each teacher and opponent that is a model of the run's own folder."""
    inside = folder.path.resolve()
    for at, block in blocks_of(loaded.settings):
        teacher = getattr(block.hyperparameters, "teacher", None)
        named = [] if teacher is None else [((*at, "hyperparameters", "teacher"), teacher)]
        opponents = block.self_play.brains if block.self_play else ()
        named += [((*at, "self_play", "opponents"), name) for name in opponents]
        for path, name in named:
            model = name.removeprefix("model:").partition("@")[0]
            places = (Path(model), folder.results / model) if name != model or name.endswith(MODEL_FILES) else ()
            if any(place.resolve().is_relative_to(inside) for place in places):
                what = f"{name} is a model of the run '{folder.run_id}', which --force starts again"
                yield path, f"{what}: choose another --run-id, or copy the model to another folder"


def must_name_env(loaded: Loaded, folder: RunFolder, env: object) -> None:
    """Raises EnvError if a resumed run's environment was made by a program and none is given now; it would wait for the
    Editor."""
    chosen = loaded.settings.checkpoint_settings
    goes_on = env is None and (chosen.resume or chosen.inference)
    if goes_on and loaded.settings.env_settings.env_path is None and of_program(folder.path):
        raise EnvError(
            f"the run '{folder.run_id}' was trained in an environment that a program made: give it again, or name one "
            "with --env, such as --env=gymnasium:CartPole-v1 or --env=python:module:Class"
        )


def seeded(settings: RunSettings, checkpoint: Checkpoint | None) -> RunSettings:
    """Returns the settings with a seed: the given seed, else the seed of the resumed run, else a random seed."""
    env = settings.env_settings
    if env.seed != -1:
        return settings
    seed: Any = random.randrange(10_000) if checkpoint is None else checkpoint.state["run"]["seed"]
    return settings.model_copy(update={"env_settings": env.model_copy(update={"seed": seed})})


def shipped_settings(request: TrainingRequest) -> Path | None:
    """Returns the settings file that is shipped for the environment of a request, and for its trainer."""
    name = request.shipped_for or request.overrides.get("env_settings", {}).get("env_path")
    trainer = request.overrides.get("behaviors", {}).get("*", {}).get("trainer_type")
    return None if name is None or is_game(name) else preset_for(name, trainer)


def fitted_to(
    loaded: Loaded, env: EnvWrapper, settings: RunSettings, console: Console, group: RankGroup
) -> tuple[Loaded, RunSettings]:
    """Returns settings that fit an environment's spaces if there is no file, else the given settings; shows where they
    come from.

    The spaces of a game are known only when its agents appear: its behaviors train with ML-Agents' defaults. `settings`
    has the run's seed. Without a file, warnings are shown only now, because earlier warnings would be about defaults
    that are replaced.
    """
    if loaded.with_tree is not None and env.behaviors and not is_game(settings.env_settings.env_path):
        default = loaded.settings.default_settings
        trainer = "ppo" if default is None else default.trainer_type
        areas = int(group.total(env.num_areas))
        tree = fitted(env.behaviors, areas, trainer, env.traits.opponents)
        lengths = {name: block.max_steps for name, block in loaded.with_tree(tree).settings.behaviors.items()}
        found = loaded.with_tree(with_summaries(tree, lengths))
        notes = [describe_fit(name, spec, found.settings.behaviors[name]) for name, spec in env.behaviors.items()]
        console.warning(*found.warnings)
        loaded = replace(found, notes=tuple(notes), with_tree=None)
        settings = found.settings.model_copy(update={"env_settings": settings.env_settings})
    elif loaded.with_tree is not None:
        console.warning(*loaded.warnings)
    for note in loaded.notes:
        console.info(note)
    if loaded.with_tree is not None:
        console.warning("no settings file is given: every behavior trains with ML-Agents' defaults")
    return loaded, settings


def plays_alone(loaded: Loaded) -> bool:
    """Whether a run of several processes only plays; that takes one process unless the command line asks for more."""
    given = None if loaded.sourced is None else loaded.sourced.source
    typed = given is not None and any(given(("torch_settings", key)).words for key in ("processes", "gpus"))
    return loaded.settings.checkpoint_settings.inference and not typed
