"""The member of a Gymnasium or PettingZoo environment that takes a parameter.

If no member is named for it, a parameter goes to the method `set_parameters`, else into the options of `reset` if
`reset` asks for its name, else to the attribute of this name if the attribute is a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any, Protocol

from palaestra.core.errors import EnvError, exception_summary
from palaestra.core.plugins import nearest
from palaestra.envs.spaces.env_members import NUMBERS, has_itself, layers, member, number_like, numbers_of, put

METHOD = "set_parameters"
"""Method of an environment that takes all parameters as a dictionary."""
RESET = "reset"
"""Method whose options take parameters."""
TRIAL = 1.0
"""Number that a trial call of `reset` finds under a name whose usual value is not known."""

Wanted = Mapping[str, str | None]
"""Parameters by name, each with the member that takes it; None: the first that fits."""


class Target(Protocol):
    """A member of an environment that takes parameters. A target's text is a name for messages."""

    def begin(self, env: Any, values: Mapping[str, float]) -> Mapping[str, float]:
        """Sets the values of the next episode. Returns the options that `reset` needs."""
        ...


@dataclass(frozen=True, slots=True)
class ResetOptions:
    """The options of `reset`."""

    def begin(self, env: Any, values: Mapping[str, float]) -> Mapping[str, float]:
        """See `Target`."""
        return values

    def __str__(self) -> str:
        return "options of `reset`"


@dataclass(frozen=True, slots=True)
class ParametersMethod:
    """The method `set_parameters`, which takes a dictionary; keywords, if it accepts nothing else."""

    def begin(self, env: Any, values: Mapping[str, float]) -> Mapping[str, float]:
        """See `Target`."""
        method = member(env, METHOD)
        kinds = {one.kind for one in signature(method).parameters.values()}
        if kinds and kinds <= {Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD}:
            method(**values)
        else:
            method(dict(values))
        return {}

    def __str__(self) -> str:
        return f"method `{METHOD}`"


@dataclass(frozen=True, slots=True)
class Method:
    """A method that takes one number."""

    path: str

    def begin(self, env: Any, values: Mapping[str, float]) -> Mapping[str, float]:
        """See `Target`."""
        for value in values.values():
            member(env, self.path)(value)
        return {}

    def __str__(self) -> str:
        return f"method `{self.path}`"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute that is a number, or a number in a dictionary or an array."""

    path: str

    def begin(self, env: Any, values: Mapping[str, float]) -> Mapping[str, float]:
        """See `Target`."""
        for value in values.values():
            put(env, self.path, number_like(member(env, self.path), value))
        return {}

    def __str__(self) -> str:
        return f"attribute `{self.path}`"


@dataclass(slots=True)
class ParameterTargets:
    """Targets of the parameters of an environment, their defaults, and why some parameters have no target."""

    of: dict[str, tuple[Target, ...]] = field(default_factory=dict[str, Any])
    defaults: dict[str, float] = field(default_factory=dict[str, float])
    """Values that apply without settings; 0.0 if they are unknown."""
    refused: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def notes(self) -> list[str]:
        """A sentence for users on each parameter."""
        return [f"parameter '{name}' is set by the {targets[-1]}" for name, targets in self.of.items()]


def find_targets(env: Any, wanted: Wanted, title: str) -> ParameterTargets:
    """Finds the target of each parameter. Messages begin with `title`, the environment's name.

    Calls `reset` once, as a trial, if parameters without a named member may be options of `reset`.
    """
    found = ParameterTargets()
    before = {name: _number_before(env, name, path) for name, path in wanted.items()}
    asked = _Asked()
    free = [name for name, path in wanted.items() if path is None]
    if free and not callable(member(env, METHOD)) and takes_options(env):
        usual = {name: before[name] for name in free}
        asked.try_reset(env, {name: TRIAL if value is None else value for name, value in usual.items()})
    for name, path in wanted.items():
        try:
            found.of[name] = _first_fitting(env, name, asked) if path is None else _named(env, name, path)
        except EnvError as error:
            found.refused[name] = f"{title} {error}"
        else:
            found.defaults[name] = asked.defaults.get(name) or before[name] or 0.0
    return found


def _number_before(env: Any, name: str, path: str | None) -> float | None:
    for one in (path or name, name):
        if isinstance(value := member(env, one), NUMBERS):
            return float(value)
    return None


def _first_fitting(env: Any, name: str, asked: _Asked) -> tuple[Target, ...]:
    """Returns the targets of a parameter for which the settings name no target. Raises EnvError."""
    if callable(member(env, METHOD)):
        return (ParametersMethod(),)
    is_number = isinstance(member(env, name), NUMBERS)
    is_copied = asked.copied and asked.failure is None
    if name in asked.names:
        return (ResetOptions(),)
    if is_copied:  # whether the copy is read is not known
        found: list[Target] = []
        if is_number:
            with suppress(EnvError):
                found.append(_settable(env, name))
        return (*found, ResetOptions())
    if is_number:
        return (_settable(env, name),)
    numbers = numbers_of(env)
    has = f"it has: {', '.join(numbers)}" if numbers else "it has none"
    fate = f"raised {exception_summary(asked.failure)} in a trial" if asked.failure else "does not ask for it"
    raise EnvError(
        f"takes no parameter '{name}'{nearest(name, numbers)} (there is no attribute of this name that is a number, "
        f"{has}; no method {METHOD}(values); and `reset`, called with options={{'{name}': value}}, {fate}). "
        f"env_settings.env_options.parameters={{{name}: MEMBER}} names another member"
    )


def _named(env: Any, name: str, path: str) -> tuple[Target, ...]:
    """Returns the target that settings name for a parameter. Raises EnvError."""
    there = member(env, path)
    if path == RESET:
        if not takes_options(env):
            raise EnvError(f"has a `reset` without options, where env_options.parameters sends '{name}'")
        return (ResetOptions(),)
    if callable(there):
        return (ParametersMethod() if path == METHOD else Method(path),)
    if isinstance(there, NUMBERS):
        return (_settable(env, path),)
    what = f"there is no such member{nearest(path, numbers_of(env))}" if there is None else f"that is {there!r:.60}"
    raise EnvError(
        f"cannot take the parameter '{name}': env_options.parameters sends it to '{path}', but {what}; expected an "
        f"attribute that is a number, a method that takes one, or {RESET} for its options"
    )


def _settable(env: Any, path: str) -> Attribute:
    """Returns an attribute that can be set. Raises EnvError for a target that cannot take the parameter."""
    try:
        put(env, path, member(env, path))
    except Exception as error:  # whatever a user's environment does
        raise EnvError(f"has an attribute '{path}' that cannot be set: {exception_summary(error)}") from error
    return Attribute(path)


def takes_options(env: Any) -> bool:
    """Whether `reset` takes options in the environment and in all its wrappers."""
    for layer in layers(env):
        try:
            takes = signature(layer.reset).parameters.values() if has_itself(layer, RESET) else ()
        except (TypeError, ValueError):  # of a function written in C
            continue
        if takes and not any(one.name == "options" or one.kind is Parameter.VAR_KEYWORD for one in takes):
            return False
    return True


class _Asked(dict[str, Any]):
    """Options for a trial call of `reset`; notes which names it asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()
        self.defaults: dict[str, float] = {}
        """Values that `reset` uses if a name is missing."""
        self.copied = False
        """Whether all names were read at once, as when a dictionary is copied."""
        self.failure: Exception | None = None

    def try_reset(self, env: Any, values: Mapping[str, float]) -> None:
        """Calls `reset` with these values."""
        self.update(values)
        try:
            env.reset(seed=0, options=self)
        except Exception as error:  # a user's environment may raise anything, and will again when it counts
            self.failure = error

    def _ask(self, key: object, *default: Any) -> None:
        self.names.add(str(key))
        self.defaults.update({str(key): float(one) for one in default if isinstance(one, NUMBERS)})

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        self._ask(key)
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self._ask(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._ask(key, default)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        self._ask(key, *default)
        return super().pop(key, *default)

    def __iter__(self) -> Iterator[str]:
        self.copied = True
        return super().__iter__()

    def keys(self) -> Any:
        self.copied = True
        return super().keys()

    def items(self) -> Any:
        self.copied = True
        return super().items()

    def copy(self) -> dict[str, Any]:
        self.copied = True
        return super().copy()
