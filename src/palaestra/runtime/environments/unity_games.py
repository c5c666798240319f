"""Opens Unity games from a run's settings, or from keywords."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from palaestra.core.errors import EnvError, PalaestraError, exception_summary
from palaestra.core.plugins import import_user_module, lacks, nearest
from palaestra.envs.copies import Log, Restarts
from palaestra.envs.runners.runner_options import RunnerOptions
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.runtime.settings import EngineSettings, RunSettings
from palaestra.wire.side_channels import SideChannel
from palaestra.wire.unity_channels import Engine

GIVEN_OTHERWISE = {"executable", "areas", "engine", "first_copy", "all_copies"}
"""Fields of UnityOptions that are no options of a game: other arguments set them."""


@dataclass(frozen=True, slots=True)
class GameSettings:
    """Settings of Unity games."""

    options: UnityOptions = field(default_factory=UnityOptions)
    channels: Sequence[str] = ()  # the user's side channels, each as module:Class
    log: Log | None = None  # prints a line
    runners: RunnerOptions | None = None  # None: the copies run on this machine
    group: RankGroup = ALONE  # ranks that share a cluster of runners

    @property
    def copies(self) -> int:
        """Number of processes of the build."""
        return self.options.copies


def game_settings(
    settings: RunSettings, logs: Path | None, log: Log | None = None, *, here: bool = False
) -> GameSettings:
    """Reads the settings of Unity games. `logs` is the folder for the games' own logs; None: a temporary one.

    `here`: read them for games on this machine, even if the settings name runners.
    """
    env = settings.env_settings
    engine = settings.engine_settings
    options = UnityOptions(
        copies=max(env.num_envs, 1 if here else env.env_runners or 1),
        args=env.env_args or (),
        base_port=env.base_port,
        editor_port=env.editor_port,
        bind=env.bind,
        timeout_wait=env.timeout_wait,
        max_message_mb=env.max_message_mb,
        restarts=Restarts(env.max_lifetime_restarts, env.restarts_rate_limit_n, env.restarts_rate_limit_period_s),
        engine=Engine(**{each.name: getattr(engine, each.name) for each in fields(Engine)}),
        no_graphics=engine.no_graphics,
        no_graphics_monitor=engine.no_graphics_monitor,
        logs=logs,
        show_output=settings.debug,
    )
    runners = None
    if env.env_runners is not None and not here:
        runners = RunnerOptions(env.env_runners, env.ray_address, env.runner_cpus, env.ray_working_dir, settings.debug)
    return GameSettings(options, env.side_channels or (), log, runners)


def open_games(
    executable: str | None, areas: int | None, options: Mapping[str, Any], games: GameSettings | None
) -> UnityEnv:
    """Opens a build, or the Editor if `executable` is None.

    `options` are fields of UnityOptions and Engine, and `side_channels`, a list. Raises EnvError for an unknown option,
    a missing build, or arguments that are not a list.
    """
    games = games or GameSettings()
    given = dict(options)
    channels = [*user_channels(games.channels), *given.pop("side_channels", ())]
    if wrong := [channel for channel in channels if not isinstance(channel, SideChannel)]:
        raise EnvError(
            f"side_channels contains a {type(wrong[0]).__name__}; expected instances of subclasses of SideChannel"
        )
    of_engine, of_games = ({each.name for each in fields(kind)} for kind in (Engine, UnityOptions))
    of_games -= GIVEN_OTHERWISE
    if unknown := [name for name in given if name not in of_engine | of_games]:
        hint = nearest(unknown[0], of_engine | of_games)
        raise EnvError(
            f"a Unity game takes no option '{unknown[0]}'{hint} (it takes: {', '.join(sorted(of_engine | of_games))})"
        )
    if "args" in given:
        if isinstance(given["args"], str) or not isinstance(given["args"], Iterable):
            raise EnvError(
                f"args is {given['args']!r}; expected a list of the game's arguments, such as ['--level', '2']"
            )
        given["args"] = [str(each) for each in given["args"]]
    if given.get("logs") is not None:
        given["logs"] = Path(given["logs"])
    engine = replace(
        games.options.engine, **_engine_options({name: value for name, value in given.items() if name in of_engine})
    )
    rest = {name: value for name, value in given.items() if name in of_games}
    chosen = replace(games.options, engine=engine, executable=executable, areas=areas or 1, **rest)
    return UnityEnv(chosen, channels, games.log)


def _engine_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options of the engine as `engine_settings` reads them. Raises EnvError for a value that it refuses."""
    try:
        settings = EngineSettings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise EnvError(
            f"a Unity game's option '{first['loc'][0]}' is {first['input']!r}: "
            f"{first['msg'][0].lower()}{first['msg'][1:]}"
        ) from error
    return {name: getattr(settings, name) for name in given}


def user_channels(names: Iterable[str]) -> list[SideChannel]:
    """Imports each class as `module:Class` and makes an instance of it, without arguments. Raises EnvError."""
    return [_own_channel(name) for name in names]


def placed_channel(name: str, folder: Path) -> str:
    """Returns the name of a channel with the folder of its module, if that is not the current folder."""
    top = Path(name.partition(":")[0].partition(".")[0])
    places = (top, top.with_suffix(".py"))
    beside = any((folder / place).exists() for place in places) and not any(map(Path.exists, places))
    return (folder / name).as_posix() if beside else name


def _own_channel(name: str) -> SideChannel:
    title = f"side channel '{name}'"
    place, _, attribute = name.rpartition(":")
    folder, slash, module_name = place.rpartition("/")
    if not module_name or not attribute:
        raise EnvError(f"{title} is incomplete; expected module:Class, such as my_channels:Scores")
    if slash and (absolute := str(Path(folder or slash).absolute())) not in sys.path:
        sys.path.append(absolute)  # after all that is installed
    module = import_user_module(module_name, title)
    make = getattr(module, attribute, None)
    if make is None:
        raise EnvError(f"{title}: {lacks(module, attribute)}")
    if not callable(make):
        raise EnvError(
            f"{title}: '{attribute}' is an instance of {type(make).__name__}; expected a subclass of SideChannel"
        )
    try:
        channel = make()
    except PalaestraError:
        raise
    except (Exception, SystemExit) as error:  # a user's constructor may raise anything
        raise EnvError(
            f"{title} could not be made (its class is called without arguments): {exception_summary(error)}"
        ) from error
    if not isinstance(channel, SideChannel):
        raise EnvError(
            f"{title} is an instance of {type(channel).__name__}; expected a subclass of "
            "palaestra.wire.side_channels.SideChannel"
        )
    return channel
