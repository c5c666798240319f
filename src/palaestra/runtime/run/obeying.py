"""Carries out requests that come while a run learns (`runtime/control`), and tells of its progress."""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any

import torch

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.parallel import ranks
from palaestra.runtime.control.progress_file import ConsoleLog
from palaestra.runtime.control.run_requests import RunRequest
from palaestra.runtime.logging.bottleneck import OTHER, bottleneck, mean_of
from palaestra.runtime.run.training_run import Run

HYPERPARAMETERS = {"learning_rate": 0.1, "beta": 1.0, "epsilon": 1.0}
"""Hyperparameters that follow a schedule, and may be given a constant value instead: at most this, as 3e4 for 3e-4
ruins a network.
"""


class Refused(Exception):
    """A request that cannot be carried out; the text says why."""


def obey(run: Run) -> None:
    """Carries out the requests that have come. With several ranks, all call it at the same moment, and rank 0 has read
    them.
    """
    requests = run.requests.take() if run.requests is not None else []
    for request in ranks.from_first(requests) if ranks.size() > 1 else requests:
        try:
            told = carry_out(run, request)
        except Refused as refusal:
            told = str(refusal)
            done = False
        else:
            done = True
        if run.requests is not None:
            run.requests.tell(request, told, run.step, done=done)
        (run.console.info if done else run.console.warning)(f"Request of {request.who}: {told}")


def carry_out(run: Run, request: RunRequest) -> str:
    """Carries out one request; returns what was done. Raises Refused."""
    match request.kind:
        case "stop":
            run.stop()
            return "the run saves and stops"
        case "save":
            if run.inference:
                raise Refused("the run only plays, and has nothing to save")
            run.save_due = True
            run.save_due_at = perf_counter()
            return "a checkpoint is saved"
        case "hyperparameter":
            return change_hyperparameter(run, request)
        case "parameter":
            return change_parameter(run, request)
        case "lesson":
            return change_lesson(run, request)


def change_hyperparameter(run: Run, request: RunRequest) -> str:
    """Gives a hyperparameter a constant value, from the next update on."""
    if request.name not in HYPERPARAMETERS:
        raise Refused(f"'{request.name}' cannot be changed while a run learns; {', '.join(HYPERPARAMETERS)} can")
    names = [request.behavior] if request.behavior else list(run.learners)
    told = []
    for name in names:
        if name not in run.learners:
            raise Refused(
                f"there is no behavior '{name}'{nearest(name, run.learners)} (there are: "
                f"{', '.join(run.learners) or 'none yet'})"
            )
        learner = run.learners[name]
        before = learner.current(request.name)
        if before is None:
            raise Refused(f"behavior '{name}': trainer {learner.settings.trainer_type} has no {request.name}")
        may_be_0 = request.name == "beta"
        most = HYPERPARAMETERS[request.name]
        if not 0 <= request.value <= most or (request.value == 0 and not may_be_0):
            raise Refused(
                f"{request.name} {request.value:g}: expected a positive number{' or 0' if may_be_0 else ''}, at most "
                f"{most:g}"
            )
        learner.change({**learner.changes, request.name: float(request.value)})
        told.append(f"{name}: {request.name} {before:.3g} -> {request.value:.3g}, constant from the next update on")
    return "; ".join(told)


def change_parameter(run: Run, request: RunRequest) -> str:
    """Gives a parameter of the environment a constant value, from each area's next episode on."""
    env = run.env
    if env.parameters and request.name not in env.parameters:
        raise Refused(f"the environment has no parameter '{request.name}'{nearest(request.name, env.parameters)}")
    try:
        env.set_parameters({request.name: torch.full((env.num_areas,), float(request.value))})
    except EnvError as error:
        raise Refused(str(error)) from error
    run.lessons.parameters.fix(request.name, float(request.value))
    return f"parameter {request.name} = {request.value:g}, from each area's next episode on"


def change_lesson(run: Run, request: RunRequest) -> str:
    """Moves a curriculum to a lesson."""
    found = run.lessons.curricula.all.get(request.name)
    if found is None:
        known = ", ".join(run.lessons.curricula.all) or "none"
        raise Refused(
            f"there is no curriculum for '{request.name}'{nearest(request.name, run.lessons.curricula.all)} (there "
            f"are: {known})"
        )
    if request.value not in range(len(found.lessons)):
        raise Refused(f"{request.name} has lessons 0 to {len(found.lessons) - 1}, not {request.value:g}")
    number = int(request.value)
    before = found.lesson.name
    found.number = number
    run.lessons.parameters.change(request.name, number)
    return f"{request.name}: lesson '{before}' -> '{found.lesson.name}'"


def tell_progress(run: Run, state: str = "learning", message: str = "") -> None:
    """Writes `progress.json`, once a second or, with another state than learning, at once."""
    if run.progress is None or (not run.progress.due() if state == "learning" else not run.progress.begun):
        return
    if not run.progress.begun:
        run.console.attach(ConsoleLog(run.folder.path).heard)
    elo = {name: behavior.elo for name, behavior in run.self_play.behaviors.items()}
    behaviors: dict[str, dict[str, Any]] = {}
    for name, learner in run.learners.items():
        reward = run.statistics.reward(name)
        behaviors[name] = {
            "step": learner.step,
            "max_steps": None if run.inference else learner.settings.max_steps,
            "reward": reward if reward is not None and math.isfinite(reward) else None,
            "elo": elo.get(name),
            "trainer": learner.settings.trainer_type,
            "changes": learner.changes,
        }
    uses = (run.rounds.times if ranks.size() > 1 else None) or [run.time_use()]
    mean = mean_of(uses)
    run.progress.write(
        state,
        behaviors,
        message,
        lessons=run.lessons.numbers,
        fixed=run.lessons.parameters.fixed,
        shares={part: mean.share(part) for part in (*mean.parts, OTHER)},
        bottleneck=bottleneck(uses, run.setup()),
        elapsed=run.clock.elapsed,
    )
