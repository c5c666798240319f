"""Trains one setting with several seeds from Python, one after another or side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from palaestra.core.display import in_notebook, print_now
from palaestra.core.errors import PalaestraError, RunError, exception_summary
from palaestra.core.wording.voice import voiced
from palaestra.parallel.by_value import packed, unpacked
from palaestra.runtime.control.os_signals import pass_on
from palaestra.runtime.run.learning import learn
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.run_settings import TrainingRequest
from palaestra.runtime.seeds.seed_plan import SeedPlan, SeedRun
from palaestra.runtime.seeds.seed_results import SeedResults
from palaestra.runtime.seeds.seed_summary import seed_comparison, seed_ending, seed_tables
from palaestra.runtime.seeds.side_by_side import run_all, threads_each

Train = Callable[[TrainingRequest], Result]


def train_all(plan: SeedPlan, request: TrainingRequest, train: Train) -> SeedResults:
    """Trains a request with every seed of a plan: in this process with `train`, or side by side. Raises RunError if all
    fail."""
    try:
        results, errors = _beside(plan, request) if plan.at_once > 1 else _one_by_one(plan, request, train)
    except KeyboardInterrupt:
        if not request.quiet:
            print_now("\n".join(seed_ending(plan, {0: "stopped"})))
        raise
    found = seed_comparison(plan)
    states = {run.seed: _state(run, results, errors) for run in plan.runs}
    summary = SeedResults(results, errors, found, tuple(seed_tables(plan, states, found)))
    there = any(run.folder.exists for run in plan.runs)
    if there and not request.quiet and not in_notebook():  # where the results show themselves
        print_now(f"\n{summary}")
        print_now("\n".join(["", *seed_ending(plan, states)]))
    if not results:
        raise RunError("no seed was trained: " + "; ".join(f"seed {seed}: {why}" for seed, why in errors.items()))
    return summary


def _state(run: SeedRun, results: dict[int, Result], errors: dict[int, str]) -> str:
    if run.seed in errors:
        return f"failed: {errors[run.seed]}"
    result = results.get(run.seed)
    return "not started" if result is None else "" if result.finished or result.endings else "stopped"


def of_seed(run: SeedRun, request: TrainingRequest) -> TrainingRequest:
    """Returns the request of one seed's run."""
    place = {"run_id": run.folder.run_id, "results_dir": str(run.folder.results), "resume": run.resume}
    overrides = dict(request.overrides)
    overrides["checkpoint_settings"] = {**overrides.get("checkpoint_settings", {}), **place}
    sets = (*request.sets, *run.sets())
    return replace(request, config=run.config, overrides=overrides, sets=sets, one_of_several=True)


def _one_by_one(plan: SeedPlan, request: TrainingRequest, train: Train) -> tuple[dict[int, Result], dict[int, str]]:
    results = {}
    errors = {}
    for run in plan.runs:
        try:
            results[run.seed] = train(of_seed(run, request))
        except PalaestraError as error:
            errors[run.seed] = voiced(str(error))
            if not run.folder.exists:  # the others would not begin either
                break
    return results, errors


@contextmanager
def without_main(*, unless: bool) -> Iterator[None]:
    """Lets processes start that do not import the program's script, which would begin the training again. `unless`: the
    program's script needs no such guard, since its classes are found by their names."""
    main = sys.modules["__main__"]
    try:
        sys.modules["__main__"] = main if unless else ModuleType("__main__")
        yield
    finally:
        sys.modules["__main__"] = main


class SpawnedSeed:
    """The process of one seed, which sends its result or its error back."""

    def __init__(
        self, run: SeedRun, request: TrainingRequest, threads: int, report: Callable[[int, Any], object]
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._seed = run.seed
        self._report = report
        self._results, theirs = context.Pipe(duplex=False)
        own = packed(of_seed(run, request), "side_by_side: what trains")
        self._process = context.Process(target=_train_one, args=(theirs, own, threads), name=f"seed {run.seed}")
        with without_main(unless="__main__:" in f"{run.config} {request.overrides} {request.sets}"):
            self._process.start()
        theirs.close()

    def poll(self) -> int | None:
        """Returns the process's exit code; None while it is running."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Sends it a signal."""
        if self._process.pid is not None:
            os.kill(self._process.pid, number)

    def close(self) -> None:
        """Reads the process's result, and ends the process if it is still running."""
        with suppress(EOFError, OSError):
            if self._results.poll():
                self._report(self._seed, self._results.recv())
        if self._process.exitcode is None:
            self._process.kill()
        self._process.join()
        self._results.close()
        self._process.close()


def _beside(plan: SeedPlan, request: TrainingRequest) -> tuple[dict[int, Result], dict[int, str]]:
    results: dict[int, Result] = {}
    errors: dict[int, str] = {}

    def report(seed: int, what: Any) -> None:
        if isinstance(what, Result):
            results[seed] = replace(what, env=request.env)
        else:
            errors[seed] = voiced(str(what))

    def started(run: SeedRun) -> SpawnedSeed:
        if not request.quiet:
            print_now(f"Seed {run.seed}: {run.folder.path}")
        return SpawnedSeed(run, request, threads_each(plan.at_once), report)

    def ended(number: int, code: int, _: bool) -> bool:
        run = plan.runs[number]
        if code and run.seed not in errors:
            errors[run.seed] = f"its process ended with exit status {code}"
        return not code or run.folder.exists

    _, interrupt = run_all([lambda run=run: started(run) for run in plan.runs], plan.at_once, ended)
    if interrupt is not None:
        pass_on(interrupt)
    return {run.seed: results[run.seed] for run in plan.runs if run.seed in results}, errors


def _train_one(results: Connection, data: bytes, threads: int) -> None:
    """Trains in a process that the terminal's signals do not reach, and that stops, saved, when its parent ends."""
    if hasattr(os, "setsid"):
        os.setsid()
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    try:
        result: Any = replace(learn(replace(unpacked(data), quiet=True)), env=None)  # which the other side has
    except (PalaestraError, KeyboardInterrupt) as error:
        result = str(error) or "interrupted"
    except (Exception, SystemExit) as error:  # a user's environment may raise anything
        result = exception_summary(error)
    results.send(result)
    results.close()
    if not isinstance(result, Result):
        raise SystemExit(1)
