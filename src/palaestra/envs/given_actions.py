"""Errors for actions that are given for the wrong behaviors."""

from __future__ import annotations

from collections.abc import Iterable

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest


def unknown(actions: Iterable[str], behaviors: Iterable[str]) -> EnvError:
    """Returns the error for actions of a behavior that does not exist."""
    name = next(name for name in actions if name not in behaviors)
    known = list(behaviors)
    return EnvError(f"actions for '{name}', which is no behavior{nearest(name, known)} (there are: {', '.join(known)})")


def lacking(behavior: str, actions: Iterable[str]) -> EnvError:
    """Returns the error for a behavior whose agents act but which got no actions."""
    return EnvError(f"no actions for behavior '{behavior}' (there are some for: {', '.join(actions) or 'none'})")
