"""A game: a function that adds agents to an academy, which can be trained or played."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from palaestra.core.errors import EnvError, PalaestraError, exception_summary
from palaestra.sdk.areas import Areas

if TYPE_CHECKING:
    from palaestra.sdk.env import SdkEnv

Fill: TypeAlias = Callable[..., object]
_NO_PARAMETERS: Mapping[str, float] = MappingProxyType({})


class Game:
    """Game that `@sdk.game` makes from a function. Calling the game returns an environment, as `--env
    python:module:name` does.

    The function is called once for each area, with the area's Academy and the options that the function declares.
    """

    def __init__(self, fill: Fill, parameters: Mapping[str, float] = _NO_PARAMETERS) -> None:
        self.fill = fill
        self.parameters: Mapping[str, float] = MappingProxyType(dict(parameters))
        self.name = getattr(fill, "__name__", type(fill).__name__)
        self.summary = (fill.__doc__ or f"the game '{self.name}'").strip().splitlines()[0]
        self.__doc__ = fill.__doc__
        positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        first, *options = [*signature(fill).parameters.values()] or [Parameter("_", Parameter.KEYWORD_ONLY)]
        if first.kind not in positional:
            raise EnvError(
                f"game '{self.name}' takes no academy; write 'def {self.name}(academy: sdk.Academy) -> None'"
            )
        if taken := {"areas", "seed", "parameters"} & {option.name for option in options}:
            raise EnvError(
                f"game '{self.name}' has an option named '{min(taken)}', which every game has already; choose another "
                "name"
            )
        areas = Parameter("areas", Parameter.KEYWORD_ONLY, default=1, annotation=int)
        options = [
            option.replace(kind=Parameter.KEYWORD_ONLY) if option.kind in positional else option
            for option in options
            if option.kind is not Parameter.VAR_POSITIONAL
        ]
        self.options: Mapping[str, Parameter] = MappingProxyType({option.name: option for option in options})
        self.__signature__ = signature(fill).replace(parameters=[areas, *options], return_annotation="SdkEnv")

    def __call__(self, areas: int = 1, **options: Any) -> SdkEnv:
        """Returns the game as an environment in this process."""
        from palaestra.sdk.env import SdkEnv  # imports torch, which a game as a process does not need

        return SdkEnv(self, areas, options)

    def make_areas(
        self, areas: int = 1, seed: int = 0, parameters: Mapping[str, float] = _NO_PARAMETERS, **options: Any
    ) -> Areas:
        """Makes the game's areas with their agents, after setting parameters. Raises EnvError if the function fails."""
        if areas < 1:
            raise EnvError(f"game '{self.name}' cannot have {areas} areas; expected at least 1")
        try:
            return Areas(partial(self.fill, **options), areas, seed, {**self.parameters, **parameters})
        except PalaestraError:
            raise
        except Exception as error:
            raise EnvError(f"game '{self.name}' could not be made: {exception_summary(error)}") from error

    def play(self, argv: Sequence[str] | None = None) -> None:
        """Plays the game in this process: with a trainer if the command line gives its port, otherwise on its own."""
        from palaestra.sdk.launch import run  # imports gRPC

        if code := run(self, sys.argv[1:] if argv is None else argv):
            sys.exit(code)


@overload
def game(fill: Fill) -> Game: ...
@overload
def game(*, parameters: Mapping[str, float]) -> Callable[[Fill], Game]: ...
def game(
    fill: Fill | None = None, *, parameters: Mapping[str, float] = _NO_PARAMETERS
) -> Game | Callable[[Fill], Game]:
    """Makes a game from a function that adds agents to an Academy; `parameters`: parameters with their defaults."""
    if fill is not None:
        return Game(fill)

    def made(fill: Fill) -> Game:
        return Game(fill, parameters)

    return made
