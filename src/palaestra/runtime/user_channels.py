"""Side channels of the user's own: `module:Class` to an instance."""

from __future__ import annotations

from collections.abc import Iterable

from palaestra.core.errors import EnvError, PalaestraError, raised
from palaestra.core.own_code import import_own
from palaestra.core.registry import nearest
from palaestra.envs.unity.side_channels import SideChannel


def own_channels(names: Iterable[str]) -> list[SideChannel]:
    """An instance of each class, imported as `python:` environments are. Raises EnvError with what to do."""
    return [_own_channel(name) for name in names]


def _own_channel(name: str) -> SideChannel:
    title = f"side channel '{name}'"
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise EnvError(f"{title} is not complete; expected module:Class, such as my_channels:Scores")
    module = import_own(module_name, title)
    make = getattr(module, attribute, None)
    if make is None:
        raise EnvError(f"{title}: module '{module_name}' ({module.__file__}) has no '{attribute}'{nearest(attribute, vars(module))}")
    if not callable(make):
        raise EnvError(f"{title}: '{attribute}' is an instance of {type(make).__name__}; expected a subclass of SideChannel")
    try:
        channel = make()
    except PalaestraError:
        raise
    except Exception as error:  # whatever a user's constructor does
        raise EnvError(f"{title} could not be made, without arguments: {raised(error)}") from error
    if not isinstance(channel, SideChannel):
        raise EnvError(
            f"{title} gave an instance of {type(channel).__name__}; expected a subclass of palaestra.envs.unity.side_channels.SideChannel"
        )
    return channel
