"""Environment of a Unity game's copies, or of the Editor: each agent of each copy has a row in the table of its
behavior.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import EnvError, GameGone, NotFinite, ProtocolError
from palaestra.core.metrics import Measurement
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import BehaviorFacts, Distribution, TrainingFacts
from palaestra.envs.sampler_seeds import spacing
from palaestra.envs.slots import Ids
from palaestra.envs.traits import EnvTraits
from palaestra.envs.unity import executable
from palaestra.envs.unity.analytics import AnalyticsSender
from palaestra.envs.unity.capacity import CopyCapacity
from palaestra.envs.unity.game_instance import GameInstance
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.table import Arrival, BehaviorTable
from palaestra.envs.unity.timeouts import Phase
from palaestra.wire.encode import ActionWriter, goodbye
from palaestra.wire.handshake import GameVersion
from palaestra.wire.limits import WarningLimiter, empty_long_log
from palaestra.wire.readers import AgentInfoReader
from palaestra.wire.server import Call, HungUp, Inbox
from palaestra.wire.side_channels import SideChannel, SideChannels
from palaestra.wire.unity_channels import EngineSender, ParametersSender, StatsReceiver

CHECK_INTERVAL = 0.25
"""Seconds between checks of processes and timeouts."""
LAST_TICK_SECONDS = 2.0
"""Seconds that games have at the end to finish their tick, after which they can be told to quit."""
CLOSE_SECONDS = 5.0
"""Seconds that games have at the end to finish their tick and to quit."""

MAX_TIME_SCALE = 100.0
"""Greatest time scale that Unity accepts."""

Tell = Callable[[str, str], None]
"""Takes a level ('info' or 'warning') and a message to the user."""


class UnityEnv:
    """Steps all copies at once. A tick holds the copies that are ready; rows of the others are inactive.

    Games start at the first `reset`. A copy that crashes is restarted while the run makes progress; its open episodes
    are `lost`.
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
        self, options: UnityOptions, side_channels: Sequence[SideChannel] = (), tell: Tell | None = None
    ) -> None:
        """Finds the build. Raises EnvError if there is none."""
        self.options = options
        self._tell = tell or log
        self._executable = None if options.executable is None else executable.find(options.executable)
        if options.executable is not None and self._executable is None:
            raise EnvError(executable.explain_missing(options.executable))
        if options.executable is None and options.copies != 1:
            raise EnvError(f"the Editor runs one copy of the game; {options.copies} need a build (--env)")
        self.device = torch.device("cpu")
        self.num_areas = options.copies
        self._specs: dict[str, BehaviorSpec] = {}
        self.behaviors: Mapping[str, BehaviorSpec] = self._specs
        # a game accepts any name and does not report its defaults
        self.parameters: Mapping[str, float] = MappingProxyType({})
        self.inbox: Inbox = SimpleQueue()
        self.seed = 0
        self.progress = 0
        self._parameters = ParametersSender(options.copies)
        self._limiter = WarningLimiter(lambda text: self.tell("warning", text))
        self._stats = StatsReceiver(self.warn)
        self._analytics = AnalyticsSender()
        self._engine = EngineSender(options.engine)
        own = (self._engine, self._parameters, self._stats, self._analytics)
        self.channels = SideChannels((*own, *side_channels), options.copies, self.warn)
        self.copies: list[GameInstance] = []
        """Copies started so far; the others wait for memory."""
        self._capacity: CopyCapacity | None = None
        self._full = False
        """True if no memory is left for the copies that have not been started."""
        self._logs = Path()
        self.entered: Callable[[int, Phase], None] = lambda copy, phase: None
        """Called when a copy enters another phase of its connection, including its process's start and end."""
        self._sources = 0
        self._tables: dict[str, BehaviorTable] = {}
        self._writers: dict[str, ActionWriter] = {}
        self._waiting: dict[str, dict[tuple[int, str], Ids]] = {}
        self._lost: list[int] = []
        self._checked_at = 0.0
        self._temporary: Path | None = None
        self.seconds = {"waiting": 0.0, "reading": 0.0, "answering": 0.0}
        """Seconds that `step` spent on each of its parts."""
        self._interrupted = False
        self._begun = False
        """True once an agent of any copy has requested a decision."""
        self._game: GameVersion | None = None

    def tell(self, level: str, text: str) -> None:
        """Sends a message to the user."""
        self._tell(level, text)

    def warn(self, text: str) -> None:
        """Warns the user about data of a game; warnings that come too fast are counted instead."""
        self._limiter.warn(text)

    def new_source(self) -> int:
        """Returns a new number for a game; a restarted one gets another number."""
        self._sources += 1
        return self._sources

    def lose(self, source: int) -> None:
        """Marks the agents of a game that ended as lost in the next tables."""
        self._lost.append(source)

    def add_behavior(self, reader: AgentInfoReader) -> None:
        """Adds a behavior of a copy and team to the table of its name. Raises ProtocolError if another spec has the
        name.
        """
        known = self.behaviors.get(reader.name)
        if known is None:
            self._specs[reader.name] = reader.spec
            self._tables[reader.name] = BehaviorTable(reader.spec)
            self._writers[reader.name] = ActionWriter(reader.spec.action)
        else:
            reader.matches(known)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts the games, or makes them begin new episodes; waits until an agent of any copy requests a decision.

        A game receives the seed only when it starts.
        """
        if not self.copies:
            self.seed = seed
            self._open()
        else:
            for copy in self.copies:
                copy.arrivals = []
                copy.fresh = False
                if copy.phase not in (Phase.DOWN, Phase.STARTING, Phase.GREETED):
                    copy.reset()
            self._tables = {name: BehaviorTable(spec) for name, spec in self.behaviors.items()}
            self._lost = []
            self._waiting = {}
        while True:
            self._gather()
            steps = self._tables_of_tick()
            asked = any(step.acting.any() for step in steps.values())
            self._begun = self._begun or asked
            if asked:
                self._measure()
            if self._interrupted or asked:
                return steps
            self.send({})

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Sends actions to the copies of the last tick and waits for the next. Raises GameGone if no copy is to be
        restarted.
        """
        self.send(actions)
        return self.receive()

    def receive(self) -> dict[str, TimeStep]:
        """Waits for the next tick: at least one copy. Raises GameGone if no copy is to be restarted."""
        self._gather()
        return self._tables_of_tick()

    def _open(self) -> None:
        logs = self.options.logs
        if logs is None:
            logs = self._temporary = Path(tempfile.mkdtemp(prefix="palaestra-"))
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs.resolve()
        try:
            self._capacity = CopyCapacity(self.options.copies)
            self._add_copy()
            self._add_copies()
        except BaseException:
            self.close()
            raise
        if self._executable is None:
            port = self.copies[0].server.port
            self.tell(
                "info", f"Listening on port {port}. Start training by pressing the Play button in the Unity Editor."
            )

    def _add_copy(self) -> None:
        copy = GameInstance(len(self.copies), self.options, self, self._executable, self._logs)
        self.copies.append(copy)
        try:
            copy.start()
        except GameGone as error:
            self._failed(copy, error)

    def _add_copies(self) -> None:
        """Starts more copies, a limited number at a time, once the memory of one is known."""
        capacity = self._capacity
        if capacity is None or capacity.bytes_per_copy is None:
            return
        while len(self.copies) < self.options.copies and (loading := self._loading()) < capacity.max_loading:
            if not capacity.fits_another(loading):
                if not loading and not self._full:
                    self._full = True
                    number = len(self.copies)
                    self.tell(
                        "warning",
                        f"no memory is left for more than {number} of {self.options.copies} copies: the run continues "
                        f"with {number}",
                    )
                return
            self._add_copy()

    def _loading(self) -> int:
        return sum(copy.phase is Phase.STARTING for copy in self.copies)

    def _measure(self) -> None:
        """Measures the first running copy. Raises EnvError if the others do not fit."""
        process = self.copies[0].process
        if self._capacity is not None and len(self.copies) < self.options.copies and process is not None:
            self._capacity.measure(process.pid, len(self.copies))

    def send(self, actions: Mapping[str, Action]) -> None:
        """Sends actions to every copy of the last tick."""
        start = time.perf_counter()
        written: dict[int, dict[str, bytes]] = {}
        for name, waiting in self._waiting.items():
            continuous, discrete = self._actions_of(name, actions.get(name))
            for (copy, key), slots in waiting.items():
                if len(slots):
                    written.setdefault(copy, {})[key] = self._writers[name].write(continuous[slots], discrete[slots])
        for copy in self.copies:
            if copy.call is not None and copy.arrivals and not copy.fresh:
                copy.answer(written.get(copy.index, {}))
        self._waiting = {}
        self.seconds["answering"] += time.perf_counter() - start

    def _actions_of(self, name: str, action: Action | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns a behavior's actions as arrays; zeros for None."""
        if action is not None:
            return action.continuous.numpy(), action.discrete.numpy()
        slots = len(self._tables[name])
        spec = self.behaviors[name].action
        return np.zeros((slots, spec.continuous), np.float32), np.zeros((slots, len(spec.branches)), np.int64)

    def _gather(self) -> None:
        """Waits until a copy has new agents' data, and handles all messages that have come."""
        while True:
            start = time.perf_counter()
            events = self._events(CHECK_INTERVAL)
            self.seconds["waiting"] += time.perf_counter() - start
            start = time.perf_counter()
            for event in events:
                self._take(event)
            self._check_copies()
            self.seconds["reading"] += time.perf_counter() - start
            if self._lost or self._interrupted or any(copy.fresh for copy in self.copies):
                return

    def _events(self, timeout: float) -> list[Call | HungUp]:
        """Returns all waiting events; waits up to `timeout` for the first."""
        events: list[Call | HungUp] = []
        try:
            if not any(copy.fresh for copy in self.copies):
                events.append(self.inbox.get(timeout=timeout))
            while True:
                events.append(self.inbox.get_nowait())
        except Empty:
            return events

    def _take(self, event: Call | HungUp) -> None:
        copy = self.copies[(event.call if isinstance(event, HungUp) else event).copy]
        try:
            if isinstance(event, Call):
                copy.receive(event)
            elif event.call is copy.call:
                copy.call = None
                raise GameGone(
                    "play mode was stopped, or the connection broke"
                    if copy.editor
                    else f"it hung up{self._exit_of(copy)}"
                )
        except (ProtocolError, NotFinite, GameGone) as error:
            self._failed(copy, error)
        except EnvError as error:  # a restart would not help, such as for another version
            raise EnvError(f"{copy.name}: {error}") from error
        finally:
            if isinstance(event, Call) and event is not copy.call:
                event.answer(goodbye())  # after any error; an answered call ignores it

    def _exit_of(self, copy: GameInstance) -> str:
        """Returns how the process ended, if it did, and the end of its log."""
        process = copy.process
        deadline = time.monotonic() + 0.5
        while process is not None and process.code() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        has_exited = process is not None and process.code() is not None
        return (f" and {process.describe_exit()}" if process is not None and has_exited else "") + copy.log_tail()

    def _check_copies(self) -> None:
        """Checks processes and timeouts at intervals, and starts copies that are due."""
        now = time.monotonic()
        if now - self._checked_at < CHECK_INTERVAL:
            return
        self._checked_at = now
        self._add_copies()
        for copy in self.copies:
            try:
                if (
                    copy.phase is Phase.DOWN
                    and now >= copy.start_at
                    and (self._capacity is None or self._loading() < self._capacity.max_loading)
                ):
                    copy.start()
                copy.check()
                self._truncate_logs(copy)
            except GameGone as error:
                if copy.editor:
                    raise
                self._failed(copy, error)

    def _truncate_logs(self, copy: GameInstance) -> None:
        if copy.process is not None:
            for log in {copy.process.output, copy.process.log}:
                if size := empty_long_log(log):
                    self.warn(
                        f"{copy.name}: {log} has grown to {size >> 20} MiB; only what is written from now on is kept"
                    )

    def _failed(self, copy: GameInstance, error: EnvError) -> None:
        """Ends a copy and schedules its restart. Raises the error if the copy is not to be restarted."""
        delivered = copy.delivered
        copy.drop()
        if copy.editor:
            copy.start()
            self.tell("warning", f"{error}. Its open episodes are left out; press Play to continue")
            return
        if not self._begun or self.options.restarts.lifetime == 0:
            raise error if isinstance(error, NotFinite) else type(error)(f"{copy.name}: {error}")
        wait = copy.policy.failed(error, self.progress, delivered)
        copy.start_at = time.monotonic() + wait
        when = f"in {wait:.0f} s" if wait >= 1 else "now"
        again = f"it is started again {when} (restart {copy.policy.restarts})"
        self.tell("warning", f"{copy.name}: {error}\n  Its open episodes are left out; {again}")

    def _tables_of_tick(self) -> dict[str, TimeStep]:
        """Returns the tables of this tick."""
        start = time.perf_counter()
        arrivals: dict[str, list[Arrival]] = {name: [] for name in self._tables}
        for copy in self.copies:
            if copy.fresh:
                copy.fresh = False
                for arrival in copy.arrivals:
                    arrivals[arrival.name].append(arrival)
        lost = self._lost
        self._lost = []
        messages = np.array([copy.delivered for copy in self.copies])
        steps: dict[str, TimeStep] = {}
        for name, table in self._tables.items():
            if arrivals[name] or len(table):
                steps[name], self._waiting[name] = table.tick(arrivals[name], lost, messages)
        self.seconds["reading"] += time.perf_counter() - start
        return steps

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets environment parameters: (copies,) values each, sent with the next actions. A game accepts any name."""
        for name, column in values.items():
            for copy, value in enumerate(column.tolist()):
                self._parameters.set(name, value, copy)

    def set_speed(self, speed: float) -> None:
        """Sends another time scale with the next actions: this multiple of the one in the options."""
        self._engine.set_time_scale(min(self.options.engine.time_scale * speed, MAX_TIME_SCALE))

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Sets a sampler in each copy with its own seed. Sent once, because sending it again would restart its random
        numbers.

        A restarted game gets it with another seed.
        """
        for copy, seed in enumerate(seeds):
            self._parameters.sample(name, kind, numbers, seed, copy)

    def training_starts(self, facts: TrainingFacts) -> None:
        """Sends facts about the run to the first copy, if the game asks for them."""
        self._analytics.training_starts(facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Sends facts about a behavior to the first copy, if the game asks for them."""
        self._analytics.behavior_joins(facts)

    def connected(self, copy: int, game: GameVersion) -> None:
        """Handles the connection of a copy; reports the game's version to the user when it changes."""
        if copy == 0:
            self._analytics.wanted = "trainingAnalytics" in game.capabilities
        self._parameters.shift_seeds(copy, spacing(self.copies[copy].seeds_used))
        self.channels.connected(copy)
        if self._game != game:
            self._game = game
            self.tell("info", f"Connected to Unity environment with {game.line()}")

    def take_measurements(self) -> list[Measurement]:
        """Returns the values that the games' StatsRecorders have sent since the last call."""
        return self._stats.take()

    def busy_seconds(self) -> dict[str, float]:
        """Returns the seconds between each game's answers and its next messages."""
        return {copy.name: copy.busy for copy in self.copies}

    def render(self, area: int) -> NDArray[np.uint8]:
        """Raises EnvError: a Unity game draws in its own window."""
        raise EnvError(
            "a Unity game draws in its own window: run it with --time-scale 1 and without --no-graphics to watch it"
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Returns an empty state: a game cannot be saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Accepts only the empty state. Raises EnvError for any other."""
        if state:
            raise EnvError(f"a Unity game cannot be restored from a saved state (this one has {', '.join(state)})")

    def interrupt(self) -> None:
        """Makes a waiting `step` return soon, with tables in which no slot is acting. Safe in a signal handler."""
        self._interrupted = True

    def abandon(self) -> None:
        """Kills all games, for a process that is about to end. Safe in a signal handler."""
        for copy in self.copies:
            if copy.process is not None:
                copy.process.kill()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def close(self) -> None:
        """Tells the games to quit, kills those that do not, and frees ports and threads."""
        copies = self.copies
        self.copies = []
        for copy in copies:
            copy.send_quit()
        begin = time.monotonic()
        while time.monotonic() < begin + LAST_TICK_SECONDS and any(will_send_request(copy) for copy in copies):
            with suppress(Empty):
                event = self.inbox.get(timeout=0.02)
                if isinstance(event, Call):
                    event.answer(goodbye())
                    copies[event.copy].phase = Phase.DOWN
        for copy in copies:
            if copy.process is not None:
                grace = begin + CLOSE_SECONDS - time.monotonic()
                if grace < 0 or copy.phase is Phase.STARTING or will_send_request(copy):
                    copy.process.kill()
                copy.process.stop(max(0.0, grace))
        with suppress(Empty):
            while True:
                event = self.inbox.get_nowait()
                if isinstance(event, Call):
                    event.answer(None)
        for copy in copies:
            copy.server.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


def will_send_request(copy: GameInstance) -> bool:
    """Whether a game is going to send another request, in answer to which it can be told to quit."""
    alive = copy.process.code() is None if copy.process is not None else copy.editor
    return alive and copy.phase not in (Phase.DOWN, Phase.STARTING) and copy.call is None


def log(level: str, text: str) -> None:
    """Writes a message to Python's log; the default of `tell`."""
    logging.getLogger("palaestra.unity").log(logging.getLevelName(level.upper()), text)
