"""The user's own environments: objects, and functions or classes that make them.

Each may be an `Env`, a Gymnasium environment or vector environment, or a PettingZoo environment.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from numbers import Integral
from typing import Any, cast

import torch

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary, out_of_memory
from palaestra.core.plugins import import_user_module, lacks, nearest
from palaestra.core.specs import BehaviorSpec
from palaestra.envs.base import Env
from palaestra.envs.spaces.option_names import MAPPINGS, OF_RUN, PARAMETERS, STATE
from palaestra.parallel.closing import close_safely

OURS = (*MAPPINGS, STATE, PARAMETERS)
"""Options that Palaestra reads itself, unless a factory has an option of the same name."""
NO_OPTIONS: Mapping[str, Any] = {}
KINDS = (
    "an Env (palaestra.envs.base), a gymnasium.Env, a gymnasium.vector.VectorEnv, or a ParallelEnv or AECEnv of "
    "PettingZoo"
)


class FirstMade:
    """A function that makes environments, and the first environment that it made."""

    def __init__(self, make: Callable[..., Any], made: Any) -> None:
        self.make = make
        self.__name__ = getattr(make, "__name__", type(make).__name__)
        self.__signature__ = signature(make)
        self._made = [made]

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Returns the first environment on the first call, then new ones."""
        return self._made.pop() if self._made else self.make(*args, **options)

    def discard(self) -> Callable[..., Any]:
        """Closes the environment, and returns only the function, for other processes."""
        for made in self._made:
            if hasattr(made, "close"):  # else it is no environment, which is said where one is used
                close_safely(made.close, "the environment", warnings.warn)
        self._made = []
        return self.make


def user_env(place: str, areas: int | None, device: str, options: Mapping[str, Any]) -> Env:
    """Makes the environment that `python:module:factory` names. Raises EnvError."""
    name = f"python:{place}"
    module_name, _, attribute = place.partition(":")
    if not module_name or not attribute:
        before, dot, last = place.rpartition(".")
        meant = f"; did you mean 'python:{before}:{last}'?" if dot and last[:1].isupper() else ""
        raise EnvError(f"'{name}' is incomplete{meant} (expected python:module:Class, such as python:my_game:Game)")
    module = import_user_module(module_name, name)
    factory = getattr(module, attribute, None)
    if factory is None:
        raise EnvError(f"{name}: {lacks(module, attribute)}")
    if not callable(factory):
        raise EnvError(
            f"{name}: '{attribute}' is an instance of {type(factory).__name__}; expected a function or class that "
            "makes an environment"
        )
    return make_with(factory, name, areas, device, options)


def as_env(given: object, areas: int | None, device: str, options: Mapping[str, Any] = NO_OPTIONS) -> tuple[Env, bool]:
    """Turns the object that a program passes into an `Env`. Returns the `Env`, and whether it was made by this
    function, so that the caller must close it.

    A single Gymnasium or PettingZoo environment is one area; a function or class that makes one is called once for each
    area. `options` go to such a function, except `OURS` and the parameters of the run. Raises EnvError.
    """
    name = given_name(given)
    if not isinstance(given, type) and not _missing(given):
        return checked(cast(Env, given), name), False
    if (known := _from_gymnasium(given, options) or _from_pettingzoo([given], name, options)) is not None:
        if areas is not None and known.num_areas != areas:
            raise EnvError(
                f"{name}: num_areas is {areas}, but the environment's is {known.num_areas}; pass a function that "
                "makes one environment, such as lambda: gymnasium.make('CartPole-v1'), which is then called once for "
                "each area"
            )
        return known, False
    if callable(given):
        return make_with(given, name, areas, device, options), True
    if isinstance(given, list | tuple) and given:
        if any(one is other for at, one in enumerate(given) for other in given[:at]):
            raise EnvError(f"{name} holds the same environment twice; each area needs one of its own")
        if all(_is_pettingzoos(one) for one in given):
            return cast(Env, _from_pettingzoo(given, name, options)), False
        if all(_from_gymnasium(one) is not None for one in given):
            return _around(given, options), False
    raise EnvError(
        f"{name} cannot be trained in: expected {KINDS}, or a function or class that makes one; it {_lacking(given)}"
    )


def given_name(given: object) -> str:
    """Returns the name, for messages, of an object that a program passed."""
    return f"env ({getattr(given, '__name__', type(given).__name__)})"


def make_with(
    factory: Callable[..., Any], name: str, areas: int | None, device: str, options: Mapping[str, Any] = NO_OPTIONS
) -> Env:
    """Calls a function or class and returns its environment, with `areas` areas or with its own number of areas. Raises
    EnvError."""
    takes = signature(factory).parameters
    ours = {key: value for key, value in options.items() if key == OF_RUN or (key in OURS and key not in takes)}
    own = {key: value for key, value in options.items() if key not in ours}
    made = call(factory, name, areas, device, own)
    if _is_pettingzoos(made):
        return cast(
            Env,
            _from_pettingzoo(_repeated(made, lambda: call(factory, name, areas, device, own), name, areas), name, ours),
        )
    gymnasium = sys.modules.get("gymnasium")
    is_gymnasiums = gymnasium is not None and isinstance(made, gymnasium.Env | gymnasium.vector.VectorEnv)
    if theirs := ours.keys() - {OF_RUN, *([PARAMETERS] if is_gymnasiums else [])}:
        own |= {key: ours.pop(key) for key in theirs}
        made = call(factory, name, areas, device, own)  # they may mean something else there, or are refused
    if gymnasium is not None and isinstance(made, gymnasium.Env):
        return _around(_repeated(made, lambda: call(factory, name, areas, device, own), name, areas), ours)
    env = _from_gymnasium(made, ours)
    if env is None:
        if made is None or isinstance(made, type):
            what = (
                "None: does it end without `return`?"
                if made is None
                else f"the class {made.__name__}, not {made.__name__}()"
            )
            raise EnvError(f"{name} returned {what} (expected {KINDS})")
        if _missing(made):
            raise EnvError(
                f"{name} returned an instance of {type(made).__name__}, which {_lacking(made)}; expected {KINDS}"
            )
        env = checked(cast(Env, made), name)
    if areas is not None and env.num_areas != areas:
        raise EnvError(
            f"{name}: num_areas is {areas}, but the environment's is {env.num_areas}; its factory should take the "
            "argument 'areas'"
        )
    return env


def _repeated(first: Any, make: Callable[[], Any], name: str, areas: int | None) -> list[Any]:
    from palaestra.envs.gymnasium import DEFAULT_AREAS

    made = [first]
    for _ in range((DEFAULT_AREAS if areas is None else areas) - 1):
        another = make()
        if any(another is one for one in made):
            raise EnvError(
                f"{name} returned the same environment twice; it is called once for each area and must make a new one "
                "each time"
            )
        made.append(another)
    return made


def _from_gymnasium(given: object, options: Mapping[str, Any] = NO_OPTIONS) -> Env | None:
    """Wraps a Gymnasium environment or vector environment; returns None for anything else."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None or not isinstance(given, gymnasium.Env | gymnasium.vector.VectorEnv):
        return None
    return _around(given, options)


def _is_pettingzoos(given: object) -> bool:
    pettingzoo = sys.modules.get("pettingzoo")
    return pettingzoo is not None and isinstance(given, pettingzoo.ParallelEnv | pettingzoo.AECEnv)


def _from_pettingzoo(given: Sequence[Any], name: str, options: Mapping[str, Any]) -> Env | None:
    """Wraps PettingZoo environments, one for each area; returns None for anything else."""
    if not all(_is_pettingzoos(one) for one in given):
        return None
    from palaestra.envs.pettingzoo.env import PettingZooEnv

    ours = {key: value for key, value in options.items() if key in (*OURS, OF_RUN)}
    return cast(Env, PettingZooEnv(given, name, ours))


def _around(given: Any, options: Mapping[str, Any] = NO_OPTIONS) -> Env:
    from palaestra.envs.guarded import Guarded
    from palaestra.envs.gymnasium import GymnasiumEnv
    from palaestra.envs.spaces.conventions import Conventions, wanted_parameters

    try:
        env = GymnasiumEnv.wrap(given, conventions=Conventions(parameters=wanted_parameters(dict(options))))
    except (PalaestraError, *STOPS):
        raise
    except BaseException as error:  # what a user's class declares may be anything
        one = given[0] if isinstance(given, list | tuple) else given
        raise EnvError(
            f"environment {type(one).__name__} cannot be used: {exception_summary(error)}; --debug shows the whole "
            "traceback"
        ) from error
    return Guarded(env, env.name)


def call(factory: Callable[..., Any], name: str, areas: int | None, device: str, options: Mapping[str, Any]) -> Any:
    """Calls a factory with `areas`, `device` and options, as far as its signature accepts them. Raises EnvError."""
    form = signature(factory)
    takes = form.parameters
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in takes.values())
    drawn: Mapping[str, Any] = {}
    if options.get("render") is True and "render" not in takes:  # commands that draw ask it of every environment
        options = {option: value for option, value in options.items() if option != "render"}
        takes_mode = "render_mode" in takes or (takes_all and _draws(factory))
        drawn = {"render_mode": "rgb_array"} if takes_mode and "render_mode" not in options else {}
    unknown = [option for option in options if option not in takes and not takes_all]
    if unknown:
        known = [option for option in takes if option not in ("areas", "device")]  # those two are settings of their own
        raise EnvError(
            f"{name} takes no option '{unknown[0]}'{nearest(unknown[0], known)} (it takes: "
            f"{', '.join(known) or 'none'})"
        )
    if _is_gymnasiums(factory):
        takes_all = False  # further keywords go to the environment, which knows neither `areas` nor `device`
    arguments = {key: value for key, value in {"areas": areas, "device": device}.items() if key in takes or takes_all}
    if areas is None and "areas" in takes and takes["areas"].default is not Parameter.empty:
        del arguments["areas"]
    arguments |= drawn
    try:
        form.bind(**arguments, **options)
    except TypeError as error:
        raise EnvError(
            f"{name} cannot be called: {error}; give its arguments, other than 'areas' and 'device', under env_options"
        ) from error
    try:
        return _made(factory, arguments, options)
    except PalaestraError:
        raise
    except (Exception, SystemExit) as error:  # a user's factory may raise anything
        if isinstance(error, Exception) and out_of_memory(error):
            raise
        raise EnvError(f"{name} could not be made: {exception_summary(error)}") from error


def _made(factory: Callable[..., Any], ours: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Calls a factory; if it passes keywords on to a class that lacks ours, calls it again without ours."""
    named = signature(factory).parameters
    ours = dict(ours)
    while True:
        try:
            return factory(**ours, **options)
        except TypeError as error:
            refused = [key for key in ours if key not in named and f"unexpected keyword argument '{key}'" in str(error)]
            if not refused:
                raise
            del ours[refused[0]]


def _draws(factory: Callable[..., Any]) -> bool:
    """Whether a factory is a Gymnasium class with the render mode rgb_array."""
    modes = (getattr(factory, "metadata", None) or {}).get("render_modes")
    return _is_gymnasiums(factory) and "rgb_array" in (modes or ())


def _is_gymnasiums(factory: Callable[..., Any]) -> bool:
    """Whether a factory is `gymnasium.make` or `make_vec` with arguments bound, or a Gymnasium class."""
    gymnasium = sys.modules.get("gymnasium")
    factory = factory.make if isinstance(factory, FirstMade) else factory
    inner = factory.func if isinstance(factory, partial) else factory
    if gymnasium is None:
        return False
    return inner in (gymnasium.make, gymnasium.make_vec) or (
        isinstance(inner, type) and issubclass(inner, gymnasium.Env)
    )


def checked(env: Env, name: str) -> Env:
    """Returns a user's own `Env`. Raises EnvError for a member that breaks the interface."""
    number = isinstance(env.num_areas, Integral) and not isinstance(env.num_areas, bool) and env.num_areas > 0
    behaviors = isinstance(env.behaviors, Mapping) and all(
        isinstance(spec, BehaviorSpec) for spec in env.behaviors.values()
    )
    for member, fits, expected in (
        ("device", isinstance(env.device, torch.device), "a torch.device, such as torch.device('cpu')"),
        ("num_areas", number, "a whole number of at least 1"),
        ("behaviors", behaviors, "a dictionary of BehaviorSpec (palaestra.core.specs) by behavior"),
        ("parameters", isinstance(env.parameters, Mapping), "a dictionary of numbers by name, {} without any"),
    ):
        if not fits:
            raise EnvError(f"{name}: `{member}` is {getattr(env, member)!r:.80}; expected {expected}")
    return env


def _missing(env: object) -> list[str]:
    """Lists the members of `Env` that an object lacks. `render` may be missing: only the command `record` needs it."""
    members = {**Env.__annotations__, **vars(Env)}
    return [name for name in members if not name.startswith("_") and name != "render" and not hasattr(env, name)]


def _lacking(env: object) -> str:
    if isinstance(env, list | tuple):
        wrong = next((one for one in env if _from_gymnasium(one) is None), None)
        if isinstance(wrong, type) or (callable(wrong) and not hasattr(wrong, "step")):
            return "holds functions or classes: pass one alone, which is called once for each area"
        return f"holds {wrong!r:.80}, which {_lacking(wrong)}" if env else "is empty"
    if type(env).__name__ == "EnvSpec":
        return "is a specification, whose function makes one: pass its `make`, such as env=spec.make"
    if any(base.__module__.partition(".")[0] == "gym" for base in type(env).__mro__):
        return (
            "is of the package gym, the forerunner of gymnasium: derive its class from gymnasium.Env, or adapt it "
            "with shimmy"
        )
    if callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None)) and not hasattr(env, "num_areas"):
        return "has `reset` and `step` but is no gymnasium.Env: derive its class from gymnasium.Env"
    if not hasattr(env, "reset") and not hasattr(env, "step"):
        return "has neither `reset` nor `step`"
    return f"lacks {_listed(env)}"


def _listed(env: object) -> str:
    return ", ".join(_missing(env)) + " of an Env"
