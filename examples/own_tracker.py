"""A tracker of one's own: keeps the best mean reward of each behavior in a JSON file.

palaestra learn examples/own_tracker.yaml --run-id=tracked
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from palaestra.runtime.logging.tracker import Summary, TrackedRun


class BestReward:
    """Writes `<run>/<file>` each time the mean reward of a summary is the best so far."""

    def __init__(self, run: TrackedRun, file: str = "best.json") -> None:
        """`file` is the option that the settings give."""
        self._path: Path = run.folder / file
        self._best: dict[str, dict[str, float]] = {}
        if run.resumed and self._path.exists():
            self._best = json.loads(self._path.read_text())

    def write(self, summary: Summary) -> None:
        """Called with the metrics of one behavior, every summary_freq steps."""
        if math.isnan(summary.mean):  # no episode ended
            return
        best = self._best.get(summary.behavior)
        if best is None or summary.mean > best["reward"]:
            self._best[summary.behavior] = {"reward": summary.mean, "step": summary.step}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._best, indent=2))

    def text(self, behavior: str, tag: str, body: str) -> None:
        """Called with the hyperparameters of each behavior, as text."""

    def close(self) -> None:
        """Called once, at the end of the run."""
