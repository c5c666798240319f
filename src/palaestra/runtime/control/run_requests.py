"""Requests to a run while it learns: stop, save, change a value. Files, so that they work for any process that shares the folder.

A request is a file in `run_logs/requests/`. The run reads it, carries it out or refuses it, removes it, and writes what happened to
`run_logs/requests.jsonl`, where it stays.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from palaestra.core.errors import RunError
from palaestra.core.files import explain, write_whole

Kind = Literal["stop", "save", "hyperparameter", "parameter", "lesson"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WAITING, TOLD = "requests", "requests.jsonl"
POLL = 0.5
"""Seconds between two looks at the folder."""
LARGEST = 4096
"""Bytes of a request's file, at most."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One request."""

    kind: Kind
    behavior: str = ""
    """Whose hyperparameter; empty: every behavior's."""
    name: str = ""
    """Hyperparameter (learning_rate, beta, epsilon), or environment parameter."""
    value: float = 0.0
    """New value; the number of the lesson, counted from 0."""
    id: str = ""
    who: str = ""
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """Outcome of a request, as `requests.jsonl` keeps it."""

    request: RunRequest
    done: bool
    told: str
    step: int
    time: float


def ask(run: Path, request: RunRequest) -> str:
    """Leaves a request for the run in this folder; returns its id. Raises RunError if the folder cannot be written to."""
    number = uuid.uuid4().hex
    who = f"{getpass.getuser()} on {socket.gethostname()}"
    folder = run / "run_logs" / WAITING
    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = {**asdict(request), "id": number, "who": who, "time": time.time()}
        write_whole(folder / f"{time.time_ns()}-{number}.json", json.dumps(content).encode())
    except OSError as error:
        raise RunError(f"the request to {run} cannot be written: {explain(error)}") from error
    return number


def answers(run: Path) -> list[RunAnswer]:
    """Returns what the run did with all requests so far, in order; lines that are damaged are left out."""
    found: list[RunAnswer] = []
    with suppress(OSError):
        for line in (run / "run_logs" / TOLD).read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, TypeError, KeyError):
                entry = json.loads(line)
                found.append(RunAnswer(RunRequest(**entry["request"]), entry["done"], entry["told"], entry["step"], entry["time"]))
    return found


class RequestBox:
    """The run's side: reads requests, and tells what became of them."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._folder = run / "run_logs" / WAITING
        self._since = time.time()
        self._looked = 0.0

    def take(self) -> list[RunRequest]:
        """Returns the requests since the last call, at most every `POLL` seconds; stale and foreign ones are refused here."""
        now = time.monotonic()
        if now - self._looked < POLL:
            return []
        self._looked = now
        return [request for request in self._read() if self._counts(request)]

    def tell(self, request: RunRequest, told: str, step: int, *, done: bool = True) -> None:
        """Writes the outcome of a request. A folder that is lost is noticed elsewhere."""
        line = json.dumps(asdict(RunAnswer(request, done, told, step, time.time())))
        with suppress(OSError), (self._run / "run_logs" / TOLD).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _counts(self, request: RunRequest) -> bool:
        if request.time >= self._since - 1.0:
            return True
        self.tell(request, "it was made before this session of the run began", 0, done=False)
        return False

    def _read(self) -> Iterator[RunRequest]:
        try:
            files = sorted(self._folder.iterdir())
        except OSError:
            return
        for file in files:
            if file.suffix != ".json":
                continue
            request: RunRequest | str
            try:
                request = _parsed(file)
                file.unlink()
            except OSError:
                continue
            if isinstance(request, RunRequest):
                yield request
            else:
                self.tell(RunRequest("save", id=file.stem), request, 0, done=False)


def _parsed(file: Path) -> RunRequest | str:
    """Returns a file's request, or why it is none. Raises OSError."""
    about = file.lstat()
    if hasattr(os, "getuid") and about.st_uid not in (os.getuid(), 0):
        return "it was written by another user"
    if about.st_size > LARGEST or file.is_symlink():
        return "it is no request"
    try:
        entry: Any = json.loads(file.read_text(encoding="utf-8"))
        request = RunRequest(**entry)
        well = isinstance(request.value, int | float) and all(
            isinstance(text, str) for text in (request.behavior, request.name, request.id, request.who)
        )
        return request if well and request.kind in KINDS and isinstance(request.time, int | float) else "it is no request"
    except (ValueError, TypeError):
        return "it is no request"
