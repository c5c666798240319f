"""The part of a tracker that all tracking services share: what a run tells it is sent by a thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any

from palaestra.runtime.logging.services.sender import Sender
from palaestra.runtime.logging.tracker import Outcome, Summary, TrackedRun


class ServiceTracker(ABC):
    """Tracker that hands everything to a thread, in which a subclass talks to its service. The first call opens the
    service's run.
    """

    def __init__(self, run: TrackedRun, service: str, unsent: str, *, models: bool) -> None:
        """`unsent` is said of the service at the end if it has not received everything in time; without `models` none
        are sent.
        """
        self._run = run
        self._unsent = unsent
        self._models = models
        self._sender = Sender(service)
        self._outcome: Outcome = "stopped"

    def write(self, summary: Summary) -> None:
        """Sends the numbers of one behavior, and its histograms if the service has them."""
        self._sender.send(partial(self._write, summary))

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Opens the run in the service, which receives the settings with it."""
        self._sender.send(self._open)

    def record_model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        """Sends an ONNX file, unless a later checkpoint has replaced it meanwhile."""
        if self._models:
            self._sender.send(partial(self._send_model, behavior, path, step, final))

    def record_end(self, outcome: Outcome, reason: str) -> None:
        """Tells the service how the run ended."""
        self._outcome = outcome
        self._sender.send(partial(self._end, outcome, reason))

    def close(self) -> None:
        """Ends the run there, and waits until everything is sent, for at most a minute."""
        self._sender.send(self._finish)
        if not self._sender.finish():
            self._run.info(self._unsent)

    def _send_model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        if path.is_file():
            self._model(behavior, path, step, final)

    @abstractmethod
    def _open(self) -> Any:
        """Opens the service's run unless it is open, and returns it."""

    @abstractmethod
    def _write(self, summary: Summary) -> None:
        """Sends a summary."""

    @abstractmethod
    def _model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        """Sends an ONNX file."""

    @abstractmethod
    def _end(self, outcome: Outcome, reason: str) -> None:
        """Notes how the run ended, if it was opened."""

    @abstractmethod
    def _finish(self) -> None:
        """Sends the recordings and ends the run, if it was opened."""


def artifact_name(run_id: str, behavior: str) -> str:
    """Returns `<run>-<Behavior>` with dashes for what the names of artifacts may not have."""
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-"
        for letter in f"{run_id}-{behavior}"
    )[:128]
