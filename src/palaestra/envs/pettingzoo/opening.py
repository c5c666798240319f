"""Finds and makes PettingZoo environments by name.

`pettingzoo:mpe2.simple_spread_v3` is a module with `parallel_env`, `env` or `raw_env`; `pettingzoo:classic.chess_v6` is
an environment of the package pettingzoo; `pettingzoo:module:function` names the function.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.core.plugins import import_installed_module, import_user_module, near_module, nearest
from palaestra.envs.screens import draw_in_memory
from palaestra.envs.spaces.option_names import OF_RUN, ZOO_OPTIONS

if TYPE_CHECKING:
    from pettingzoo.utils.env import AECEnv, ParallelEnv

    from palaestra.envs.pettingzoo.env import PettingZooEnv

DEFAULT_AREAS = 16
PIP = "pip install 'palaestra[pettingzoo]'"
MAKERS = {"parallel": ("parallel_env",), "aec": ("env", "raw_env")}
"""Names of the functions that make an environment, for each value of the option `api`."""
EXTRAS = ("atari", "butterfly", "classic", "sisl")
"""Parts of PettingZoo that need packages of their own."""


def open_pettingzoo(place: str, areas: int | None, options: Mapping[str, Any]) -> PettingZooEnv:
    """Makes the environment that `pettingzoo:place` names, with `areas` copies of it.

    `options` go to the function that makes it, apart from `ZOO_OPTIONS`, `api` (parallel or aec) and `render`. Raises
    EnvError.
    """
    name = f"pettingzoo:{place}"
    count = DEFAULT_AREAS if areas is None else areas
    if count < 1:
        raise EnvError(f"{name} cannot have {areas} areas; expected at least 1")
    if find_spec("pettingzoo") is None:
        raise EnvError(f"{name} needs the package pettingzoo: {PIP}")
    from palaestra.envs.pettingzoo.env import PettingZooEnv

    own = {key: value for key, value in options.items() if key not in (*ZOO_OPTIONS, OF_RUN)}
    api = own.pop("api", None)
    drawn = own.pop("render", False)
    maker, module = _maker(place, name, api)
    if drawn:
        own["render_mode"] = "rgb_array"
        draw_in_memory()
    _check_options(maker, module, own, name)
    return PettingZooEnv(
        [_made(maker, own, name) for _ in range(count)],
        name,
        {key: options[key] for key in (*ZOO_OPTIONS, OF_RUN) if key in options},
    )


def is_published(place: str) -> bool:
    """Whether `pettingzoo:place` names an environment of the installed pettingzoo or mpe2, not a user's code."""
    return _published(place) is not None


def _published(place: str) -> str | None:
    """Returns the module of an environment of pettingzoo or mpe2, or None. Imports nothing from the current folder."""
    top, *parts = place.replace("/", ".").removeprefix("pettingzoo.").split(".")
    if top not in ("mpe2", *EXTRAS) or not parts or not all(part.isidentifier() for part in parts):
        return None
    package, inner = ("mpe2", parts) if top == "mpe2" else ("pettingzoo", [top, *parts])
    spec = find_spec(package)
    tops = [] if spec is None else [Path(folder) for folder in spec.submodule_search_locations or ()]
    if not tops or any(folder.resolve().parent == Path.cwd() for folder in tops):
        return None
    if package == "pettingzoo" and (registered := _registered(".".join(inner))) is not None:
        return registered
    files = [folder.joinpath(*inner) for folder in tops]
    there = any(file.with_suffix(".py").is_file() or (file / "__init__.py").is_file() for file in files)
    return ".".join((package, *inner)) if there else None


def _made(maker: Callable[..., Any], options: Mapping[str, Any], name: str) -> ParallelEnv | AECEnv:
    from pettingzoo.utils.env import AECEnv, ParallelEnv

    try:
        made = maker(**options)
    except (PalaestraError, *STOPS):
        raise
    except ImportError as error:
        raise EnvError(f"{name} cannot be made: {error}{_advice(error, getattr(maker, '__module__', ''))}") from error
    except BaseException as error:  # a user's environment may raise anything
        raise EnvError(f"{name} cannot be made: {exception_summary(error)}") from error
    if not isinstance(made, ParallelEnv | AECEnv):
        raise EnvError(
            f"{name} made an instance of {type(made).__name__}; expected a ParallelEnv or AECEnv of PettingZoo "
            f"(an environment of Gymnasium is gymnasium:ID)"
        )
    return made


def _maker(place: str, name: str, api: str | None) -> tuple[Callable[..., Any], ModuleType]:
    """Returns the function that makes the environment, and the module that was named. Raises EnvError."""
    if api is not None and api not in MAKERS:
        raise EnvError(f"{name}: the option api is {api!r}; expected parallel or aec{nearest(str(api), MAKERS)}")
    module_name, colon, function = place.partition(":")
    if not module_name or (colon and not function):
        raise EnvError(
            f"'{name}' is incomplete; expected pettingzoo:module or pettingzoo:module:function, such as {_EXAMPLE}"
        )
    module = _module(module_name, name)
    names = (function,) if function else MAKERS[api] if api else (*MAKERS["parallel"], *MAKERS["aec"])
    found = next((getattr(module, one) for one in names if hasattr(module, one)), None)
    if found is None:
        there = nearest(function, vars(module)) if function else ""
        raise EnvError(
            f"{name}: module '{module.__name__}' ({module.__file__}) has no {' or '.join(map(repr, names))}{there}"
        )
    if not callable(found):
        raise EnvError(
            f"{name}: '{names[0]}' is an instance of {type(found).__name__}; expected a function or class that makes "
            "one"
        )
    return found, module


_EXAMPLE = "pettingzoo:mpe2.simple_spread_v3"


def _module(given: str, name: str) -> ModuleType:
    """Imports a module, also a module of pettingzoo by its short name (classic.chess_v6). Raises EnvError."""
    place = given.replace("/", ".").removeprefix("pettingzoo.")
    published = _published(given)
    top = place.partition(".")[0]
    if top in ("mpe2", "mpe") and find_spec("mpe2") is None and not Path(top).exists():
        raise EnvError(f"{name} needs the package mpe2: {PIP}")
    try:
        return import_user_module(place, name) if published is None else import_installed_module(published, name)
    except EnvError as error:
        cause = error.__cause__
        if isinstance(cause, ImportError) and published is not None and (advice := _advice(cause, published)):
            raise EnvError(f"{name} cannot be imported: {cause}{advice}") from cause
        if published is None and isinstance(cause, ModuleNotFoundError) and f"{place}.".startswith(f"{cause.name}."):
            raise _unknown(given, place, name) from cause
        raise


def _unknown(given: str, place: str, name: str) -> EnvError:
    """Returns the error for a module that is neither installed nor in the current folder."""
    known = _known()
    hint = _close(place, known) or _absent(place, known)
    where = "" if hint else f", neither in {Path.cwd()} nor installed{near_module(place)}"
    return EnvError(
        f"{name}: there is no module '{given}'{hint or where} (such as {_EXAMPLE}; pettingzoo:module:function for "
        "yours)"
    )


def _registered(place: str) -> str | None:
    """Returns the module of an environment that PettingZoo registers (from 1.27 on), such as classic.chess_v6."""
    if not _exists("pettingzoo.env_registry"):
        return None
    from pettingzoo.env_registry.registration import aec_registry, parallel_registry

    id = re.sub(r"_(v\d+)$", r"-\1", place.replace(".", "/"))
    spec = aec_registry.get(id) or parallel_registry.get(id)
    return spec.entry_point.partition(":")[0] if spec is not None and isinstance(spec.entry_point, str) else None


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, AttributeError, ValueError):  # a parent that is no package, or cannot be imported
        return False


def _advice(error: ImportError, module: str) -> str:
    """Returns the line that installs what an environment of PettingZoo lacks, or ''."""
    part = re.match(r"pettingzoo\.(\w+)", module)
    if part and part[1] in EXTRAS:
        return f"; pip install 'pettingzoo[{part[1]}]' installs what it needs"
    missing = (error.name or "").partition(".")[0]
    if missing == "pygame":
        return "; pip install pygame-ce"
    return f"; pip install {missing}" if missing and module.startswith(("mpe2", "pettingzoo")) else ""


def _known() -> list[str]:
    """Returns the modules of environments that are installed, as names for `pettingzoo:`."""
    found = []
    for package, prefix in (("mpe2", "mpe2"), *((f"pettingzoo.{part}", part) for part in EXTRAS)):
        spec = find_spec(package) if _exists(package) else None
        places = None if spec is None else spec.submodule_search_locations
        found += [
            f"{prefix}.{one.name}" for one in pkgutil.iter_modules(places or []) if re.fullmatch(r"\w+_v\d+", one.name)
        ]
    return found


def _absent(place: str, known: list[str]) -> str:
    """Lists the environments in the named part of the installed PettingZoo, when it lacks the one wanted; '' without
    such a part."""
    part, _, environment = place.partition(".")
    there = [one.partition(".")[2] for one in known if one.startswith(f"{part}.")]
    if part not in EXTRAS or not there or not re.fullmatch(r"\w+_v\d+", environment):
        return ""
    has = version("pettingzoo")
    return (
        f": PettingZoo {has} has {', '.join(there)} in {part}. An earlier release may have it: pip install "
        f"'pettingzoo[{part}]<{has}'"
    )


def _close(place: str, known: list[str]) -> str:
    """Returns a hint at the nearest environment by its name, within the part of PettingZoo that was named, or ''."""
    short = {one.rpartition(".")[2]: one for one in known}
    last = place.rpartition(".")[2]
    if last in short:
        return f"; did you mean '{short[last]}'?"
    if (part := place.partition(".")[0]) in EXTRAS:
        short = {name: one for name, one in short.items() if one.startswith(f"{part}.")}
    hint = nearest(last, short)
    near = re.search(r"'(.+)'", hint)
    return f"; did you mean '{short[near[1]]}'?" if near else ""


def _check_options(maker: Callable[..., Any], module: ModuleType, options: Mapping[str, Any], name: str) -> None:
    """Raises EnvError for an option that neither the function takes nor the `raw_env` to which it passes options."""
    takes = _parameters(maker) or (_parameters(module.raw_env) if hasattr(module, "raw_env") else None)
    if takes is None:
        return
    for option in options:
        if option not in takes:
            raise EnvError(
                f"{name} takes no option '{option}'{nearest(option, [*takes, *ZOO_OPTIONS])} "
                f"(it takes: {', '.join(takes) or 'none'}; and {', '.join(ZOO_OPTIONS)}, api, render)"
            )


def _parameters(maker: Callable[..., Any]) -> list[str] | None:
    """Returns the names of a function's parameters; None if it takes any keyword, or has no signature."""
    try:
        takes = signature(maker).parameters
    except (ValueError, TypeError):
        return None
    return None if any(one.kind is Parameter.VAR_KEYWORD for one in takes.values()) else list(takes)
