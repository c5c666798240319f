"""Keeps the status of every run of a results folder, and reads again only what has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.monitor.bounded_reading import ResultsFiles, Signature, signature
from palaestra.runtime.monitor.curve_cache import CurveCache
from palaestra.runtime.monitor.event_reader import event_files
from palaestra.runtime.monitor.run_list import find_runs
from palaestra.runtime.monitor.run_status import (
    LIVE,
    PROGRESS,
    STATUS,
    TIMERS,
    RunStatus,
    lives,
    read_settings,
    read_status,
    writer_of,
)
from palaestra.runtime.showing.run_notes import NOTES, RunNotes
from palaestra.runtime.storage.run_folder import CONFIGURATION
from palaestra.runtime.storage.writer_lock import WRITER

FRESHNESS = 0.7
"""Seconds for which a status counts as new, so that many open pages do not read the files more often."""
WATCHED = (METRICS, PROGRESS, STATUS, WRITER, TIMERS)
"""Files whose change means a new status."""
SETTINGS_KEPT = 1000
"""Runs whose settings are kept in memory."""


@dataclass(frozen=True, slots=True)
class _KnownRun:
    signature: object
    status: RunStatus


class RunIndex:
    """All runs of one folder. Any thread may use it: the pages of all browsers share one index."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.files = ResultsFiles(results)
        self.curves = CurveCache(self.files)
        self._known: dict[str, _KnownRun] = {}
        self._settings: dict[str, tuple[Signature | None, Mapping[str, Any]]] = {}
        self._notes: dict[str, tuple[Signature, RunNotes]] = {}
        self._lock = threading.Lock()
        self._looked = 0.0

    def statuses(self) -> list[RunStatus]:
        """Returns the status of every run, learning runs first, then the newest. Reads files: call it from a thread."""
        with self._lock:
            if time.monotonic() - self._looked >= FRESHNESS:
                self._refresh()
                self._looked = time.monotonic()
            found = [known.status for known in self._known.values()]
        return sorted(found, key=lambda one: (one.state != "learning", -(one.started or one.changed), one.run_id))

    def status(self, run_id: str) -> RunStatus | None:
        """Returns the status of a run of the folder; None for any other id."""
        self.statuses()
        known = self._known.get(run_id)
        return None if known is None else known.status

    def settings(self, run_id: str) -> Mapping[str, Any]:
        """Returns the settings of a run of the folder."""
        if run_id not in self._known:
            return {}
        run = self.results / run_id
        sign = signature(run / CONFIGURATION)
        before = self._settings.get(run_id)
        if before is None or before[0] != sign:
            before = self._settings[run_id] = (sign, read_settings(self.files, run))
            while len(self._settings) > SETTINGS_KEPT:
                self._settings.pop(next(iter(self._settings)))
        return before[1]

    def notes(self, run_id: str) -> RunNotes:
        """Returns the notes that people wrote about a run of the folder."""
        file = self.results / run_id / NOTES
        sign = signature(file) if run_id in self._known else None
        if sign is None:
            return RunNotes()
        before = self._notes.get(run_id)
        if before is None or before[0] != sign:
            before = self._notes[run_id] = (sign, RunNotes.of(self.files.json(file)))
        return before[1]

    def _refresh(self) -> None:
        ids = find_runs(self.results)
        for gone in self._known.keys() - set(ids):
            del self._known[gone]
            self._settings.pop(gone, None)
            self._notes.pop(gone, None)
        for run_id in ids:
            before = self._known.get(run_id)
            now = self._signature(run_id)
            if before is not None and before.signature == now:
                continue
            if before is None:  # known from here on, for `settings`
                self._known[run_id] = _KnownRun(None, RunStatus(run_id, "recorded"))
            self._known[run_id] = _KnownRun(now, read_status(self.files, run_id, self.settings(run_id)))

    def _signature(self, run_id: str) -> object:
        """Returns a fingerprint that changes with the status of a run."""
        run = self.results / run_id
        signs = tuple(signature(f"{run}/{name}") for name in WATCHED)
        settings = signature(f"{run}/{CONFIGURATION}")
        metrics, progress, _, writer, _ = signs
        if writer is not None:
            holder = writer_of(self.files, run)
            return settings, signs, holder is not None and lives(run, holder)
        if metrics is None and progress is None:
            events = event_files(self.files, run)
            newest = max((sign[0] for sign in events.values()), default=0) / 1e9
            return settings, signs, tuple(events.values()), time.time() - newest < LIVE
        return settings, signs
