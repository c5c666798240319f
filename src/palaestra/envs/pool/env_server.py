"""Answers the requests to one environment, in the process that holds it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from operator import methodcaller
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import STOPS, EnvError
from palaestra.core.files import explain
from palaestra.core.metrics import Measurement
from palaestra.core.specs import BehaviorSpec
from palaestra.envs.base import Env
from palaestra.envs.pool.packed_tables import pack_tables, unpack_actions
from palaestra.envs.pool.shared_tables import Layout, SharedTables
from palaestra.envs.traits import EnvTraits
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.closing import reason_of
from palaestra.parallel.shared_memory import LocalBlock, SharedBlock
from palaestra.parallel.worker import failure_message

MakeEnv = Callable[..., Env]
"""A module-level function that makes an environment from picklable arguments and the keyword `areas`."""


Call = tuple[str, tuple[Any, ...]]
"""A method of an environment and its arguments."""


@dataclass(frozen=True, slots=True)
class Changes:
    """New parameters and method calls for an environment, before its next tick."""

    parameters: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    calls: list[Call] = field(default_factory=list[Call])


@dataclass(frozen=True, slots=True)
class EnvFacts:
    """Facts about a copy's environment."""

    num_areas: int
    parameters: dict[str, float]
    tick_seconds: float | None
    traits: EnvTraits  # as far as they hold where its methods cannot be called

    @classmethod
    def of(cls, env: EnvWrapper) -> EnvFacts:
        """Returns the facts about an environment."""
        not_here = dict.fromkeys(("has_heuristic", "staggers_episodes", "steps_arrays", "host_ticks", "draws"), False)
        traits = replace(env.traits, **not_here, real_time=False, queue_length=0, board=None, ray_fans={})
        return cls(env.num_areas, dict(env.parameters), env.tick_seconds, traits)


@dataclass(slots=True)
class CopyReply:
    """An answer of a copy. The tables of a tick are in the shared memory."""

    facts: EnvFacts | None = None  # the answer to the start
    image: NDArray[np.uint8] | None = None  # the answer to `render`
    undrawn: str | None = None  # the answer to `render`: why there is no image
    layout: Layout | None = None  # where it changed
    behaviors: dict[str, BehaviorSpec] | None = None  # where they changed
    measurements: list[Measurement] | None = None
    warnings: list[str] | None = None

    @property
    def has_tables(self) -> bool:
        """Whether the reply answers `reset` or `step`."""
        return self.facts is None and self.image is None and self.undrawn is None

    @property
    def is_plain(self) -> bool:
        """Whether the message says only that the tables are ready."""
        more = (self.layout, self.behaviors, self.measurements, self.warnings)
        return self.has_tables and all(one is None for one in more)


CLOSE = "close"
"""A request that ends the copy."""
CLOSED = b"closed"
"""The last message of a copy whose environment is closed."""
LENGTH = 4
"""Bytes with the length of the pickled part of a message; arrays follow it."""


def pack(head: object, arrays: bytes = b"") -> bytes:
    """Returns a message: an object, which is pickled unless it is None, and the bytes of arrays."""
    pickled = b"" if head is None else pickle.dumps(head)
    return len(pickled).to_bytes(LENGTH, "little") + pickled + arrays


def unpack(message: bytes) -> tuple[Any, memoryview]:
    """Returns the object and the arrays of a message of `pack`."""
    end = LENGTH + int.from_bytes(message[:LENGTH], "little")
    return pickle.loads(message[LENGTH:end]) if end > LENGTH else None, memoryview(message)[end:]


def serve(connection: Connection, make: MakeEnv, arguments: tuple[Any, ...], areas: int | None) -> None:
    """Serves an environment in its process."""
    torch.set_num_threads(1)
    serve_env(connection, partial(make, *arguments, areas=areas), SharedBlock)


def serve_env(
    connection: Connection,
    make: Callable[[], Env],
    block: type[LocalBlock],
    send_notes: Callable[[bool], None] = lambda last: None,
) -> None:
    """Makes an environment, answers requests until it is to be closed, and closes it.

    `send_notes` is called before each answer, and with True when the environment is closed.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = EnvWrapper.of(make())
        try:
            _answer_until_close(connection, EnvServer(env, block), env, caught, send_notes)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # the run has ended
        except BaseException as error:  # whatever a user's environment does
            with suppress(OSError):
                connection.send_bytes(failure_message(error))  # before it is closed, which may fail too, or hang
        try:
            env.close()
        finally:
            with suppress(OSError):
                send_notes(True)
        connection.send_bytes(CLOSED)


def _answer_until_close(
    connection: Connection,
    server: EnvServer,
    env: EnvWrapper,
    caught: list[warnings.WarningMessage],
    send_notes: Callable[[bool], None],
) -> None:
    reply = CopyReply(EnvFacts.of(env), behaviors=dict(env.behaviors))
    while True:
        reply.warnings = [str(one.message) for one in caught if one.category is UserWarning] or None
        caught.clear()
        send_notes(False)
        arrays = pack_tables(server.tables) if reply.has_tables and server.tables is not None else b""
        connection.send_bytes(pack(None if reply.is_plain else reply, arrays))
        (request, value, changes), arrays = unpack(connection.recv_bytes())
        if request == CLOSE:
            return
        reply = server.answer(request, value, changes, arrays)


class EnvServer:
    """Answers the requests to one environment."""

    def __init__(self, env: EnvWrapper, block: type[LocalBlock] = SharedBlock) -> None:
        """`block`: the memory of the tables."""
        self._env = env
        self._block = block
        self.tables: SharedTables | None = None
        self._known = 0
        self._busy = 0.0

    def answer(
        self, request: str, value: Any = None, changes: Changes | None = None, actions: bytes | memoryview = b""
    ) -> CopyReply:
        """Returns the answer to a request; `actions` are written to `tables` first, and a tick's results after it."""
        start = perf_counter()
        if self.tables is not None:
            unpack_actions(self.tables, actions)
        if changes is not None:
            if changes.parameters:
                self._env.set_parameters(changes.parameters)
            for method, arguments in changes.calls:
                methodcaller(method, *arguments)(self._env)
        reply = self._answer(request, value)
        self._busy += perf_counter() - start
        if self.tables is not None:
            self.tables.write_busy_seconds(self._busy)
        return reply

    def _answer(self, request: str, value: Any) -> CopyReply:
        match request:
            case "reset":
                if self.tables is not None:
                    self.tables.forget()
                return self._tick(self._env.reset(value))
            case "step":
                assert self.tables is not None
                if not self._env.traits.steps_arrays:
                    return self._tick(self._env.step(self.tables.read_actions()))
                steps = self._env.step_arrays(self.tables.arrays)
                if steps is not None:
                    return self._tick(steps)
                self.tables.mark_quiet()
                return self._measured(CopyReply())
            case _:
                return self._draw(value)

    def _draw(self, area: int) -> CopyReply:
        """Returns an image of an area, or the reason why it has none; a failure does not end the environment."""
        try:
            image = self._env.render(area)
        except STOPS:
            raise
        except BaseException as error:  # whatever a user's environment does
            return CopyReply(undrawn=reason_of(error))
        if not isinstance(image, np.ndarray):
            return CopyReply(
                undrawn=f"its `render` returned {type(image).__name__}; expected an array (height, width, 3)"
            )
        return CopyReply(image=image)

    def _tick(self, steps: Mapping[str, Any]) -> CopyReply:
        reply = CopyReply()
        if len(self._env.behaviors) != self._known:
            self._known = len(self._env.behaviors)
            reply.behaviors = dict(self._env.behaviors)
        if self.tables is None or not self.tables.holds(steps):
            try:
                self.tables = SharedTables.create(steps, self._env.behaviors, self._block)
            except OSError as error:
                raise EnvError(
                    f"there is no shared memory for its tables ({explain(error)}): make room in /dev/shm, or use "
                    "fewer areas"
                ) from error
            reply.layout = self.tables.layout
        self.tables.write(steps)
        return self._measured(reply)

    def _measured(self, reply: CopyReply) -> CopyReply:
        reply.measurements = self._env.take_measurements() or None
        return reply
