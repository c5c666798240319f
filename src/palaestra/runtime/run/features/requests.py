"""Carries out requests that arrive while a run learns (`control/run_requests.py`)."""

from __future__ import annotations

from palaestra.core.plugins import nearest
from palaestra.runtime.control.run_requests import RequestBox, RunRequest
from palaestra.runtime.parts.part import Refused, RunPart
from palaestra.runtime.run.rate_jumps import current_value
from palaestra.runtime.run.training_run import Run

HYPERPARAMETERS = {"learning_rate": 0.1, "beta": 1.0, "epsilon": 1.0}
"""Hyperparameters that follow a schedule and can be set to a constant, and the largest value of each: 3e4 in place of
3e-4 would ruin a network."""


class Requests(RunPart):
    """Passes requests of a person or a program to the parts of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._box = None if run.inference else run.group.first(lambda: RequestBox(run.folder.path, run.console.warning))

    def round_ended(self) -> None:
        """Carries out the requests that have arrived. Rank 0 reads them, and all ranks carry them out."""
        run = self._run
        for request in run.group.from_first([] if self._box is None else self._box.take()):
            try:
                outcome = self._carry_out(request)
                done = True
            except Refused as refusal:
                outcome = str(refusal)
                done = False
            if self._box is not None:
                self._box.answer(request, outcome, run.step, done=done)
            (run.console.info if done else run.console.warning)(f"Request of {request.who}: {outcome}")

    def _carry_out(self, request: RunRequest) -> str:
        for part in self._run.parts:
            outcome = part.asked(request)
            if outcome is not None:
                return outcome
        raise Refused(f"no part of this run takes the request '{request.kind}'")

    def asked(self, request: RunRequest) -> str | None:
        """Stops the run, or gives a hyperparameter a constant value."""
        if request.kind == "stop":
            self._run.stop()
            return "the run saves and stops"
        return self._change(request) if request.kind == "hyperparameter" else None

    def _change(self, request: RunRequest) -> str:
        if request.name not in HYPERPARAMETERS:
            raise Refused(f"'{request.name}' cannot be changed while a run learns; {', '.join(HYPERPARAMETERS)} can")
        learners = self._run.learners
        changes = []
        for name in [request.behavior] if request.behavior else list(learners):
            if name not in learners:
                known = ", ".join(learners) or "none yet"
                raise Refused(f"there is no behavior '{name}'{nearest(name, learners)} (there are: {known})")
            learner = learners[name]
            before = current_value(learner, request.name)
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
            then = f"{before:.3g} -> {request.value:.3g}"
            changes.append(f"{name}: {request.name} {then}, constant from the next update on")
        return "; ".join(changes)
