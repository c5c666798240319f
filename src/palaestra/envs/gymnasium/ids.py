"""Looks up Gymnasium's ids and makes the environments that they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv

from palaestra.core.errors import EnvError, PalaestraError, exception_summary
from palaestra.core.plugins import nearest
from palaestra.envs.gymnasium.atari import WHOLE_SCREEN, DrawnAtari, is_atari
from palaestra.envs.gymnasium.packages import import_registering_package
from palaestra.envs.gymnasium.single_envs import SingleEnvs, elements_of
from palaestra.envs.gymnasium.vector_envs import VectorEnvs, adapted


def build(spec: EnvSpec, count: int, options: dict[str, Any]) -> SingleEnvs | VectorEnvs:
    """Makes `count` copies of a registered environment. Raises EnvError if they cannot be made."""
    options, name = dict(options), f"gymnasium:{spec.id}"
    rendered, most = options.pop("render", False), options.pop("max_elements", None)
    if most is not None:
        elements_of({"max_elements": most})
    try:
        if (native := _native(spec, count, options, rendered=rendered, most=most)) is not None:
            return native
        if rendered:
            modes = _render_modes(_creator(spec))
            if modes is not None and "rgb_array" not in modes:
                has = ", ".join(modes) or "none"
                raise EnvError(f"{name} cannot be drawn: that needs the render mode rgb_array, and it has {has}")
            options["render_mode"] = "rgb_array"
        return SingleEnvs([gymnasium.make(spec, disable_env_checker=True, **options) for _ in range(count)], name, most)
    except PalaestraError:
        raise
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise EnvError(f"{name} cannot be made: {error}") from error
    except Exception as error:  # a user's environment may raise anything
        raise EnvError(f"{name} cannot be made: {exception_summary(error)}") from error


def drawn_by(id: str) -> str | None:
    """Returns the module of the environment's class if it declares the render mode rgb_array, else None. Makes no environment."""
    try:
        creator = _creator(spec_of(id))
    except (EnvError, gymnasium.error.Error, ImportError, AttributeError):
        return None
    return getattr(creator, "__module__", "") if "rgb_array" in (_render_modes(creator) or ()) else None


def _render_modes(creator: Any) -> Sequence[str] | None:
    """Returns the render modes that an environment's class declares; None if unknown, for example for a factory function."""
    return getattr(creator, "metadata", {}).get("render_modes")


def _creator(spec: EnvSpec) -> Any:
    point = spec.entry_point or spec.vector_entry_point
    return load_env_creator(point) if isinstance(point, str) else point


def spec_of(id: str) -> EnvSpec:
    """Looks up an id, after importing the module before its colon. Raises EnvError for an unknown id."""
    module, _, name = id.rpartition(":")
    try:
        if module:
            import_module(module)
        elif name not in gymnasium.registry:
            import_registering_package(name)
        return gymnasium.spec(name)
    except ImportError as error:
        raise EnvError(f"gymnasium:{id}: the module '{module}' that should register it cannot be imported: {error}") from error
    except gymnasium.error.Error as error:
        hint = nearest(name, gymnasium.registry)
        raise EnvError(
            f"Gymnasium has no environment '{name}'{hint} (for one of another package, name its module: gymnasium:module:Id-v0)"
        ) from error


def _native(spec: EnvSpec, count: int, options: dict[str, Any], *, rendered: bool, most: int | None) -> SingleEnvs | VectorEnvs | None:
    """Makes the environment's own vector version if it is the only version, or acts in every area on every tick; else returns None."""
    if spec.vector_entry_point is None:
        return None
    creator = spec.vector_entry_point
    creator = creator if callable(creator) else load_env_creator(creator)
    if spec.entry_point is not None and not _preferred(creator, spec, options, rendered=rendered):
        return None
    if "autoreset_mode" in signature(creator).parameters:
        options = {"autoreset_mode": AutoresetMode.SAME_STEP, **options}
    if rendered and not is_atari(creator):
        options = {**options, "render_mode": "rgb_array"}
    envs, name = _made(spec, count, options), f"gymnasium:{spec.id}"
    if rendered and is_atari(creator):
        return DrawnAtari(envs, _made(spec, count, {**options, **WHOLE_SCREEN}), name)
    return adapted(envs, name, most)


def _preferred(creator: Callable[..., Any], spec: EnvSpec, options: dict[str, Any], *, rendered: bool) -> bool:
    """Whether a vector version is used although there are single environments."""
    takes = signature(creator).parameters
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in takes.values())
    if spec.additional_wrappers or not (takes_all or {*spec.kwargs, *options} <= {*takes}):
        return False
    if is_atari(creator):
        return True
    if rendered:
        return False
    return "autoreset_mode" in takes or creator is CartPoleVectorEnv or _mode(creator) is AutoresetMode.SAME_STEP


def _made(spec: EnvSpec, count: int, options: dict[str, Any]) -> VectorEnv:
    return gymnasium.make_vec(spec, count, vectorization_mode="vector_entry_point", **options)


def _mode(creator: Callable[..., Any]) -> Any:
    return getattr(creator, "metadata", {}).get("autoreset_mode")
