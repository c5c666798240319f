"""Processes of runs that the page starts, and their output until their run has a folder."""

from __future__ import annotations

import glob
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from palaestra.core.errors import ConfigError
from palaestra.core.files import explain, write_whole
from palaestra.core.plugins import own_python
from palaestra.runtime.monitor.bounded_reading import ResultsFiles, signature
from palaestra.runtime.storage.run_folder import RunFolder, check_run_id

FOLDER = ".started"
"""Folder of settings and logs of started runs, in the results folder."""
LATELY = 600.0
"""Seconds for which a run that ended before it began is listed."""
SILENCE = 60.0
"""Seconds without output after which a run that another page started counts as ended."""


def start_run(
    results: Path, run_id: str, settings: Mapping[str, Any], flags: Sequence[str] = (), seeds: int = 1
) -> list[str]:
    """Writes settings and starts a run that outlives the page, or one run for each of several seeds. Returns the
    command. `flags` are further flags of `palaestra learn`.

    Raises ConfigError or RunError for a name that is taken or invalid.
    """
    check_run_id(run_id)
    RunFolder(results, run_id).must_be_free(force=False)
    log = _log_of(results, run_id)
    file = log.with_suffix(".yaml")
    several = [f"--seeds={seeds}"] if seeds > 1 else []
    command = ["learn", str(file), f"--run-id={run_id}", f"--results-dir={results}", *several, *flags]
    _start(log, command, yaml.safe_dump(dict(settings), sort_keys=False), Awaited(run_id, seeds))
    return ["palaestra", *command]


def resume_run(results: Path, run_id: str, flags: Sequence[str] = ()) -> list[str]:
    """Continues a run's training from its saved state. Returns the command. Raises ConfigError or RunError."""
    check_run_id(run_id)
    RunFolder(results, run_id).must_exist("resume it")
    command = ["learn", f"--run-id={run_id}", f"--results-dir={results}", "--resume", *flags]
    _start(_log_of(results, run_id), command, None, Awaited(run_id, 1))
    return ["palaestra", *command]


@dataclass(frozen=True, slots=True)
class Awaited:
    """Runs that a process is expected to begin."""

    run_id: str
    count: int

    @property
    def folders(self) -> str:
        """Returns the pattern of the runs' folders."""
        return glob.escape(self.run_id) + ("-seed-*" if self.count > 1 else "")


def _start(log: Path, command: Sequence[str], settings: str | None, awaited: Awaited) -> None:
    with _one_at_a_time:
        if (now := _processes.get(log)) is not None and now.poll() is None:
            raise ConfigError(f"'{awaited.run_id}' was started already, and its process still runs")
        _begin(log, command, settings, awaited)


def _begin(log: Path, command: Sequence[str], settings: str | None, awaited: Awaited) -> None:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if settings is not None:
            write_whole(log.with_suffix(".yaml"), settings.encode())
        log.unlink(missing_ok=True)  # a link would lead elsewhere
        with log.open("xb") as output:
            _processes[log] = subprocess.Popen(
                own_python("palaestra", *command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            _awaited[log] = awaited
    except OSError as error:
        raise ConfigError(f"the run cannot be started: {explain(error)}") from error


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that the page has started."""

    log: str
    """End of the process's output."""
    ended: bool
    """Whether its process has ended, or has been silent, if another page started it."""


def started_run(results: Path, run_id: str) -> StartedRun | None:
    """Returns a run that this page started and that has no folder yet; None if there is none."""
    files = ResultsFiles(results)
    log = _log_of(results, run_id)
    found = signature(log)
    if found is None or not files.contains(log):
        return None
    process = _processes.get(log)
    ended = time.time() - found[0] / 1e9 > SILENCE if process is None else process.poll() is not None
    return StartedRun(files.last_lines(log), ended)


def starting(results: Path) -> list[tuple[str, str]]:
    """Returns runs that this page started and that have not begun, each with a sentence about it. It reads folders."""
    said = []
    for log, awaited in tuple(_awaited.items()):
        begun = sum(1 for folder in results.glob(f"{awaited.folders}/run_logs") if folder.is_dir())
        if log.parent != results / FOLDER:
            continue
        if begun >= awaited.count:
            _awaited.pop(log, None)  # one that is deleted later has begun all the same
            continue
        if _processes[log].poll() is None:
            text = f"{begun} of {awaited.count} seeds have begun" if begun else "it is starting"
            said.append((awaited.run_id, text))
        elif not begun and time.time() - (signature(log) or (0,))[0] / 1e9 < LATELY:
            said.append((awaited.run_id, "it ended before it began"))
    return said


def _log_of(results: Path, run_id: str) -> Path:
    return results / FOLDER / f"{run_id.replace('/', '-')}.log"


_one_at_a_time = Lock()
_awaited: dict[Path, Awaited] = {}
_processes: dict[Path, subprocess.Popen[bytes]] = {}
"""Processes of runs that this page has started, by their log."""
