"""Facts about an environment that its spaces do not tell: options of ours, or entries of the environment's metadata."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from palaestra.core.errors import EnvError
from palaestra.envs.spaces.action_masks import KEY
from palaestra.envs.spaces.observation_spaces import MOST_ELEMENTS, Leaf, entry_names, observation_leaves
from palaestra.envs.spaces.option_names import ALLOW_ALL, LEAVE_OUT, MAX_ELEMENTS


@dataclass(frozen=True, slots=True)
class Conventions:
    """Facts that an environment's user, or its metadata, states."""

    max_elements: int | None = None
    """Rows for the elements of a Sequence; None: not said."""
    missing_mask_allows_all: bool | None = None
    """Whether every choice is allowed where an info has no mask, also after `reset`; None: not said."""
    leave_out: tuple[str, ...] | None = None
    """Names of entries of the observation that the agent does not see; None: not said."""

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Conventions:
        """Takes ours out of an environment's options. Raises EnvError for a wrong value."""
        return _checked(options.pop(MAX_ELEMENTS, None), options.pop(ALLOW_ALL, None), options.pop(LEAVE_OUT, None))

    def completed(self, metadata: Mapping[str, Any]) -> Conventions:
        """Returns these, with what is not said taken from an environment's metadata. Raises EnvError for a wrong value."""
        elements = metadata.get(MAX_ELEMENTS, MOST_ELEMENTS) if self.max_elements is None else self.max_elements
        allow = metadata.get(ALLOW_ALL, False) if self.missing_mask_allows_all is None else self.missing_mask_allows_all
        return _checked(elements, allow, metadata.get(LEAVE_OUT, ()) if self.leave_out is None else self.leave_out)

    def leaves(self, space: gymnasium.Space) -> list[Leaf]:
        """Returns the leaves of an observation space. Raises EnvError for an unsupported one."""
        return observation_leaves(space, most=self.max_elements or MOST_ELEMENTS, leave_out=self.leave_out or ())

    def leaves_of_one(self, space: gymnasium.Space) -> list[Leaf]:
        """Returns the leaves of the observation space of one kind of agent, which may lack what another leaves out."""
        there = entry_names(space)
        return replace(self, leave_out=tuple(name for name in self.leave_out or () if name in there)).leaves(space)


UNSAID = Conventions()


class MissingMasks:
    """Says what an info without a mask means: every choice is allowed, after a warning unless the conventions say so."""

    def __init__(self, name: str, conventions: Conventions) -> None:
        self._name = name
        self.expected = bool(conventions.missing_mask_allows_all)
        """Whether masks may come later than with `reset`."""
        self._told = self.expected

    def late(self) -> EnvError:
        """Returns the error for masks that come in `step` but not in `reset`."""
        return EnvError(
            f"{self._name} gives info['{KEY}'] in `step` but not in `reset`, so the first decision of each episode would have no mask: "
            f"give it in the info of `reset` too. If everything is allowed there, say so: "
            f"--set env_settings.env_options.{ALLOW_ALL}=true (or metadata['{ALLOW_ALL}'] = True in the environment's class)"
        )

    def notice(self, masks: Any, acting: np.ndarray | None = None, who: Callable[[int], str] = "area {}".format) -> Any:
        """Returns N masks, and warns the first time that one which acts is None; `who` names its area or agent."""
        if self._told or isinstance(masks, np.ndarray):
            return masks
        missing = [i for i, mask in enumerate(masks) if mask is None and (acting is None or acting[i])]
        if missing:
            self._told = True
            warnings.warn(
                f"{self._name}, {who(missing[0])}: an info has no '{KEY}', though others have: every choice is allowed there "
                f"(env_settings.env_options.{ALLOW_ALL}=true says that this is meant)",
                stacklevel=2,
            )
        return masks


def _checked(most: Any, allow: Any, out: Any) -> Conventions:
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise EnvError(f"{MAX_ELEMENTS} is {most!r}; expected the largest number of elements of a Sequence, at least 1")
    if not isinstance(allow, bool | None):
        raise EnvError(f"{ALLOW_ALL} is {allow!r}; expected true or false")
    names = (out,) if isinstance(out, str) else out
    if not isinstance(names, list | tuple | None) or any(not isinstance(name, str | int) for name in names or ()):
        raise EnvError(f"{LEAVE_OUT} is {out!r}; expected a list of names of observations")
    return Conventions(most, allow, None if names is None else tuple(map(str, names)))
