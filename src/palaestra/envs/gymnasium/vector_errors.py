"""Finds which environment of a vector environment raised an exception, and where."""

from __future__ import annotations

import re
import traceback
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, VectorEnv

from palaestra.core.errors import EnvError, exception_summary

SILENT = 100
"""A level of Gymnasium's logger above all messages."""


class VectorErrors:
    """Explains the exceptions of a vector environment."""

    def __init__(self, envs: VectorEnv, name: str) -> None:
        """`name` begins messages. Stands between an AsyncVectorEnv and the queue of its workers' errors."""
        base: Any = envs.unwrapped
        self._base = base
        self._name = name
        self._workers: _WorkerErrors | None = None
        if isinstance(base, AsyncVectorEnv):
            self._workers = _WorkerErrors(base.error_queue)
            vars(base)["error_queue"] = self._workers

    def explained(self, error: BaseException, method: str) -> EnvError:
        """Returns the error for an exception of a method; its cause is the exception, or the worker's traceback."""
        if self._workers is not None and (taken := self._workers.take()):
            area, kind, value, *trace = taken[0]
            summary = _summary(kind, value, trace)
            cause = WorkerTraceback(*trace)
        else:
            area = self._area_of(error)
            summary = exception_summary(error)
            cause = error
        where = "" if area is None else f", area {area}"
        explained = EnvError(
            f"{self._name} raised an error in {method}{where}: {summary}; --debug shows the whole traceback"
        )
        explained.__cause__ = cause
        return explained

    def _area_of(self, error: BaseException) -> int | None:
        """Returns the environment within whose methods the exception was raised; None if unknown."""
        copies = getattr(self._base, "envs", None)
        if not isinstance(copies, list | tuple):
            return None
        number = {id(copy): i for i, copy in enumerate(copies)}
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        return next((number[id(owner)] for frame in frames if id(owner := frame.f_locals.get("self")) in number), None)


class WorkerTraceback(Exception):
    """The traceback of a worker process, as text."""


class _WorkerErrors:
    """The queue of the errors of an AsyncVectorEnv's workers, which keeps those that were read.

    Gymnasium warns of each, with its whole traceback, and raises the last without the number of its worker; here one
    message says it all, so its logger is silent from the first one on.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._taken = list[tuple[Any, ...]]()
        self._level = gymnasium.logger.min_level

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def get(self, *arguments: Any, **options: Any) -> tuple[Any, ...]:
        """Reads an error: the worker's number, exception type, exception, and from Gymnasium 1.1 on its traceback."""
        item = self._queue.get(*arguments, **options)
        if not self._taken:
            self._level = gymnasium.logger.min_level
            gymnasium.logger.min_level = SILENT
        self._taken.append(item)
        return item

    def take(self) -> list[tuple[Any, ...]]:
        """Returns the errors that were read, by worker, and re-enables Gymnasium's logger."""
        taken = self._taken
        self._taken = []
        if taken:
            gymnasium.logger.min_level = self._level
        return sorted(taken, key=lambda item: item[0])


def _summary(kind: type[BaseException], value: Any, trace: list[str]) -> str:
    """Describes a worker's exception like `exception_summary`: the place is the last one of the traceback."""
    places = re.findall(r'^  File "(.+)", line (\d+)', trace[0] if trace else "", re.MULTILINE)
    place = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"{exception_summary(value if isinstance(value, BaseException) else kind(value))}{place}"
