"""From what `--env` or `env_path` says to an environment.

=========================  ==========================================================
`Game`                     an executable file of that name (a Unity build), else the built-in
`game.py`                  a game written in Python (palaestra.sdk), run as a process of its own
`editor`                   the Unity Editor
`builtin:3DBall`           the built-in, whatever files there are
`gymnasium:CartPole-v1`    a Gymnasium id; `gymnasium:module:Id-v0` imports a module first
`python:module:factory`    what a function (or class) of yours makes
=========================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import EnvError, PalaestraError, raised
from palaestra.core.own_code import import_own, see_current_folder
from palaestra.core.registry import Registry, nearest
from palaestra.envs.base import Env
from palaestra.envs.unity import executable

if TYPE_CHECKING:
    from palaestra.runtime.games import GameSettings

EDITOR = "editor"

NO_OPTIONS: Mapping[str, Any] = {}


def make_env(
    name: str | None,
    *,
    areas: int | None = None,
    device: str = "cpu",
    options: Mapping[str, Any] = NO_OPTIONS,
    games: GameSettings | None = None,
) -> Env:
    """The environment that `name` stands for (see the top of this module), with `areas` areas or its own number of them.

    `device` is for those that can run on several; `env.device` says where it is. `games` is for Unity games alone.
    Raises EnvError with what to do.
    """
    if not name:
        raise EnvError("no environment given: name one with --env, such as --env=3DBall ('palaestra envs' lists them)")
    if is_game(name):
        from palaestra.runtime.games import open_games  # brings gRPC: 0.1 s

        return open_games(None if name == EDITOR else name, areas, options, games)
    if games is not None and games.copies > 1:
        raise EnvError(f"{name} is no Unity build, of which alone there can be several copies (--num-envs); more areas are --num-areas")
    kind, colon, rest = name.partition(":")
    if colon and kind == "gymnasium":
        see_current_folder()
        from palaestra.envs.gymnasium import GymnasiumEnv  # not needed by the others: 0.1 s

        return GymnasiumEnv(rest, areas, **options)
    if colon and kind == "python":
        return _own(rest, areas, device, options)
    if colon and kind == "builtin":
        return _builtin(rest, areas, device, options)
    return _builtin(name, areas, device, options)


def is_game(name: str | None) -> bool:
    """Whether that is a Unity build, or something that can only be meant as one; or the Editor."""
    if not name:
        return False
    if name == EDITOR:
        return True
    if name.partition(":")[0] in ("gymnasium", "python", "builtin"):
        return False
    return executable.find(name) is not None or (executable.looks_like_build(name) and name not in Registry("envs"))


def _builtin(name: str, areas: int | None, device: str, options: Mapping[str, Any]) -> Env:
    registry = Registry("envs")
    if name not in registry:
        if Path(name).exists():
            raise EnvError(executable.explain_missing(name))
        known = ", ".join(registry.names())
        raise EnvError(
            f"no file and no built-in environment is named '{name}'{_meant(name, registry)} "
            f"(built in: {known}; others as gymnasium:ID or python:module:factory)"
        )
    return _call(registry.get(name), name, areas, device, options)


def _meant(name: str, registry: Registry) -> str:
    import gymnasium

    told = name.partition(":")[2]  # 'gym:CartPole-v1', of the library's old name
    for one in (name, told):
        if one in gymnasium.registry:
            return f"; did you mean 'gymnasium:{one}'?"
    if told in registry:
        return f"; did you mean 'builtin:{told}'?"
    if ":" in name:
        return f"; did you mean 'python:{name}'?"
    return nearest(name, registry.names())


def _own(place: str, areas: int | None, device: str, options: Mapping[str, Any]) -> Env:
    name = f"python:{place}"
    module_name, _, attribute = place.partition(":")
    if not module_name or not attribute:
        raise EnvError(f"'{name}' is not complete; expected python:module:factory, such as python:my_game:make")
    module = import_own(module_name, name)
    factory = getattr(module, attribute, None)
    if factory is None:
        raise EnvError(f"{name}: module '{module_name}' ({module.__file__}) has no '{attribute}'{nearest(attribute, vars(module))}")
    if not callable(factory):
        raise EnvError(
            f"{name}: '{attribute}' is an instance of {type(factory).__name__}; expected a function or class that makes an environment"
        )
    env = _call(factory, name, areas, device, options)
    missing = [member for member in _members() if not hasattr(env, member)]
    if missing:
        raise EnvError(
            f"{name} gave an instance of {type(env).__name__}, which lacks {', '.join(missing)}; palaestra.envs.base.Env says what they are"
        )
    if areas is not None and env.num_areas != areas:
        raise EnvError(f"{name}: {areas} areas were asked for and it made {env.num_areas}; its factory should take 'areas'")
    return env


def _call(factory: Callable[..., Any], name: str, areas: int | None, device: str, options: Mapping[str, Any]) -> Any:
    """Calls it with what its signature takes. `areas` and `device` may be left out of it, options may not."""
    form = signature(factory)
    takes = form.parameters
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in takes.values())
    unknown = [option for option in options if option not in takes and not takes_all]
    if unknown:
        raise EnvError(f"{name} takes no option '{unknown[0]}'{nearest(unknown[0], takes)} (it takes: {', '.join(takes) or 'none'})")
    arguments = {key: value for key, value in {"areas": areas, "device": device}.items() if key in takes or takes_all}
    if areas is None and "areas" in takes and takes["areas"].default is not Parameter.empty:
        del arguments["areas"]
    try:
        form.bind(**arguments, **options)
    except TypeError as error:
        raise EnvError(f"{name} cannot be called: {error}; what it needs beyond 'areas' and 'device' is an option to be given") from error
    try:
        return factory(**arguments, **options)
    except PalaestraError:
        raise
    except Exception as error:  # whatever a user's factory does
        raise EnvError(f"{name} could not be made: {raised(error)}") from error


def _members() -> list[str]:
    """What an `Env` has, methods and values."""
    return [name for name in {**Env.__annotations__, **vars(Env)} if not name.startswith("_")]
