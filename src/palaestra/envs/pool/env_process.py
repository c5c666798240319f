"""One copy of an environment in a process of its own."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.metrics import Measurement
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.envs.base import Env, Measures
from palaestra.envs.pool.shared_tables import Layout, SharedTables
from palaestra.parallel.shared_memory import SharedBlock
from palaestra.parallel.worker import WorkerProcess

MakeEnv = Callable[..., Env]
"""A module-level function that makes an environment from picklable arguments and the keyword `areas`."""


@dataclass(frozen=True, slots=True)
class EnvFacts:
    """Facts about a copy's environment."""

    num_areas: int
    parameters: dict[str, float]
    name: str
    tick_seconds: float | None


@dataclass(slots=True)
class CopyReply:
    """An answer of a copy. The tables of a tick are in the shared memory."""

    facts: EnvFacts | None = None  # the answer to the start
    image: NDArray[np.uint8] | None = None  # the answer to `render`
    layout: Layout | None = None  # where it changed
    behaviors: dict[str, BehaviorSpec] | None = None  # where they changed
    measurements: list[Measurement] | None = None
    warnings: list[str] | None = None

    @property
    def has_tables(self) -> bool:
        """Whether it is the answer to `reset` or `step`."""
        return self.facts is None and self.image is None


class EnvProcess:
    """Starts a copy and exchanges tables with it. One request at a time: each is answered before the next."""

    def __init__(self, index: int, make: MakeEnv, arguments: tuple[Any, ...], areas: int | None) -> None:
        self.index, self._task = index, (make, arguments, areas)
        self.facts: EnvFacts | None = None
        self.tables: SharedTables | None = None
        self.start()

    def start(self) -> None:
        """Starts the process, whose first message has its facts."""
        self.worker = WorkerProcess(serve, *self._task, title=f"copy {self.index} of the environment")
        self.asked_at: float | None = monotonic()
        self.ticks = 0

        self.parameters: dict[str, Tensor] = {}
        """Values for the copy's areas that it has not been sent."""

    @property
    def waiting(self) -> bool:
        """Whether an answer is outstanding."""
        return self.asked_at is not None

    def ask(self, request: str, value: object = None) -> None:
        """Sends a request."""
        self.asked_at = monotonic()
        self.worker.send(request.encode() + b":" + (b"" if value is None else pickle.dumps(value)))

    def reset(self, seed: int) -> None:
        """Starts a reset."""
        self.ask("reset", (seed, self.parameters))
        self.parameters = {}

    def step(self, actions: Mapping[str, Action], slots_of: Mapping[str, Any]) -> None:
        """Writes the actions of the copy's slots and starts a tick."""
        assert self.tables is not None
        for behavior, arrays in self.tables.arrays.items():
            action = actions.get(behavior)
            if action is not None:
                rows = slots_of[behavior][: len(arrays["acting"])]
                arrays["continuous"][...] = action.continuous.numpy()[rows]
                arrays["discrete"][...] = action.discrete.numpy()[rows]
        self.ask("step", self.parameters or None)
        self.parameters = {}

    def receive(self) -> CopyReply:
        """Returns the answer that has arrived. Raises WorkerLost, or what the environment raised."""
        message = self.worker.receive()
        self.asked_at = None
        reply: CopyReply = pickle.loads(message) if message else CopyReply()
        if reply.layout is not None:
            block = SharedBlock(reply.layout.size, Path(reply.layout.path))
            block.unlink()  # both processes have it open now
            self.tables = SharedTables(reply.layout, block)
        return reply


def serve(connection: Connection, make: MakeEnv, arguments: tuple[Any, ...], areas: int | None) -> None:
    """Makes an environment and answers requests, in its process."""
    torch.set_num_threads(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = make(*arguments, areas=areas)
        facts = EnvFacts(env.num_areas, dict(env.parameters), getattr(env, "name", ""), getattr(env, "tick_seconds", None))
        server = _Server(env)
        connection.send_bytes(pickle.dumps(CopyReply(facts, behaviors=dict(env.behaviors), warnings=_texts(caught))))
        caught.clear()
        try:
            while True:
                request, _, value = connection.recv_bytes().partition(b":")
                reply = server.answer(request.decode(), pickle.loads(value) if value else None)
                reply.warnings = _texts(caught)
                caught.clear()
                connection.send_bytes(b"" if reply == CopyReply() else pickle.dumps(reply))
        finally:
            env.close()


def _texts(caught: list[warnings.WarningMessage]) -> list[str] | None:
    return [str(one.message) for one in caught if one.category is UserWarning] or None


class _Server:
    """Answers the requests to one environment."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._tables: SharedTables | None = None
        self._known = 0

    def answer(self, request: str, value: Any) -> CopyReply:
        """Returns the answer to a request; tables go to the shared memory."""
        match request:
            case "reset":
                seed, parameters = value
                self._set(parameters)
                return self._tick(self._env.reset(seed))
            case "step":
                assert self._tables is not None
                self._set(value)
                return self._tick(self._env.step(self._tables.read_actions()))
            case "render":
                return CopyReply(image=self._env.render(value))
            case other:
                raise EnvError(f"unknown request '{other}'")

    def _set(self, parameters: Mapping[str, Tensor] | None) -> None:
        if parameters:
            self._env.set_parameters(parameters)

    def _tick(self, steps: Mapping[str, Any]) -> CopyReply:
        reply = CopyReply()
        if len(self._env.behaviors) != self._known:
            self._known, reply.behaviors = len(self._env.behaviors), dict(self._env.behaviors)
        if self._tables is None or not self._tables.holds(steps):
            self._tables = SharedTables.create(steps, self._env.behaviors)
            reply.layout = self._tables.layout
        self._tables.write(steps)
        if isinstance(self._env, Measures):
            reply.measurements = self._env.take_measurements() or None
        return reply
