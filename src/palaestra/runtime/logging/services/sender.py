"""A thread that does the slow work of a tracking service, so that training never waits for a network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

MOST_WAITING = 10_000
"""Most calls that wait for a service; more calls are dropped, so that a service that never answers does not fill the
memory."""

PATIENCE = 60.0
"""Seconds that the end of a run waits until a service has taken the remaining calls."""


class Sender:
    """Calls functions one after another in a daemon thread, which the first call starts.

    An exception in that thread is raised by the next `send` or by `finish`, each exception once.
    """

    def __init__(self, service: str) -> None:
        """`service` names the thread."""
        self._service = service
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._failed: SimpleQueue[Exception] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def send(self, work: Callable[[], object]) -> None:
        """Queues a call, then raises the exception of an earlier call."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"palaestra-{self._service}", daemon=True)
            self._thread.start()
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put(work)
        self._raise_first()

    def finish(self, patience: float = PATIENCE) -> bool:
        """Waits `patience` seconds at most. Returns whether all calls are done; raises their exceptions."""
        if self._thread is None:
            return True
        self._waiting.put(None)
        self._thread.join(patience)
        done = not self._thread.is_alive()
        self._raise_first()
        return done

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            try:
                work()
            except Exception as error:  # a service may raise anything
                self._failed.put(error)

    def _raise_first(self) -> None:
        try:
            error = self._failed.get_nowait()
        except Empty:
            return
        raise error
