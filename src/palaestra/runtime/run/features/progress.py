"""Writes `progress.json` for pages, scripts and other people."""

from __future__ import annotations

import math
import time
from typing import Any

from palaestra.runtime.control.progress_file import PROGRAM, ConsoleLog, ProgressFile
from palaestra.runtime.logging.bottleneck import OTHER, bottleneck, mean_of
from palaestra.runtime.parts.part import RunPart
from palaestra.runtime.run.training_run import Run, setup_of


class ProgressReport(RunPart):
    """Writes `progress.json`, once a second."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._file = None if run.inference else run.group.first(lambda: ProgressFile(run.folder.path, time.time()))

    def started(self) -> None:
        """Writes that the run has begun; the file of a finished run is not changed."""
        if not self._run.finished:
            self.paused()

    def paused(self) -> None:
        """Writes the progress of the run."""
        if self._file is not None and self._file.due():
            self._write(self._file, "learning", "")

    def end(self, state: str, message: str) -> None:
        """Writes how the run has ended, if it had begun."""
        if self._file is not None and self._file.begun:
            self._write(self._file, state, message)
            if state == "failed":
                ConsoleLog(self._run.folder.path).add("ERROR", message)

    def _write(self, file: ProgressFile, state: str, message: str) -> None:
        run = self._run
        if not file.begun:
            run.console.attach(ConsoleLog(run.folder.path).add)
        behaviors: dict[str, dict[str, Any]] = {}
        for name, learner in run.learners.items():
            reward = run.statistics.reward(name)
            behaviors[name] = {
                "step": learner.step,
                "max_steps": learner.settings.max_steps,
                "reward": reward if reward is not None and math.isfinite(reward) else None,
                "elo": learner.rating,
                "trainer": learner.settings.trainer_type,
                "changes": learner.changes,
            }
        # at the end those that the console names, too: without what drawing the curves takes
        uses = (state != "learning" and run.meetings.times) or run.meetings.newest_times()
        mean = mean_of(uses)
        file.write(
            state,
            behaviors,
            message,
            shares={part: mean.share(part) for part in (*mean.parts, OTHER)},
            bottleneck=bottleneck(uses, setup_of(run)),
            elapsed=run.clock.elapsed,
            **({"environment": PROGRAM} if run.kind == "own" else {}),
            **{key: value for part in run.parts for key, value in part.progress().items()},
        )
