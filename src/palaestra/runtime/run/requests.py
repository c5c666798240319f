"""Carries out requests that come while a run learns (`control/run_requests.py`), and tells of its progress."""

from __future__ import annotations

import math
import time
from typing import Any

from palaestra.core.plugins import nearest
from palaestra.runtime.control.progress_file import ConsoleLog, ProgressFile
from palaestra.runtime.control.run_requests import RequestBox, RunRequest
from palaestra.runtime.logging.bottleneck import OTHER, bottleneck, mean_of
from palaestra.runtime.parts.part import Refused, RunPart
from palaestra.runtime.run.training_run import Run

HYPERPARAMETERS = {"learning_rate": 0.1, "beta": 1.0, "epsilon": 1.0}
"""Hyperparameters that follow a schedule, and may be given a constant value instead: at most this, as 3e4 for 3e-4
ruins a network.
"""


class Requests(RunPart):
    """Asks the parts of a run to carry out what a person or a program has asked for."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._box = None if run.inference else run.group.first(lambda: RequestBox(run.folder.path, run.console.warning))

    def round_ended(self) -> None:
        """Carries out the requests that have come. Rank 0 reads them, and all ranks carry them out."""
        run = self._run
        for request in run.group.from_first([] if self._box is None else self._box.take()):
            done = True
            try:
                told = self._carry_out(request)
            except Refused as refusal:
                told = str(refusal)
                done = False
            if self._box is not None:
                self._box.tell(request, told, run.step, done=done)
            (run.console.info if done else run.console.warning)(f"Request of {request.who}: {told}")

    def _carry_out(self, request: RunRequest) -> str:
        for part in self._run.parts:
            told = part.asked(request)
            if told is not None:
                return told
        raise Refused(f"no part of this run takes the request '{request.kind}'")

    def asked(self, request: RunRequest) -> str | None:
        """Stops the run, or gives a hyperparameter a constant value."""
        if request.kind == "stop":
            self._run.stop()
            return "the run saves and stops"
        return self._change(request) if request.kind == "hyperparameter" else None

    def _change(self, request: RunRequest) -> str:
        """Gives a hyperparameter a constant value, from the next update on."""
        if request.name not in HYPERPARAMETERS:
            raise Refused(f"'{request.name}' cannot be changed while a run learns; {', '.join(HYPERPARAMETERS)} can")
        learners = self._run.learners
        told = []
        for name in [request.behavior] if request.behavior else list(learners):
            if name not in learners:
                known = ", ".join(learners) or "none yet"
                raise Refused(f"there is no behavior '{name}'{nearest(name, learners)} (there are: {known})")
            learner = learners[name]
            before = learner.current(request.name)
            if before is None:
                raise Refused(f"behavior '{name}': trainer {learner.settings.trainer_type} has no {request.name}")
            may_be_0 = request.name == "beta"
            most = HYPERPARAMETERS[request.name]
            if not 0 <= request.value <= most or (request.value == 0 and not may_be_0):
                raise Refused(
                    f"{request.name} {request.value:g}: expected a positive number{' or 0' if may_be_0 else ''}, at "
                    f"most {most:g}"
                )
            learner.change({**learner.changes, request.name: float(request.value)})
            told.append(f"{name}: {request.name} {before:.3g} -> {request.value:.3g}, constant from the next update on")
        return "; ".join(told)


class ProgressReport(RunPart):
    """Writes `progress.json`, once a second."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._file = None if run.inference else run.group.first(lambda: ProgressFile(run.folder.path, time.time()))

    def started(self) -> None:
        """Tells that the run has begun; a finished one stays as it is."""
        if not self._run.finished:
            self.paused()

    def paused(self) -> None:
        """Tells how far the run is."""
        if self._file is not None and self._file.due():
            self._write("learning", "")

    def tell_end(self, state: str, message: str) -> None:
        """Tells how the run has ended, if it had begun."""
        if self._file is not None and self._file.begun:
            self._write(state, message)

    def _write(self, state: str, message: str) -> None:
        run = self._run
        assert self._file is not None
        if not self._file.begun:
            run.console.attach(ConsoleLog(run.folder.path).heard)
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
        uses = run.meetings.newest_times()
        mean = mean_of(uses)
        more: dict[str, Any] = {}
        for part in run.parts:
            more |= part.progress()
        self._file.write(
            state,
            behaviors,
            message,
            shares={part: mean.share(part) for part in (*mean.parts, OTHER)},
            bottleneck=bottleneck(uses, run.setup()),
            elapsed=run.clock.elapsed,
            **more,
        )
