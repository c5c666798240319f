"""Functions of the program that trains, which are given every summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.parts.part import Part

Callback = Callable[[Summary], object]
"""Called with every summary; a callback that returns True ends the run, saved."""


class Callbacks(Part):
    """Calls them on rank 0: what stops it stops all ranks."""

    def __init__(self, callbacks: Sequence[Callback], stop: Callable[[], object]) -> None:
        self._callbacks = callbacks
        self._stop = stop

    @property
    def idle(self) -> bool:
        """Whether there are none."""
        return not self._callbacks

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Calls every one, until one returns True."""
        if any(callback(summary) is True for callback in self._callbacks):
            self._stop()
