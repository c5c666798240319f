"""The trackers of a run; a tracker that fails does not stop the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from palaestra.core.errors import PalaestraError, exception_summary
from palaestra.core.metrics import Aggregation
from palaestra.parallel.closing import close_safely
from palaestra.runtime.logging.tracker import Outcome, SeesEnd, SeesModels, SeesValues, Tracker

PATIENCE = 90.0
"""Seconds that a tracker has to close: services wait a minute for the remaining data to be sent."""


class TrackerSet:
    """Sends a run's measurements to its trackers."""

    def __init__(self, trackers: Mapping[str, Tracker], warn: Callable[[str], object]) -> None:
        """`trackers`, by name. `warn` is called once for each tracker that fails."""
        self._trackers = dict(trackers)
        self._warn = warn
        self.watching = {name: tracker for name, tracker in trackers.items() if isinstance(tracker, SeesValues)}
        """Trackers that receive each value immediately."""
        self._failed: set[str] = set()

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Sends a note to every tracker."""
        self.each(lambda tracker: tracker.text(behavior, tag, body), f"the {tag.lower()} of '{behavior}'")

    def model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        """Passes a model that was written to the trackers that record models."""
        for name, tracker in self._trackers.items():
            if isinstance(tracker, SeesModels):
                self._attempt(
                    name, partial(tracker.record_model, behavior, path, step, final), f"the model {path.name}"
                )

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Tells the trackers that record the end how the run ended."""
        for name, tracker in self._trackers.items():
            if isinstance(tracker, SeesEnd):
                self._attempt(name, partial(tracker.record_end, outcome, reason), "how the run ended")

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        """Tells these trackers about the error or the Ctrl-C that ends the block."""
        try:
            yield
        except BaseException as error:
            reason = str(error) if isinstance(error, PalaestraError) else exception_summary(error)
            self.end("failed" if isinstance(error, Exception) else "stopped", reason)
            raise

    def close(self) -> None:
        """Closes every tracker."""
        for name, tracker in self._trackers.items():
            close_safely(
                partial(self._attempt, name, tracker.close, "the end of the run"),
                f"the tracker '{name}'",
                self._warn,
                patience=PATIENCE,
            )

    def values(self, behavior: str, tag: str, numbers: Sequence[float], aggregation: Aggregation) -> None:
        """Sends values to the trackers that record each value at once."""
        for name, tracker in self.watching.items():
            self._attempt(
                name, partial(tracker.record_values, behavior, tag, numbers, aggregation), f"a value of {tag!r}"
            )

    def each(self, send: Callable[[Tracker], object], what: str) -> None:
        """Sends something to every tracker."""
        for name, tracker in self._trackers.items():
            self._attempt(name, partial(send, tracker), what)

    def _attempt(self, name: str, send: Callable[[], object], what: str) -> None:
        """Sends a value to a tracker; a tracker that fails is reported once and tried again the next time."""
        try:
            send()
        except Exception as error:
            if name not in self._failed:
                self._failed.add(name)
                reason = str(error) if isinstance(error, PalaestraError) else exception_summary(error)
                self._warn(
                    f"the tracker '{name}' could not record {what}: {reason}; training continues without it, and "
                    "further failures of this tracker are not reported"
                )
