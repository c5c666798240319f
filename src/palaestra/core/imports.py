"""Imports large libraries without looking for garbage among what they make."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Looks for no garbage within the block, and later not among what was made until its end.

    For imports in a process of ours: PyTorch and what needs it are imported a quarter sooner, and a later collection would visit all of
    PyTorch, a tenth of a second in the middle of an update.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
