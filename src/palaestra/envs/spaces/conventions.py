"""Facts about an environment that its spaces do not tell: options of ours, or entries of the environment's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium

from palaestra.core.errors import EnvError
from palaestra.envs.spaces.observation_leaves import Leaf
from palaestra.envs.spaces.observation_spaces import MOST_ELEMENTS, entry_names, observation_leaves
from palaestra.envs.spaces.option_names import ALLOW_ALL, LEAVE_OUT, MASK_KEY, MAX_ELEMENTS, NAMES


@dataclass(frozen=True, slots=True)
class Conventions:
    """Facts that an environment's user, or its metadata, states."""

    max_elements: int | None = None
    """Rows for the elements of a Sequence; None: not said."""
    missing_mask_allows_all: bool | None = None
    """Whether every choice is allowed where an info has no mask, also after `reset`; None: not said."""
    leave_out: tuple[str, ...] | None = None
    """Names of entries of the observation that the agent does not see; None: not said."""
    mask_key: str | bool | None = None
    """Name of the mask in observations and infos, or of the method that returns it; False: there is none; None: the
    usual names.
    """

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Conventions:
        """Takes ours out of an environment's options. Raises EnvError for a wrong value."""
        return _checked(*(options.pop(name, None) for name in NAMES))

    def completed(self, metadata: Mapping[str, Any]) -> Conventions:
        """Returns these, completed from an environment's metadata. Raises EnvError for a wrong value."""
        elements = metadata.get(MAX_ELEMENTS, MOST_ELEMENTS) if self.max_elements is None else self.max_elements
        allow = metadata.get(ALLOW_ALL, False) if self.missing_mask_allows_all is None else self.missing_mask_allows_all
        out = metadata.get(LEAVE_OUT, ()) if self.leave_out is None else self.leave_out
        return _checked(elements, allow, out, metadata.get(MASK_KEY) if self.mask_key is None else self.mask_key)

    def leaves(self, space: gymnasium.Space, mask: str | None = None) -> list[Leaf]:
        """Returns the leaves of an observation space without its mask. Raises EnvError for an unsupported one."""
        out = (*(self.leave_out or ()), *([] if mask is None else [mask]))
        return observation_leaves(space, most=self.max_elements or MOST_ELEMENTS, leave_out=out)

    def leaves_of_one(self, space: gymnasium.Space, mask: str | None = None) -> list[Leaf]:
        """Returns the leaves of the observation space of one kind of agent, which may lack what another leaves out."""
        there = entry_names(space)
        return replace(self, leave_out=tuple(name for name in self.leave_out or () if name in there)).leaves(
            space, mask
        )


UNSAID = Conventions()


def tick_seconds(metadata: Mapping[str, Any]) -> float | None:
    """Returns the seconds between two pictures, from `render_fps`; None if that is missing or no number above 0."""
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
