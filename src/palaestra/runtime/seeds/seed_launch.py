"""Starts `palaestra learn` once for each seed, with the same command line."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from palaestra.core.display import escaped, print_now
from palaestra.core.plugins import own_python
from palaestra.runtime.control.os_signals import LAUNCHED
from palaestra.runtime.seeds.seed_plan import SeedPlan, SeedRun
from palaestra.runtime.seeds.side_by_side import run_all, threads_each

ONE_SEED = "--one-seed"
"""Hidden flag of a process that trains one of several seeds."""
ENV_ARGS = "--env-args"
STUCK = 3
"""Exit status of a run that made no progress: its seed counts, and the other seeds continue."""


class SeedProcess:
    """The process of one seed. With several processes at once, each line is marked with its seed; a single process uses
    the terminal itself."""

    def __init__(self, run: SeedRun, arguments: Sequence[str], at_once: int) -> None:
        self._mark = f"seed {run.seed} | "
        environment = {**os.environ, LAUNCHED: "1"}
        if at_once > 1:
            environment.setdefault("OMP_NUM_THREADS", str(threads_each(at_once)))
        pipe = subprocess.PIPE if at_once > 1 else None
        command = own_python("palaestra", *own_arguments(arguments, run))
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=pipe, stderr=pipe, start_new_session=True
        )
        streams = ((self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr))
        self._readers = [
            threading.Thread(target=self._show, args=pair, daemon=True) for pair in streams if pair[0] is not None
        ]
        for reader in self._readers:
            reader.start()

    def _show(self, source: IO[bytes], to: IO[str]) -> None:
        for line in source:
            text = escaped(line.decode(errors="replace").rstrip("\r\n"))
            if text:
                try:
                    print_now(f"{self._mark}{text}", to)
                except (OSError, ValueError):  # closed pipe, full disk: the run goes on, and its log has the line
                    continue

    def poll(self) -> int | None:
        """Returns the process's exit code; None while it is running."""
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        """Sends it a signal."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Ends the process, if it is still running, and waits until its output is shown."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        for reader in self._readers:
            reader.join(5.0)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def own_arguments(arguments: Sequence[str], run: SeedRun) -> list[str]:
    """Returns the command line of one seed's run: the common one, with the run's flags before the game's arguments."""
    at = arguments.index(ENV_ARGS) if ENV_ARGS in arguments else len(arguments)
    config = [str(run.config)] if isinstance(run.config, Path) and str(run.config) not in arguments else []
    own = [ONE_SEED, f"--run-id={run.folder.run_id}", *(f"--set={text}" for text in run.sets())]
    return [*arguments[:1], *config, *arguments[1:at], *own, *arguments[at:]]


def launch_seeds(plan: SeedPlan, arguments: Sequence[str]) -> tuple[dict[int, str], int]:
    """Trains all seeds. Returns the outcome of each seed, and one exit status: 1 if a seed failed, 3 if a seed made no
    progress.

    A seed that fails does not stop the others, unless its run could not start, because then the other runs could not
    start either.
    """

    def started(run: SeedRun) -> SeedProcess:
        number = plan.runs.index(run) + 1
        print_now(f"\nSeed {run.seed} ({number} of {len(plan.runs)}): {run.folder.path}")
        return SeedProcess(run, arguments, plan.at_once)

    states = {run.seed: "not started" for run in plan.runs}

    def ended(number: int, code: int, stopped: bool) -> bool:
        run = plan.runs[number]
        states[run.seed] = state_of(code, stopped=stopped)
        return code in (0, STUCK) or run.folder.exists

    codes, interrupt = run_all([lambda run=run: started(run) for run in plan.runs], plan.at_once, ended)
    failed = [code for code in codes if code not in (None, 0, STUCK)]
    if failed and interrupt is not None and all(_interrupted(code) for code in failed):
        return states, 128 + interrupt
    return states, 1 if failed else STUCK if STUCK in codes else 0


def state_of(code: int, *, stopped: bool) -> str:
    """Returns the outcome of a seed, by its exit code; `stopped`: it ended after a signal."""
    if code == 0:
        return "stopped" if stopped else ""
    if stopped and _interrupted(code):
        return "interrupted"
    return (
        "no progress" if code == STUCK else f"killed by signal {-code}" if code < 0 else f"failed (exit status {code})"
    )


def _interrupted(code: int) -> bool:
    """Whether SIGHUP, SIGINT or SIGTERM ended a process, by itself or by Python's exit status for it."""
    return (-code if code < 0 else code - 128) in (1, 2, 15)
