"""Looks up Gymnasium's ids and makes the environments that they name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.core.plugins import import_user_module, missing_package, nearest
from palaestra.envs.gymnasium.native_envs import native_envs, vector_options
from palaestra.envs.gymnasium.packages import explain_unknown, import_registering_package, newest_version
from palaestra.envs.gymnasium.single_envs import SingleEnvs
from palaestra.envs.gymnasium.vector_envs import VectorEnvs
from palaestra.envs.screens import draw_in_memory
from palaestra.envs.spaces.conventions import Conventions
from palaestra.envs.spaces.option_names import PARAMETERS


def build(spec: EnvSpec, count: int, options: dict[str, Any]) -> SingleEnvs | VectorEnvs:
    """Makes `count` copies of a registered environment. Raises EnvError if they cannot be made."""
    options = dict(options)
    name = f"gymnasium:{spec.id}"
    if (newest := newest_version(spec.id)) != spec.id:
        warnings.warn(f"{name} is out of date: {newest} replaces it", stacklevel=3)
    rendered = options.pop("render", False)
    if rendered:
        draw_in_memory()
    try:
        theirs = signature(_creator(spec)).parameters if PARAMETERS in options else ()
        conventions = Conventions.taken_from(options, theirs)
        if (native := native_envs(spec, count, options, conventions, rendered=rendered)) is not None:
            return native
        if rendered:
            modes = _render_modes(_creator(spec))
            if modes is not None and "rgb_array" not in modes:
                has = ", ".join(modes) or "none"
                raise EnvError(f"{name} cannot be drawn: that needs the render mode rgb_array, and it has {has}")
            options["render_mode"] = "rgb_array"
        return SingleEnvs(
            [gymnasium.make(spec, disable_env_checker=True, **options) for _ in range(count)], name, conventions
        )
    except (PalaestraError, *STOPS):
        raise
    except BaseException as error:  # a user's environment may raise anything
        raise _explained(error, spec, name, options) from error


def _explained(error: BaseException, spec: EnvSpec, name: str, options: Mapping[str, Any]) -> EnvError:
    """Returns the error for an environment that cannot be made."""
    point = spec.entry_point or spec.vector_entry_point
    lacking = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if lacking and isinstance(point, str) and f"{point.partition(':')[0]}.".startswith(f"{lacking}."):
        return EnvError(
            f"{name}: its entry point is '{point}', but there is no module '{lacking}', neither in {Path.cwd()} nor "
            "installed"
        )
    if (missing := missing_package(error)) is not None:
        return EnvError(f"{name} {missing}")
    unknown = next((each for each in options if f"unexpected keyword argument '{each}'" in str(error)), None)
    if unknown is not None and isinstance(error, TypeError):
        return _wrong_option(unknown, spec, name, options)
    if isinstance(error, gymnasium.error.Error):
        return EnvError(f"{name} cannot be made: {error}")
    return EnvError(f"{name} cannot be made: {exception_summary(error)}")


def _wrong_option(unknown: str, spec: EnvSpec, name: str, options: Mapping[str, Any]) -> EnvError:
    """Returns the error for an option that single environments do not take; a vector version may."""
    single = [each for each in signature(_creator(spec)).parameters if each != "self"]
    vector = vector_options(spec)
    takes = list(dict.fromkeys([*single, *vector]))
    unknown = next((each for each in options if each not in takes), unknown)
    other = next((each for each in options if each in single and each not in vector and each != "render_mode"), None)
    if unknown in vector and other is not None:
        return EnvError(
            f"{name}: the options '{unknown}', of the vector environment, and '{other}', of single games, exclude one "
            "another"
        )
    return EnvError(
        f"{name} takes no option '{unknown}'{nearest(unknown, takes)} (it takes: {', '.join(takes) or 'none'})"
    )


def drawn_by(id: str) -> str | None:
    """Returns the module of the environment's class if it declares the mode rgb_array, else None."""
    try:
        creator = _creator(spec_of(id))
    except (EnvError, gymnasium.error.Error, ImportError, AttributeError):
        return None
    return getattr(creator, "__module__", "") if "rgb_array" in (_render_modes(creator) or ()) else None


def _render_modes(creator: Any) -> Sequence[str] | None:
    """Returns the render modes that a class declares; None if unknown, for example for a factory function."""
    return (getattr(creator, "metadata", None) or {}).get("render_modes")


def _creator(spec: EnvSpec) -> Any:
    point = spec.entry_point or spec.vector_entry_point
    return load_env_creator(point) if isinstance(point, str) else point


def spec_of(id: str) -> EnvSpec:
    """Looks up an id, after importing the module before its colon. Raises EnvError for an unknown id."""
    module, _, name = id.rpartition(":")
    if not name:
        raise EnvError(
            f"'gymnasium:{id}' is incomplete; expected gymnasium:ID or gymnasium:module:ID, such as "
            "gymnasium:CartPole-v1"
        )
    if module:
        import_user_module(module, f"gymnasium:{id}")
    elif name not in gymnasium.registry:
        import_registering_package(name)
    try:
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        raise explain_unknown(name) from error
