"""Environment of a Unity game's copies, or of the Editor: each agent of each copy has a row in the table of its
behavior.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.metrics import Measurement
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import BehaviorFacts, Distribution, TrainingFacts
from palaestra.envs.copies import Copies, Log
from palaestra.envs.env_of_copies import EnvOfCopies
from palaestra.envs.traits import EnvTraits
from palaestra.envs.unity import executable
from palaestra.envs.unity.capacity import CopyCapacity
from palaestra.envs.unity.game_context import GameChannels, GameContext
from palaestra.envs.unity.game_instance import GameInstance
from palaestra.envs.unity.game_tables import GameTables
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.timeouts import Phase
from palaestra.wire.limits import WarningLimiter
from palaestra.wire.server import Call, HungUp, Inbox
from palaestra.wire.side_channels import SideChannel

LAST_TICK_SECONDS = 2.0
"""Seconds that games have at the end to send another request, which is answered with the command to quit."""
MAX_TIME_SCALE = 100.0
"""Greatest time scale that Unity accepts."""


class UnityEnv(EnvOfCopies[GameInstance]):
    """An environment whose copies are games.

    The games start at the first `reset`. A copy that crashes is restarted while the run makes progress; its open
    episodes are `lost`.
    """

    traits = EnvTraits(
        summary="a Unity game",
        shared_areas=True,  # the scene of a copy may hold many arenas
        reassigns_slots=True,  # Unity gives an agent a new id in each episode
        asynchronous=True,
        interruptible=True,
        reports_busy_time=True,
        real_time=True,
        run_aware=True,
        measures=True,
        samples_parameters=True,
    )

    def __init__(
        self, options: UnityOptions, side_channels: Sequence[SideChannel] = (), log: Log | None = None
    ) -> None:
        """Finds the build. Raises EnvError if there is none."""
        self._executable = None if options.executable is None else executable.find(options.executable)
        if options.executable is not None and self._executable is None:
            raise EnvError(executable.explain_missing(options.executable))
        if options.executable is None and options.copies != 1:
            raise EnvError(f"the Editor runs one copy of the game; {options.copies} need a build (--env)")
        self.options = options
        self.log = log or to_logger
        """Sends a message to the user."""
        self.warn = WarningLimiter(partial(self.log, "warning")).warn
        """Warns the user about data of a game; warnings that come too fast are counted instead."""
        messages = GameMessages()
        self.inbox = messages.inbox
        super().__init__(Copies(messages, options.restarts, self.log, grace=LAST_TICK_SECONDS))
        self.copies.may_start = lambda: self._capacity is None or loading(self.copies) < self._capacity.max_loading
        self.copies.before_check = self._add_copies
        self.copies.afterwards = lambda: remove(self._temporary)
        self.num_areas = options.copies
        # a game accepts any name and does not report its defaults
        self.parameters: Mapping[str, float] = MappingProxyType({})
        self.tables = GameTables()
        self.behaviors: Mapping[str, BehaviorSpec] = self.tables.specs
        self.channels = GameChannels(options.engine, options.copies, side_channels, self.warn)
        self.entered: Callable[[int, Phase], None] = lambda copy, phase: None
        """Called when a copy enters another phase of its connection, including its process's start and end."""
        self._context = GameContext(
            options,
            self._executable,
            self.log,
            self.warn,
            self.inbox,
            self.copies,
            self.tables,
            self.channels,
            lambda copy, phase: self.entered(copy, phase),
        )
        self._capacity: CopyCapacity | None = None
        self._temporary: Path | None = None
        self._acting: list[GameInstance] = []
        """Copies whose agents act in the newest tables."""
        self._reading = 0.0
        self._answering = 0.0

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds that `step` spent on each of its parts."""
        return {
            "waiting": self.copies.waited,
            "reading": self.copies.taking_in + self._reading,
            "answering": self._answering,
        }

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts the games, or makes them begin new episodes; waits until some agent of some copy requests a decision.

        A game receives the seed only when it starts.
        """
        if not self.copies:
            self._context.seed = seed
            self._open()
        else:
            self.copies.take_ready()
            self.tables.clear()
            for copy in self.copies:
                copy.conversation.reset()
        while True:
            steps = self.receive()
            if any(step.acting.any() for step in steps.values()):
                self.copies.begun = self.options.restarts.lifetime != 0
                if self._capacity is not None:
                    self._capacity.measure(self.copies[0].process, len(self.copies))
                return steps
            if self.copies.interrupted:
                return steps
            self.send({})

    def _open(self) -> None:
        logs = self.options.logs
        if logs is None:
            logs = self._temporary = Path(tempfile.mkdtemp(prefix="palaestra-"))
        if self._executable is not None:  # the Editor has logs of its own
            logs.mkdir(parents=True, exist_ok=True)
        self._context.logs = logs.resolve()
        try:
            self._capacity = CopyCapacity(self.options.copies)
            self._add_copies()
        except BaseException:
            self.close()
            raise
        if self._executable is None:
            port = self.copies[0].server.port
            self.log(
                "info", f"Listening on port {port}. Start training by pressing the Play button in the Unity Editor."
            )

    def _add_copies(self) -> None:
        """Starts more copies, a limited number at a time; all but the first once the memory of one is known."""
        capacity = self._capacity
        while capacity is not None and len(self.copies) < self.options.copies:
            if self.copies and not capacity.fits_another(len(self.copies), loading(self.copies), self.log):
                return
            self.copies.add(GameInstance(len(self.copies), self._context))

    def send(self, actions: Mapping[str, Action]) -> None:
        """See `EnvOfCopies`."""
        start = time.perf_counter()
        written = self.tables.write(actions)
        for copy in self._acting:
            talk = copy.conversation
            if talk.call is not None and talk.arrivals:
                talk.answer(written.get(copy.index, {}))
        self._acting = []
        self._answering += time.perf_counter() - start

    def _tables_of_tick(self) -> dict[str, TimeStep]:
        start = time.perf_counter()
        self.copies.failed.clear()
        self._acting = self.copies.take_ready()
        arrivals = [arrival for copy in self._acting for arrival in copy.conversation.arrivals]
        steps = self.tables.tick(arrivals, np.array([copy.delivered for copy in self.copies]))
        self._reading += time.perf_counter() - start
        return steps

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets environment parameters: an array (copies,) of values each, sent with the next actions. A game accepts
        any name."""
        for name, column in values.items():
            for copy, value in enumerate(column.tolist()):
                self.channels.parameters.set(name, value, copy)

    def set_speed(self, speed: float) -> None:
        """Sends another time scale with the next actions: `speed` times the time scale in the options."""
        self.channels.engine.set_time_scale(min(self.options.engine.time_scale * speed, MAX_TIME_SCALE))

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Sets a sampler in each copy with its own seed. The sampler is sent once, because sending it again would
        restart its random numbers.

        A restarted game gets the sampler with another seed.
        """
        for copy, seed in enumerate(seeds):
            self.channels.parameters.sample(name, kind, numbers, seed, copy)

    def training_starts(self, facts: TrainingFacts) -> None:
        """Sends facts about the run to the first copy, if the game asks for them."""
        self.channels.analytics.training_starts(facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Sends facts about a behavior to the first copy, if the game asks for them."""
        self.channels.analytics.behavior_joins(facts)

    def take_measurements(self) -> list[Measurement]:
        """Returns the values that the games' StatsRecorders have sent since the last call."""
        return self.channels.stats.take()

    def busy_seconds(self) -> dict[str, float]:
        """Returns by copy the seconds between the answers to a game and its next messages."""
        return {copy.title: copy.conversation.busy for copy in self.copies}

    def render(self, area: int) -> NDArray[np.uint8]:
        """Raises EnvError: a Unity game draws in its own window."""
        raise EnvError(
            "a Unity game draws in its own window: run it with --time-scale 1 and without --no-graphics to watch it"
        )

    def abandon(self) -> None:
        """See `EnvOfCopies`."""
        super().abandon()
        remove(self._temporary)


class GameMessages:
    """The calls of all games' servers; see `Events`."""

    def __init__(self) -> None:
        self.inbox: Inbox = SimpleQueue()

    def wait(self, seconds: float) -> list[tuple[int, Call | HungUp]]:
        """See `Events`."""
        found: list[tuple[int, Call | HungUp]] = []
        try:
            message = self.inbox.get(timeout=seconds)
            while True:
                copy = (message.call if isinstance(message, HungUp) else message).copy
                if copy >= 0:
                    found.append((copy, message))
                message = self.inbox.get_nowait()
        except Empty:
            return found

    def wake(self) -> None:
        """See `Events`."""
        self.inbox.put(HungUp(Call(-1, "", b"")))  # of no copy

    def close(self) -> None:
        """See `Events`."""


def to_logger(level: str, text: str) -> None:
    """Writes a message to Python's log; the default of `log`."""
    logging.getLogger("palaestra.unity").log(logging.getLevelName(level.upper()), text)


def loading(copies: Iterable[GameInstance]) -> int:
    """Returns the number of games that have started but not connected yet."""
    return sum(copy.conversation.silence.phase is Phase.STARTING for copy in copies)


def remove(folder: Path | None) -> None:
    """Removes a temporary folder, if there is one."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
