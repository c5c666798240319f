"""Opens the environment of a run on its device; with several ranks, only this rank's share of the areas."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch

from palaestra.core.errors import ConfigError
from palaestra.core.plugins import registry
from palaestra.envs.base import Env
from palaestra.envs.transfer import Transfer
from palaestra.envs.unity.env import Log
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.rank_group import RankGroup
from palaestra.parallel.rank_setup import before, must_suffice, split
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.environments.make import EDITOR, copies_of, guarded, is_game, make_env, opening_options
from palaestra.runtime.environments.unity_games import GameSettings, game_settings
from palaestra.runtime.settings import RunSettings

OTHERS = "--env=gymnasium:CartPole-v1, --env=3DBall (`palaestra envs` lists the built-in ones) or --env=Game.x86_64"


def open_env(settings: RunSettings, logs: Path, log: Log, group: RankGroup) -> EnvWrapper:
    """Opens the environment named in the settings; the Editor if they name none. `logs`: the folder for the logs of the
    games of a run. `log` prints a line. Raises EnvError or ConfigError."""
    env = settings.env_settings
    device = device_of(settings, group)
    name = env.env_path or EDITOR
    options = opening_options(settings)
    same = [name for name in settings.behaviors if name in registry("envs")]
    if env.env_path is None:
        other = f"the built-in {same[0]} is --env={same[0]}" if same else OTHERS
        log("info", f"No --env is given: waiting for the Unity Editor. To train in another environment: {other}")
    own_logs = logs if group.leads else logs / f"rank-{group.number}"
    inference = settings.checkpoint_settings.inference
    games = replace(game_settings(settings, None if inference else own_logs, log), group=group)
    areas = env.num_areas
    if group.size > 1:
        games, areas = shares(group, name, games, areas, lambda: make_env(name, device=device, options=options))
    made = make_env(name, areas=areas, device=device, options=options, games=games)
    return on_device(guarded(made, name), device)


def take_env(given: object, settings: RunSettings, log: Log, group: RankGroup) -> tuple[EnvWrapper, bool]:
    """Returns the environment that a program gave to `train`, and whether it was made by this function. `log` prints a
    line. Raises EnvError or ConfigError."""
    device = device_of(settings, group)
    areas = settings.env_settings.num_areas
    own_areas = areas if areas is None else split(areas, group, "areas", "--num-areas")
    if (copies := settings.env_settings.num_envs) > 1:
        games = game_settings(settings, None, log, here=True)
        own = split(copies, group, "copies of the environment", "--num-envs")
        games = replace(games, options=replace(games.options, copies=own))
        return on_device(copies_of(given, own_areas, opening_options(settings), games), device), True
    env, is_ours = as_env(given, own_areas, device, opening_options(settings))
    # the device of an environment of the user's own is the user's choice
    return (EnvWrapper.of(env) if env is given else on_device(env, device)), is_ours


def on_device(env: Env, device: str) -> EnvWrapper:
    """Returns the environment with its tables on a device."""
    return EnvWrapper.of(env) if env.device.type == torch.device(device).type else Transfer(env, torch.device(device))


def device_of(settings: RunSettings, group: RankGroup) -> str:
    """Returns the device in the settings, else this machine's accelerator, else "cpu". Raises ConfigError."""
    torch_settings = settings.torch_settings
    usual = "cuda" if torch.cuda.is_available() and (torch_settings.gpus or not torch_settings.processes) else "cpu"
    device = torch_settings.device or usual
    gpus = torch.cuda.device_count()
    if device == "cuda" and group.size > 1:
        device = f"cuda:{group.local_number % max(1, gpus)}"
    with suppress(RuntimeError, AssertionError):
        torch.empty(0, device=device)
        return device
    there = ", ".join(["cpu", *(f"cuda:{i}" for i in range(gpus))])
    raise ConfigError(f"torch device '{device}' is not there: this machine has {there}")


def shares(
    group: RankGroup, name: str, games: GameSettings, areas: int | None, make: Callable[[], Env]
) -> tuple[GameSettings, int | None]:
    """Returns this rank's share of a game's copies, or of an environment's areas. Raises ConfigError if there are fewer
    copies or areas than ranks."""
    if is_game(name) or games.copies > 1:
        own = split(games.copies, group, "copies of the environment", "--num-envs")
        first = before(games.copies, group)
        games = replace(games, options=replace(games.options, copies=own, first_copy=first, all_copies=games.copies))
        if games.runners is not None:
            runners = split(games.runners.runners, group, "runners", "--env-runners")
            games = replace(games, runners=replace(games.runners, runners=runners))
    if is_game(name):
        return games, areas
    if areas is None and (areas := usual_areas(name)) is None:
        usual = make()
        areas = usual.num_areas
        usual.close()
    return games, split(areas, group, "areas", "--num-areas")


def usual_areas(name: str) -> int | None:
    """Returns an environment's default number of areas; None if it is known only after the environment is made."""
    if name.startswith(("gymnasium:", "envpool:", "pettingzoo:")):
        from palaestra.envs.gymnasium import DEFAULT_AREAS

        return DEFAULT_AREAS
    built_in = name.removeprefix("builtin:")
    envs = registry("envs")
    return getattr(envs.get(built_in), "default_areas", None) if built_in in envs else None


def must_be_enough(settings: RunSettings, ranks: int) -> None:
    """Raises ConfigError if an environment has fewer areas than there are ranks, or a game fewer copies, as far as this
    is known before it is opened."""
    env = settings.env_settings
    name = env.env_path or EDITOR
    copies = max(env.num_envs, env.env_runners or 1)
    if is_game(name) or copies > 1:
        must_suffice(copies, ranks, "copies of the environment", "--num-envs")
    areas = None if is_game(name) else env.num_areas or usual_areas(name)
    if areas is not None:
        must_suffice(areas, ranks, "areas", "--num-areas")
