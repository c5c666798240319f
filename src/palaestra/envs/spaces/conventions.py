"""Facts about an environment that its spaces do not tell: from Palaestra's options, or from the environment's
metadata."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium

from palaestra.core.errors import EnvError
from palaestra.envs.spaces.observation_leaves import Leaf
from palaestra.envs.spaces.observation_spaces import MOST_ELEMENTS, entry_names, observation_leaves
from palaestra.envs.spaces.option_names import (
    ALLOW_ALL,
    LEAVE_OUT,
    MASK_KEY,
    MAX_ELEMENTS,
    NAMES,
    NO_OPTION,
    OF_RUN,
    PARAMETERS,
)
from palaestra.envs.spaces.parameter_targets import Wanted


@dataclass(frozen=True, slots=True)
class Conventions:
    """Facts that an environment's user, or its metadata, states."""

    max_elements: int | None = None
    """Rows for the elements of a Sequence; None: not said."""
    missing_mask_allows_all: bool | None = None
    """Whether every choice is allowed if an info has no mask, also after `reset`; None: not said."""
    leave_out: tuple[str, ...] | None = None
    """Names of entries of the observation that the agent does not see; None: not said."""
    mask_key: str | bool | None = None
    """Name of the mask in observations and infos, or of the method that returns it; False: there is none; None: the
    usual names."""
    parameters: Wanted = field(default_factory=dict[str, Any])
    """Environment parameters, each with the member of the environment that takes it; None: the first that fits."""

    @classmethod
    def taken_from(cls, options: dict[str, Any], theirs: Collection[str] = ()) -> Conventions:
        """Takes Palaestra's options out of an environment's options. `theirs`: the environment's own option names,
        which may include `parameters`.

        Raises EnvError for a wrong value.
        """
        wanted = wanted_parameters(options, theirs)
        return replace(_checked(*(options.pop(name, None) for name in NAMES if name != PARAMETERS)), parameters=wanted)

    def completed(self, metadata: Mapping[str, Any]) -> Conventions:
        """Returns these conventions, completed from an environment's metadata. Raises EnvError for a wrong value."""
        elements = metadata.get(MAX_ELEMENTS, MOST_ELEMENTS) if self.max_elements is None else self.max_elements
        allow = metadata.get(ALLOW_ALL, False) if self.missing_mask_allows_all is None else self.missing_mask_allows_all
        out = metadata.get(LEAVE_OUT, ()) if self.leave_out is None else self.leave_out
        key = metadata.get(MASK_KEY) if self.mask_key is None else self.mask_key
        wanted = {**_named_parameters(metadata.get(PARAMETERS)), **self.parameters}
        return replace(_checked(elements, allow, out, key), parameters=wanted)

    def leaves(self, space: gymnasium.Space, mask: str | None = None) -> list[Leaf]:
        """Returns the leaves of an observation space without its mask. Raises EnvError for an unsupported space."""
        out = (*(self.leave_out or ()), *([] if mask is None else [mask]))
        return observation_leaves(space, most=self.max_elements or MOST_ELEMENTS, leave_out=out)

    def leaves_of_one(self, space: gymnasium.Space, mask: str | None = None) -> list[Leaf]:
        """Returns the leaves of the observation space of one kind of agent, which may lack leaves of another kind."""
        there = entry_names(space)
        return replace(self, leave_out=tuple(name for name in self.leave_out or () if name in there)).leaves(
            space, mask
        )


UNSAID = Conventions()


def wanted_parameters(options: dict[str, Any], theirs: Collection[str] = ()) -> Wanted:
    """Takes the parameters out of an environment's options: the run's parameters and the ones a user names."""
    of_run = options.pop(OF_RUN, ())
    if not isinstance(of_run, tuple):
        raise EnvError(NO_OPTION)
    named = None if PARAMETERS in theirs else options.pop(PARAMETERS, None)
    return {**dict.fromkeys(of_run), **_named_parameters(named)}


def _named_parameters(given: Any) -> Wanted:
    names = dict.fromkeys(given) if isinstance(given, list | tuple) else {} if given is None else given
    if not isinstance(names, Mapping) or not all(
        isinstance(name, str) and isinstance(path, str | None) for name, path in names.items()
    ):
        raise EnvError(
            f"{PARAMETERS} is {given!r:.80}; expected a map from parameters to members of the environment that "
            "take them, such as {gravity: physics.g}, or a list of parameters"
        )
    return names


def tick_seconds(metadata: Mapping[str, Any]) -> float | None:
    """Returns the seconds between two pictures, from `render_fps`; None if it is missing or no number above 0."""
    fps = metadata.get("render_fps")
    return 1 / fps if isinstance(fps, int | float) and fps > 0 else None


def _checked(most: Any, allow: Any, out: Any, key: Any) -> Conventions:
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise EnvError(f"{MAX_ELEMENTS} is {most!r}; expected the largest number of elements of a Sequence, at least 1")
    if not isinstance(allow, bool | None):
        raise EnvError(f"{ALLOW_ALL} is {allow!r}; expected true or false")
    names = (out,) if isinstance(out, str) else out
    if not isinstance(names, list | tuple | None) or any(not isinstance(name, str | int) for name in names or ()):
        raise EnvError(f"{LEAVE_OUT} is {out!r}; expected a list of names of observations")
    if key is not None and key is not False and (not isinstance(key, str) or not key):
        raise EnvError(
            f"{MASK_KEY} is {key!r}; expected the name of the mask in observations or infos, or false for none"
        )
    return Conventions(most, allow, None if names is None else tuple(map(str, names)), key)
