"""Requests to a run while it learns: stop, save, change a value. Requests are files, so any process that shares the
folder can send them.

A request is a file in `run_logs/requests/`. The run reads the file, carries the request out or refuses it, removes the
file, and writes the outcome to `run_logs/requests.jsonl`, which is kept.
"""

from __future__ import annotations

import heapq
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from palaestra.core.errors import RunError
from palaestra.core.files import explain, read_end, read_whole, regular, user_name, write_whole

Kind = Literal["stop", "save", "hyperparameter", "parameter", "lesson"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WAITING, ANSWERS = "requests", "requests.jsonl"
POLL = 0.5
"""Seconds between two looks at the folder."""
LARGEST = 4096
"""Most bytes of a request's file."""
MOST_AT_ONCE = 100
"""Most files that are read in one look."""
MOST_LOG = 1 << 20
"""Bytes at the log's end that are read."""
AHEAD = 3600.0
"""Seconds by which the clock of another machine may be ahead of this one."""
LARGEST_VALUE = 3.4e38
"""Largest value of a request: environment parameters are 32-bit numbers."""

_FORM: ConfigDict = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One request. Its form is checked when it is written and when it is read."""

    __pydantic_config__: ClassVar[ConfigDict] = _FORM

    kind: Kind
    behavior: str = ""
    """Behavior whose hyperparameter changes; empty: every behavior."""
    name: str = ""
    """Hyperparameter (learning_rate, beta, epsilon), or environment parameter."""
    value: Annotated[float, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)] = 0.0
    """New value; for a lesson, its number, counted from 0."""
    id: str = ""
    who: str = ""
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """Outcome of a request, as `requests.jsonl` keeps it."""

    __pydantic_config__: ClassVar[ConfigDict] = _FORM

    request: RunRequest
    done: bool
    outcome: str
    step: int
    time: float


_REQUEST = TypeAdapter(RunRequest)
_ANSWER = TypeAdapter(RunAnswer)


def ask(run: Path, request: RunRequest) -> str:
    """Writes a request into the run's folder; returns the request's id.

    Raises RunError if the request is malformed, or if the folder cannot be written to.
    """
    number = uuid.uuid4().hex
    who = f"{user_name()} on {socket.gethostname()}"
    content = json.dumps({**asdict(request), "id": number, "who": who, "time": time.time()}).encode()
    if isinstance(parsed := _parsed(content), str):
        raise RunError(f"the request to {run} cannot be made: {parsed}")
    folder = run / "run_logs" / WAITING
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{time.time_ns()}-{number}.json", content)
    except OSError as error:
        raise RunError(f"the request to {run} cannot be written: {explain(error)}") from error
    return number


def answers(run: Path) -> list[RunAnswer]:
    """Returns the outcomes of the run's last requests, in order; damaged lines are left out."""
    found: list[RunAnswer] = []
    with suppress(OSError):
        for line in read_end(run / "run_logs" / ANSWERS, MOST_LOG).splitlines():
            with suppress(ValidationError):
                found.append(_ANSWER.validate_json(line))
    return found


class RequestBox:
    """Reads requests for the run, and writes their outcomes."""

    def __init__(self, run: Path, warn: Callable[[str], object] = lambda text: None) -> None:
        """`warn`: gets a sentence about each file that is not a request to this session of the run."""
        self._run = run
        self._warn = warn
        self._folder = run / "run_logs" / WAITING
        self._since = time.time()
        self._looked = 0.0
        self._kept: set[str] = set()
        """Names of files that cannot be removed, and were refused once."""
        self._earlier = set(self._names())

    def take(self) -> list[RunRequest]:
        """Returns new requests, at most every `POLL` seconds; refuses requests that do not belong to this session."""
        now = time.monotonic()
        if now - self._looked < POLL:
            return []
        self._looked = now
        return list(self._read())

    def answer(self, request: RunRequest, outcome: str, step: int, *, done: bool = True) -> None:
        """Writes the outcome of a request. Ignores a lost folder, because other code reports it."""
        line = json.dumps(asdict(RunAnswer(request, done, outcome, step, time.time())))
        with suppress(OSError), open(self._run / "run_logs" / ANSWERS, "a", encoding="utf-8", opener=regular) as file:
            file.write(line + "\n")

    def _names(self) -> Iterator[str]:
        with suppress(OSError):
            if not self._folder.is_symlink():  # whose files would be removed
                yield from (name for name in os.listdir(self._folder) if name.endswith(".json"))

    def _read(self) -> Iterator[RunRequest]:
        for name in heapq.nsmallest(MOST_AT_ONCE, (name for name in self._names() if name not in self._kept)):
            file = self._folder / name
            request = _request_in(file)
            if isinstance(request, RunRequest) and (reason := self._stale(name, request)):
                request = reason
            try:
                file.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                self._kept.add(name)
                request = (
                    f"{request if isinstance(request, str) else 'it is not carried out'}; it cannot be removed: "
                    f"{explain(error)}"
                )
            if isinstance(request, RunRequest):
                yield request
            else:
                self._warn(f"Request {name} is refused: {request}")
                name = file.stem.encode("utf-8", "backslashreplace").decode()
                self.answer(RunRequest("save", id=name), request, 0, done=False)

    def _stale(self, name: str, request: RunRequest) -> str:
        """Returns why a request does not belong to this session; '' if it does."""
        if name in self._earlier or request.time < self._since - 1.0:
            return "it was made before this session of the run began"
        return "it is dated in the future" if request.time > time.time() + AHEAD else ""


def _request_in(file: Path) -> RunRequest | str:
    """Returns a file's request, or the reason why the file is no request."""
    try:
        about = file.lstat()
        if hasattr(os, "getuid") and about.st_uid not in (os.getuid(), 0):
            return "it was written by another user"
        return "not a request: it is a link" if file.is_symlink() else _parsed(read_whole(file, LARGEST))
    except OSError as error:
        return f"not a request: {error.strerror}"


def _parsed(content: bytes) -> RunRequest | str:
    """Returns the request in a file's content, or the reason why it is no request."""
    if len(content) > LARGEST:
        return f"it has more than {LARGEST:,} bytes"
    try:
        return _REQUEST.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"not a request: {'.'.join(map(str, first['loc']))}{': ' if first['loc'] else ''}{first['msg']}"
