"""Names the user, and finds folders for them, also where the system knows neither a name nor a home folder."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Returns the user's name; their number where the system has no name for it, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "user"
