"""The C library's way with memory, told to keep what it will need again."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt, from malloc.h
KEPT = 1 << 30
"""Bytes that one piece may have, and bytes that may lie free, before they go back to the system."""
OLD_LIMIT = 1 << 25
"""The largest piece that glibc before 2.35 lets be set. Told of none, it would from then on ask the system for each from 128 KiB on."""


def keep_freed_memory() -> None:
    """Has glibc keep what large tensors leave behind, for the next ones. No other C library is touched.

    Every gradient step makes tensors of the same sizes anew. Given back to the system and taken again, each of their
    pages is cleared first: measured, a tenth to a third of an update of images or memory.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):  # a C library without mallopt
        library = ctypes.CDLL(None)
        if not library.mallopt(_MMAP_THRESHOLD, KEPT):
            library.mallopt(_MMAP_THRESHOLD, OLD_LIMIT)
        library.mallopt(_TRIM_THRESHOLD, KEPT)
