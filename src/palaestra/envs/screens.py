"""Lets environments that draw with pygame do so on a machine without a screen."""

from __future__ import annotations

import os
import sys


def draw_in_memory() -> None:
    """Makes pygame draw into memory if there is no screen, and play no sounds, so that it prints no errors."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
