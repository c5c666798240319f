"""`palaestra.train_seeds`: trains one setting with several seeds from Python."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from palaestra.core.display import print_now
from palaestra.core.errors import ConfigError, PalaestraError, RunError, exception_summary
from palaestra.runtime.control.os_signals import pass_on
from palaestra.runtime.run.learning import learn, train
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.run_settings import sectioned
from palaestra.runtime.seeds.seed_plan import Config, SeedPlan, SeedRun, parse_seeds, plan_seeds
from palaestra.runtime.seeds.seed_results import SeedResults
from palaestra.runtime.seeds.seed_summary import seed_comparison, seed_tables
from palaestra.runtime.seeds.side_by_side import run_all, threads_each

SETTLED = ("callbacks", "sets", "trust")
"""Keywords of `palaestra.train` that are no settings."""


def train_seeds(
    config: Config = None,
    *,
    seeds: int | str | Sequence[int] = 5,
    side_by_side: int = 1,
    env: Any = None,
    quiet: bool = False,
    **options: Any,
) -> SeedResults:
    """Trains as `palaestra.train` does, once for each seed, in the runs RUN_ID-seed-1 and so on; with `resume`, those
    that exist go on.

    `seeds` is a number of them, a list, or a text such as '3,7,9' or '11-15'. With `side_by_side` above 1 so many train
    at once, each in a process of its own: `config`, `env` and callbacks must then be picklable (functions of a module),
    a script needs `if __name__ == "__main__":`, and what the runs print goes to their logs only. Further keywords are
    those of `palaestra.train`. A seed that fails does not stop the others; RunError is raised if all fail. Signals act
    as in `palaestra.train`.
    """
    settings = {key: value for key, value in options.items() if key not in SETTLED}
    overrides = sectioned(settings)
    if isinstance(env, str):
        overrides.setdefault("env_settings", {})["env_path"] = env
    own_env = env is not None and not isinstance(env, str)
    if own_env and not callable(env):
        raise ConfigError(
            "env is an environment, which only one run can use: give its name, or a function that makes it"
        )
    sets = tuple(options.get("sets", ()))
    plan = plan_seeds(parse_seeds(seeds), config, overrides, sets, side_by_side=side_by_side, own_env=own_env)
    job = {
        "env": env,
        "callbacks": options.get("callbacks", ()),
        "trust": options.get("trust", False),
        "sets": sets,
        "settings": settings,
    }
    if plan.at_once > 1:
        results, errors = _beside(plan, job, quiet)
    else:
        results, errors = _one_by_one(plan, job, quiet)
    found = seed_comparison(plan)
    states = {run.seed: _state(run, results, errors) for run in plan.runs}
    summary = SeedResults(results, errors, found, tuple(seed_tables(plan, states, found)))
    if not quiet:
        print_now(f"\n{summary}")
    if not results:
        raise RunError("no seed was trained: " + "; ".join(f"seed {seed}: {why}" for seed, why in errors.items()))
    return summary


def _state(run: SeedRun, results: dict[int, Result], errors: dict[int, str]) -> str:
    if run.seed in errors:
        return f"failed: {errors[run.seed]}"
    result = results.get(run.seed)
    return "not started" if result is None else "" if result.finished or result.endings else "stopped"


def _arguments(run: SeedRun, job: dict[str, Any]) -> dict[str, Any]:
    settings = {
        **job["settings"],
        "run_id": run.folder.run_id,
        "results_dir": str(run.folder.results),
        "resume": run.resume,
    }
    return {
        "env": job["env"],
        "callbacks": job["callbacks"],
        "trust": job["trust"],
        "sets": (*job["sets"], *run.sets()),
        **settings,
    }


def _one_by_one(plan: SeedPlan, job: dict[str, Any], quiet: bool) -> tuple[dict[int, Result], dict[int, str]]:
    results = {}
    errors = {}
    for run in plan.runs:
        try:
            results[run.seed] = train(run.config, quiet=quiet, **_arguments(run, job))
        except PalaestraError as error:
            errors[run.seed] = str(error)
            if not run.folder.exists:  # the others would not begin either
                break
    return results, errors


class SpawnedSeed:
    """The process of one seed, which sends its result or its error back."""

    def __init__(self, run: SeedRun, job: dict[str, Any], threads: int, report: Callable[[int, Any], object]) -> None:
        context = multiprocessing.get_context("spawn")
        self._seed = run.seed
        self._report = report
        self._results, theirs = context.Pipe(duplex=False)
        arguments = {**_arguments(run, job), "config": run.config}
        self._process = context.Process(target=_train_one, args=(theirs, arguments, threads), name=f"seed {run.seed}")
        try:
            self._process.start()
        except (AttributeError, TypeError, ValueError, ImportError) as error:
            raise ConfigError(
                f"side_by_side: what trains cannot be given to another process: {exception_summary(error)}"
            ) from error
        except Exception as error:  # PicklingError has no other base class
            raise ConfigError(
                f"side_by_side: what trains cannot be given to another process: {exception_summary(error)}"
            ) from error
        theirs.close()

    def poll(self) -> int | None:
        """Returns its exit code; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Sends it a signal."""
        if self._process.pid is not None:
            os.kill(self._process.pid, number)

    def close(self) -> None:
        """Takes its result, and ends it if it still runs."""
        with suppress(EOFError, OSError):
            if self._results.poll():
                self._report(self._seed, self._results.recv())
        if self._process.exitcode is None:
            self._process.kill()
        self._process.join()
        self._results.close()
        self._process.close()


def _beside(plan: SeedPlan, job: dict[str, Any], quiet: bool) -> tuple[dict[int, Result], dict[int, str]]:
    results: dict[int, Result] = {}
    errors: dict[int, str] = {}

    def report(seed: int, what: Any) -> None:
        if isinstance(what, Result):
            results[seed] = what
        else:
            errors[seed] = str(what)

    def started(run: SeedRun) -> SpawnedSeed:
        if not quiet:
            print_now(f"Seed {run.seed}: {run.folder.path}")
        return SpawnedSeed(run, job, threads_each(plan.at_once), report)

    def ended(number: int, code: int, _: bool) -> bool:
        run = plan.runs[number]
        if code and run.seed not in errors:
            errors[run.seed] = f"its process ended with exit status {code}"
        return not code or run.folder.exists

    _, interrupt = run_all([lambda run=run: started(run) for run in plan.runs], plan.at_once, ended)
    if interrupt is not None:
        pass_on(interrupt)
    return {run.seed: results[run.seed] for run in plan.runs if run.seed in results}, errors


def _train_one(results: Connection, arguments: dict[str, Any], threads: int) -> None:
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
    env = arguments.pop("env")
    config = arguments.pop("config")
    rest = {key: arguments.pop(key) for key in SETTLED}
    overrides = sectioned(arguments)
    if isinstance(env, str):
        overrides.setdefault("env_settings", {})["env_path"] = env
    try:
        result: Any = learn(config, overrides, env=None if isinstance(env, str) else env, quiet=True, **rest)
    except (PalaestraError, KeyboardInterrupt) as error:
        result = str(error) or "interrupted"
    except (Exception, SystemExit) as error:  # a user's environment may raise anything
        result = exception_summary(error)
    results.send(result)
    results.close()
    if not isinstance(result, Result):
        raise SystemExit(1)
