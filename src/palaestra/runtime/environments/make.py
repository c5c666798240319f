"""Opens the environment that `--env` or `env_path` names.

=========================  ==========================================================
`Game`                     an executable file of that name (a Unity build), else the built-in
`game.py`                  a game written in Python (palaestra.sdk), run as a process of its own
`editor`                   the Unity Editor
`builtin:3DBall`           the built-in, even if a file of that name exists
`gymnasium:CartPole-v1`    a Gymnasium id; `gymnasium:module:Id-v0` imports a module first
`envpool:CartPole-v1`      a task of EnvPool
`pettingzoo:module`        a PettingZoo module with `parallel_env` or `env`; `pettingzoo:module:function`
`python:module:factory`    a function or class of yours that makes an `Env`, a Gymnasium or a PettingZoo environment
=========================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from palaestra.core.errors import ConfigError, EnvError
from palaestra.core.plugins import Registry, nearest, registry
from palaestra.envs.base import Env
from palaestra.envs.guarded import Guarded
from palaestra.envs.option_types import check_option_types
from palaestra.envs.spaces.option_names import NO_OPTION, OF_RUN
from palaestra.envs.unity import executable
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.environments.custom_envs import FirstMade, as_env, call, given_name, user_env

if TYPE_CHECKING:
    from palaestra.runtime.environments.unity_games import GameSettings
    from palaestra.runtime.settings import RunSettings

EDITOR = "editor"
IN_PROCESS = ("gymnasium", "envpool", "pettingzoo", "python")
"""Kinds of names whose environments run in a Python process, one or several copies."""
PROGRAM = "python:env"
"""Text in place of a name, if a program gives the environment itself."""
DRAWN = ("gymnasium:", "envpool:", "pettingzoo:", "python:")
"""Begin of the names of environments that draw only if they are made with the option `render`."""

NO_OPTIONS: Mapping[str, Any] = {}
OWN_SETTINGS = {"areas": "env_settings.num_areas (--num-areas)", "device": "torch_settings.device (--torch-device)"}
"""Names that an option cannot have, with the settings that are meant for this."""


def make_env(
    name: str | None,
    *,
    areas: int | None = None,
    device: str = "cpu",
    options: Mapping[str, Any] = NO_OPTIONS,
    games: GameSettings | None = None,
) -> Env:
    """Opens the environment that `name` means (see the top of this module), with `areas` areas or its default number.

    `device` is a request, for environments that can run on a GPU; `env.device` is the actual device. `games` is only
    used for Unity games. Raises EnvError.
    """
    if not name:
        raise EnvError(
            "no environment is given: name one with --env, such as --env=3DBall ('palaestra envs' lists them)"
        )
    if taken := [key for key in OWN_SETTINGS if key in options]:
        raise EnvError(f"{name}: env_options.{taken[0]} is a setting of its own: {OWN_SETTINGS[taken[0]]}")
    kind, colon, rest = name.partition(":")
    if kind not in IN_PROCESS:  # others know their parameters
        options = {key: value for key, value in options.items() if key != OF_RUN}
    if games is not None and games.runners is not None:
        return _on_runners(name, areas, options, games)
    if is_game(name):
        from palaestra.runtime.environments.unity_games import open_games  # imports gRPC: 0.1 s

        return open_games(None if name == EDITOR else name, areas, options, games)
    if games is not None and games.copies > 1:
        return _copies(name, areas, options, games)
    if colon and kind == "gymnasium":
        from palaestra.envs.gymnasium import GymnasiumEnv  # not needed by the others: 0.1 s

        return GymnasiumEnv(rest, areas, **options)
    if colon and kind == "envpool":
        from palaestra.envs.gymnasium.envpool_tasks import open_envpool

        return open_envpool(rest, areas, options)
    if colon and kind == "pettingzoo":
        from palaestra.envs.pettingzoo.opening import open_pettingzoo

        return open_pettingzoo(rest, areas, options)
    if colon and kind == "python":
        return user_env(rest, areas, device, options)
    if colon and kind == "builtin":
        return _builtin(rest, areas, device, options)
    return _builtin(name, areas, device, options)


def opening_options(settings: RunSettings) -> dict[str, Any]:
    """Returns the options with which a run opens its environment: the user's options, and the names of the parameters
    that the run sets."""
    of_run = {OF_RUN: tuple(settings.environment_parameters)} if settings.environment_parameters else {}
    return {**settings.env_settings.env_options, **of_run}


def options_with(options: Mapping[str, Any], parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns options of an environment and the values of its parameters as one mapping. Raises ConfigError if the
    options have such values already."""
    if OF_RUN in options:
        raise ConfigError(NO_OPTION)
    return {**options, **({OF_RUN: parameters} if parameters else {})}


def guarded(env: Env, name: str) -> EnvWrapper:
    """Returns an environment with all optional members. Exceptions of a user's own environment become EnvErrors."""
    ours = is_game(name) or name.removeprefix("builtin:") in registry("envs")
    return EnvWrapper.of(env) if ours else Guarded(env, name)


def _copies(name: str, areas: int | None, options: Mapping[str, Any], games: GameSettings) -> Env:
    """Opens several copies of an environment, each in a separate process, which share the areas."""
    from palaestra.envs.pool.env_pool import EnvPool
    from palaestra.envs.pool.links import ProcessLink

    shares = _shares(name, areas, games.copies)
    _check_name(name, options, games)
    given = games.options
    links = (ProcessLink(i, make_copy, (name, dict(options)), share) for i, share in enumerate(shares))
    return EnvPool(links, timeout=given.timeout_wait, restarts=given.restarts, log=games.log)


def _on_runners(name: str, areas: int | None, options: Mapping[str, Any], games: GameSettings) -> Env:
    from palaestra.runtime.environments.on_runners import open_on_runners

    kind = name.partition(":")[0]
    if kind == "builtin" or (name in registry("envs") and not is_game(name)):
        raise EnvError(
            f"{name} is built in: this process simulates all of its areas, and runners are for games (--env-runners)"
        )
    shares = _shares(name, areas, games.copies) if kind in IN_PROCESS else None
    _check_name(name, options, games)
    return open_on_runners(name, areas, shares, options, games, make_on_runner)


def _check_name(name: str, options: Mapping[str, Any], games: GameSettings) -> None:
    """Raises EnvError for an unknown Gymnasium id or wrong options of PettingZoo's, before copies start."""
    if name.startswith("gymnasium:") and games.runners is None:
        from palaestra.envs.gymnasium.ids import spec_of

        spec_of(name.partition(":")[2])
    if name.startswith("pettingzoo:"):
        make_env(name, areas=1, options=options).close()


def make_on_runner(
    name: str,
    areas: int | None,
    options: Mapping[str, Any],
    games: GameSettings,
    *,
    logs: Path,
    log: Callable[[str, str], None],
) -> Env:
    """Opens the copies of one runner, in the runner's process."""
    env = make_env(
        name, areas=areas, options=options, games=replace(games, log=log, options=replace(games.options, logs=logs))
    )
    return guarded(env, name)


def _shares(name: str, areas: int | None, count: int) -> list[int | None]:
    kind = name.partition(":")[0]
    if kind not in IN_PROCESS:
        raise EnvError(
            f"{name} is built in: one process simulates all of its areas, so there are no copies of it "
            f"(--num-envs={count}); more areas are --num-areas"
        )
    if areas is None and kind in ("gymnasium", "envpool", "pettingzoo"):
        from palaestra.envs.gymnasium import DEFAULT_AREAS

        areas = max(DEFAULT_AREAS, count)
    if areas is not None and areas < count:
        raise EnvError(f"--num-envs={count} copies cannot share {areas} areas: each needs one at least (--num-areas)")
    return [None] * count if areas is None else [areas // count + (i < areas % count) for i in range(count)]


def make_copy(name: str, options: Mapping[str, Any], *, areas: int | None) -> Env:
    """Opens one copy of an environment, in the copy's process."""
    return guarded(make_env(name, areas=areas, options=options), name)


def copies_of(given: object, areas: int | None, options: Mapping[str, Any], games: GameSettings) -> Env:
    """Opens as many copies as `games` says of an environment that a program or a notebook defines, each in its own
    process.

    Raises EnvError or ConfigError.
    """
    from palaestra.envs.pool.env_pool import EnvPool
    from palaestra.envs.pool.links import ProcessLink
    from palaestra.parallel.by_value import packed

    how = games.options
    given = given.discard() if isinstance(given, FirstMade) else given
    if not callable(given):
        raise EnvError(
            f"{given_name(given)} is an environment that exists already, which stays in this process: "
            f"--num-envs={how.copies} needs a function or a class that makes one, such as lambda: "
            "gymnasium.make('CartPole-v1')"
        )
    shares = _shares(PROGRAM, areas, how.copies)
    data = packed(given, given_name(given))
    links = (ProcessLink(i, make_program_copy, (data, dict(options)), share) for i, share in enumerate(shares))
    return EnvPool(links, timeout=how.timeout_wait, restarts=how.restarts, log=games.log)


def make_program_copy(data: bytes, options: Mapping[str, Any], *, areas: int | None) -> Env:
    """Opens one copy of a program's environment, in the copy's process."""
    from palaestra.parallel.by_value import unpacked

    given = unpacked(data)
    return Guarded(as_env(given, areas, "cpu", options)[0], given_name(given))


def is_game(name: str | None) -> bool:
    """Whether a name means a Unity build, a game in Python, or the Editor."""
    if not name:
        return False
    if name == EDITOR:
        return True
    if name.partition(":")[0] in (*IN_PROCESS, "builtin"):
        return False
    return executable.find(name) is not None or (executable.looks_like_build(name) and name not in registry("envs"))


def _builtin(name: str, areas: int | None, device: str, options: Mapping[str, Any]) -> Env:
    envs = registry("envs")
    if not name:
        raise EnvError(
            "builtin: names no environment; expected builtin:NAME, such as builtin:3DBall ('palaestra envs' lists them)"
        )
    if name not in envs:
        if Path(name).exists():
            raise EnvError(executable.explain_missing(name))
        known = ", ".join(envs.names())
        raise EnvError(
            f"no file and no built-in environment is named '{name}'{_meant(name, envs)} "
            f"(built in: {known}; others as gymnasium:ID, envpool:TASK, pettingzoo:module or python:module:factory)"
        )
    factory = envs.get(name)
    if "state" in options and _lacks_state(factory):
        told = ", ".join(other for other in envs.names() if not _lacks_state(envs.get(other)))
        raise EnvError(
            f"{name} has no true state to observe (env_options.state); these built-in environments have one: {told}"
        )
    check_option_types(name, factory, options)
    return cast(Env, call(factory, name, areas, device, options))


def _lacks_state(factory: Any) -> bool:
    """Whether a class is a built-in environment that cannot report the true state of its world."""
    return getattr(factory, "truth", None) == ()


def _meant(name: str, envs: Registry) -> str:
    import gymnasium

    rest = name.partition(":")[2]  # 'gym:CartPole-v1', of the library's old name
    for one in (name, rest):
        if one in gymnasium.registry:
            return f"; did you mean 'gymnasium:{one}'?"
    if rest in envs:
        return f"; did you mean 'builtin:{rest}'?"
    if ":" in name:
        return f"; did you mean 'python:{name.replace('.py:', ':')}'?"
    if close := nearest(name, envs.names()):
        return close
    from palaestra.envs.gymnasium.packages import nearest_ids, registering_package

    near = [name] if registering_package(name) else nearest_ids(name, gymnasium.registry, 1)
    return f"; did you mean 'gymnasium:{near[0]}'?" if near else ""
