"""Names the user, and finds their home folder, also where the system knows neither, as in containers with a foreign user id."""

from __future__ import annotations

import getpass
import os
from pathlib import Path


def user_name() -> str:
    """Returns the user's name; their number where the system has no name for it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "user"


def home() -> Path | None:
    """Returns the user's home folder; None if there is none."""
    folder = os.path.expanduser("~")
    return Path(folder) if os.path.isabs(folder) else None


def expanded(path: Path) -> Path:
    """Returns a path whose leading `~` is the home folder; unchanged where there is none."""
    return Path(os.path.expanduser(path))
