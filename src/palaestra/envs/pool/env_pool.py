"""Copies of an environment in processes of their own (`--num-envs`) or on other machines (`--env-runners`), as one
environment.

A tick consists of the copies that are ready; slow ones appear on a later tick, in whose table their slots act again.
Which copies are ready depends on the machine, so that two runs with one seed differ. A copy that crashes or hangs is
started again; its open episodes are `lost`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Pipe
from time import monotonic
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palaestra.core.errors import EnvError, GameGone, PalaestraError
from palaestra.core.metrics import Measurement
from palaestra.core.specs import BehaviorSpec, differences
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import BehaviorFacts, Distribution, TrainingFacts
from palaestra.envs.pool.env_copy import EnvCopy
from palaestra.envs.pool.env_server import Call, CopyReply, EnvFacts
from palaestra.envs.pool.merged_table import MergedTable
from palaestra.envs.restarts import UNLIMITED, RestartPolicy, Restarts
from palaestra.envs.sampler_seeds import spacing
from palaestra.parallel.closing import close_all
from palaestra.parallel.worker import Listener, WorkerLost

DEFAULT_TIMEOUT = 60.0
"""Seconds after which a copy that does not answer has hung."""

ABLE = dict.fromkeys(
    ("asynchronous", "interruptible", "uses_cores", "reports_busy_time", "measures", "run_aware", "timed"), True
)
"""Traits of a pool, whatever its environment's are."""

START_TRIES = 2
"""Times that a copy is started at the beginning, if it ends without a reason of its environment's."""


class EnvPool:
    """An asynchronous `Env` whose areas are those of all copies, one copy after another. It cannot be saved."""

    def __init__(
        self,
        copies: Iterable[EnvCopy],
        *,
        timeout: float | None = None,
        start_timeout: float | None = None,
        restarts: Restarts = UNLIMITED,
        tell: Callable[[str, str], None] | None = None,
        afterwards: Callable[[], None] | None = None,
    ) -> None:
        """Waits for all copies, which start as they come out of `copies`. Raises what the environment raises.

        `timeout`: seconds after which a silent copy has hung; None: DEFAULT_TIMEOUT. `start_timeout`: seconds without a
        sign of any copy at the start; None: `timeout`. `tell` takes level and text of a message to the user; None:
        warnings of Python. `afterwards` is called when all copies have ended.
        """
        self._timeout = DEFAULT_TIMEOUT if timeout is None else timeout
        self._tell = tell
        self._afterwards = afterwards
        self._heard_at = monotonic()
        """Time of the last sign of any copy."""
        self._awake, self._wake = Pipe(duplex=False)
        self._listener = Listener()
        self._listener.add(self._awake)
        self._copy_of: dict[Any, EnvCopy] = {}
        """Copies that run, by their connection."""
        self._interrupted = self._closed = False
        self._seed = 0
        self._told: set[str] = set()
        """Warnings of copies, each of which is passed on once."""
        self._progress = 0
        self._measurements: list[Measurement] = []
        self._tables: dict[str, MergedTable] = {}
        self._busy_before: dict[int, float] = {}
        """By copy, the seconds that it was busy before it was last started again."""
        self._ready: list[int] = []
        """Copies whose agents act in the newest tables."""
        self._starts_at: dict[int, float] = {}
        """When copies that have failed start again."""
        self._ended_for: dict[int, str] = {}
        """Why copies were ended whose end has not been noticed."""
        self._check_at = 0.0
        """When a copy may have hung or starts again, at the earliest."""
        self._parameters: dict[str, Tensor] = {}
        self._calls: dict[Any, Call] = {}
        """The newest call of each method that copies are told again when they start again."""
        self._copies: list[EnvCopy] = []
        self.behaviors: dict[str, BehaviorSpec] = {}
        try:
            for copy in copies:
                self._copies.append(copy)
                self._listen(copy)
            facts = self._first_facts(self._timeout if start_timeout is None else start_timeout)
        except BaseException:
            with suppress(PalaestraError):  # whatever closing adds, the first error counts
                self.close()
            raise
        self._policies = [RestartPolicy(copy.title, restarts) for copy in self._copies]
        self.device = torch.device("cpu")
        self._first_area = np.cumsum([0, *(one.num_areas for one in facts)]).tolist()
        self.num_areas: int = self._first_area[-1]
        self.parameters: Mapping[str, float] = facts[0].parameters
        self.tick_seconds = facts[0].tick_seconds
        self.traits = replace(facts[0].traits, **ABLE)

    def _first_facts(self, timeout: float) -> list[EnvFacts]:
        """Waits until all copies have made their environment."""
        missing = {copy.index: copy for copy in self._copies}
        tries = dict.fromkeys(missing, 1)
        while missing:
            for copy in self._answered(timeout):
                reply = self._receive_first(copy, tries)
                if reply is None:
                    continue
                self._note(copy, reply)
                copy.facts = reply.facts
                del missing[copy.index]
            if missing and monotonic() - self._heard_at > timeout:
                first = next(iter(missing.values()))
                raise GameGone(f"{first.title} did not start within {timeout:g} s{first.explain()} (--timeout-wait)")
        return [copy.facts for copy in self._copies if copy.facts is not None]

    def _receive_first(self, copy: EnvCopy, tries: dict[int, int]) -> CopyReply | None:
        """Returns a copy's first answer; None if it ended without a reason of its environment's and is started
        again.
        """
        try:
            return _received(copy)
        except WorkerLost as error:
            if tries[copy.index] == START_TRIES:
                raise GameGone(str(error)) from error
            tries[copy.index] += 1
            self._warn(f"{error}; it is started again now")
            self._listen_no_more(copy.connection)
            copy.kill()
            copy.close()
            copy.start()
            self._listen(copy)
            return None

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets all copies, each with a seed of its own, and waits for all of them."""
        self._seed = seed
        self._finish_ticks()
        for copy in self._copies:
            if copy.index not in self._starts_at:
                try:
                    copy.reset(self._seed_of(copy.index))
                except WorkerLost as error:
                    self._fail(copy.index, str(error))
        for table in self._tables.values():
            table.clear()
        ready = list[int]()
        while self._starts_at or any(copy.waiting for copy in self._copies):
            ready += self._gather()
        return self._merged(ready)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Starts a tick in the copies of the newest tables and waits for the next. Raises GameGone if a copy is not to
        be restarted.
        """
        self.send(actions)
        return self.receive()

    def send(self, actions: Mapping[str, Action]) -> None:
        """Starts a tick in the copies whose agents acted in the newest tables."""
        for index in self._ready:
            slots_of = {name: table.slots_of[index] for name, table in self._tables.items() if index in table.slots_of}
            try:
                self._copies[index].step(actions, slots_of)
            except WorkerLost as error:
                self._fail(index, str(error))
        self._ready = []

    def receive(self) -> dict[str, TimeStep]:
        """Waits until a copy is ready, and returns the tables of all that are. Raises GameGone if a copy is not to be
        restarted.
        """
        ready = list[int]()
        while not ready and not self._interrupted:
            ready = self._gather()
        self._interrupted = False
        return self._merged(ready)

    def _gather(self) -> list[int]:
        """Waits for at least one copy, or for a time limit, and takes in the answers that are there. Returns the copies
        with tables.
        """
        ready = list[int]()
        for copy in self._answered(max(0.0, self._check_at - monotonic())):
            try:
                reply = _received(copy)
            except WorkerLost as error:
                self._fail(copy.index, str(error))
                continue
            if self._note(copy, reply):
                ready.append(copy.index)
        if monotonic() >= self._check_at:
            self._check_copies()
        return ready

    def _check_copies(self) -> None:
        """Ends the copies that have hung, starts those whose time has come, and notes when to do so again."""
        now = monotonic()
        for copy in self._copies:
            if copy.asked_at is not None and now - copy.asked_at > self._timeout:
                self._fail(copy.index, f"{copy.title} did not answer for {self._timeout:g} s (--timeout-wait)")
        self._start_again()
        hung = [copy.asked_at + self._timeout for copy in self._copies if copy.asked_at is not None]
        self._check_at = min([now + self._timeout, *hung, *self._starts_at.values()]) + 0.001

    def _listen(self, copy: EnvCopy) -> None:
        self._listener.add(copy.connection)
        self._copy_of[copy.connection] = copy

    def _listen_no_more(self, connection: Any) -> None:
        self._listener.remove(connection)
        del self._copy_of[connection]

    def _answered(self, seconds: float) -> list[EnvCopy]:
        """Waits until at least one copy has answered or ended, or is interrupted. Returns those that have."""
        heard = self._listener.wait(seconds)
        if heard:
            self._heard_at = monotonic()
        if self._awake in heard:
            heard.remove(self._awake)
            self._awake.recv_bytes()
        answered = list[EnvCopy]()
        for connection in heard:
            copy = self._copy_of[connection]
            if copy.arrives():
                self._listen_no_more(connection)
                self._listen(copy)
            else:
                answered.append(copy)
        return answered

    def _note(self, copy: EnvCopy, reply: CopyReply) -> bool:
        """Takes in what came with an answer. Returns whether tables came."""
        for text in reply.warnings or ():
            if text not in self._told:
                self._told.add(text)
                self._warn(text)
        for name, spec in (reply.behaviors or {}).items():
            own = BehaviorSpec(spec.obs, spec.action, steady=False)
            if name in self.behaviors and (table := differences(self.behaviors[name], own, ("before", copy.title))):
                raise EnvError(f"the copies of the environment differ in behavior '{name}':\n{table}")
            self.behaviors.setdefault(name, own)
            self._tables.setdefault(name, MergedTable(own))
        self._measurements += reply.measurements or []
        if reply.facts is not None and copy.facts is not None:  # it was started again
            copy.parameters = self._part(copy.index)
            copy.calls = self._calls_of(copy.index)
            copy.reset(self._seed_of(copy.index))
        if not reply.has_tables or copy.tables is None:
            return False
        copy.ticks += 1
        return True

    def _part(self, index: int) -> dict[str, Tensor]:
        """Returns the parameters of a copy's areas."""
        areas = slice(self._first_area[index], self._first_area[index + 1])
        return {name: values[areas] for name, values in self._parameters.items()}

    def _merged(self, ready: list[int]) -> dict[str, TimeStep]:
        self._ready = sorted(set(ready))
        for index in self._ready:  # in this order, whichever came first, so that slots follow areas after a reset
            tables = self._copies[index].tables
            assert tables is not None
            for name, arrays in tables.arrays.items():
                self._tables[name].take(index, arrays, self._first_area[index])
                self._progress += int(arrays["ends"][0])
        return {name: table.table() for name, table in self._tables.items() if table.slots}

    def _seed_of(self, index: int) -> int:
        """Returns the seed of a copy; one that was started again gets another."""
        return (self._seed + self._first_area[index] + self._seeds_used(index)) & 0x7FFFFFFF

    def _seeds_used(self, index: int) -> int:
        """Returns the number of seeds that all copies would have had, if each had been started again as often as this
        one.
        """
        return self._policies[index].restarts * self.num_areas

    def _fail(self, index: int, reason: str) -> None:
        """Ends a copy and schedules its restart. Raises GameGone if there is to be none."""
        copy = self._copies[index]
        reason = self._ended_for.pop(index, reason)
        self._busy_before[index] = self._busy(copy)
        copy.kill()
        self._listen_no_more(copy.connection)
        copy.close()
        copy.asked_at = None
        for table in self._tables.values():
            table.lose(index)
        delay = self._policies[index].failed(GameGone(reason), self._progress, copy.ticks)
        when = "now" if not delay else f"in {delay:g} s"
        self._warn(f"{reason}; it is started again {when} (restart {self._policies[index].restarts})")
        self._starts_at[index] = monotonic() + delay
        self._check_at = min(self._check_at, self._starts_at[index])

    def _warn(self, text: str) -> None:
        if self._tell is None:
            warnings.warn(text, stacklevel=3)
        else:
            self._tell("warning", text)

    def _start_again(self) -> None:
        for index, at in list(self._starts_at.items()):
            if monotonic() >= at:
                del self._starts_at[index]
                self._copies[index].start()
                self._listen(self._copies[index])

    def _finish_ticks(self) -> None:
        """Waits for ticks under way, whose tables are dropped."""
        while any(copy.waiting for copy in self._copies):
            self._gather()
        self._ready = []

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets a value for each area. Raises EnvError for an unknown name."""
        unknown = [name for name in values if name not in self.parameters]
        if unknown and not self.traits.samples_parameters:
            raise EnvError(
                f"{self.traits.name} has no parameter '{unknown[0]}' (it has: {', '.join(self.parameters) or 'none'})"
            )
        self._forget(values)
        self._parameters |= dict(values)
        for copy in self._copies:
            copy.parameters = self._part(copy.index)

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Sets the distribution of a parameter; `seeds` has one for each area. See `EnvWrapper`."""
        self._forget([name])
        call = self._calls["draw", name] = ("draw_parameter", (name, kind, tuple(numbers), tuple(seeds)))
        for copy in self._copies:
            copy.calls.append(self._drawn_by(copy.index, call))

    def _forget(self, names: Iterable[str]) -> None:
        """Forgets the values and distributions of parameters that get others, which a copy would be told after the new
        ones.
        """
        for name in names:
            self._parameters.pop(name, None)
            self._calls.pop(("draw", name), None)
            for copy in self._copies:
                copy.parameters.pop(name, None)
                copy.calls[:] = [
                    (method, given) for method, given in copy.calls if method != "draw_parameter" or given[0] != name
                ]

    def training_starts(self, facts: TrainingFacts) -> None:
        """Passes the facts on to the first copy, if it accepts them."""
        self._tell_first("training", ("training_starts", (facts,)))

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Passes the facts on to the first copy, if it accepts them."""
        self._tell_first(("behavior", facts.behavior_name), ("behavior_joins", (facts,)))

    def _tell_first(self, key: Any, call: Call) -> None:
        first = self._copies[0]
        if first.facts is not None and first.facts.traits.run_aware:
            self._calls[key] = call
            first.calls.append(call)

    def _calls_of(self, index: int) -> list[Call]:
        """Returns what a copy that starts again is told again."""
        calls = self._calls.values()
        return [
            self._drawn_by(index, call) if call[0] == "draw_parameter" else call
            for call in calls
            if index == 0 or call[0] == "draw_parameter"
        ]

    def _drawn_by(self, index: int, call: Call) -> Call:
        """Returns a call of `draw_parameter` with the seeds of one copy's areas; other seeds once it was started
        again.
        """
        method, (*others, seeds) = call
        shift = spacing(self._seeds_used(index))
        own = seeds[self._first_area[index] : self._first_area[index + 1]]
        return method, (*others, tuple((seed + shift) & 0x7FFFFFFF for seed in own) if shift else own)

    def take_measurements(self) -> list[Measurement]:
        """Returns what the copies have measured since the last call."""
        measurements = self._measurements
        self._measurements = []
        return measurements

    def busy_seconds(self) -> dict[str, float]:
        """Returns the seconds that each copy was busy with ticks and resets, as far as finished ones tell."""
        return {copy.title: self._busy(copy) for copy in self._copies}

    def _busy(self, copy: EnvCopy) -> float:
        return self._busy_before.get(copy.index, 0.0) + (0.0 if copy.tables is None else copy.tables.busy_seconds)

    def render(self, area: int) -> np.ndarray:
        """Returns an image of one area.

        Raises EnvError if the environment cannot draw, or if its copy is simulating just now. A copy that ends or hangs
        while it draws is started again on the next tick.
        """
        index = int(np.searchsorted(self._first_area, area, side="right")) - 1
        copy = self._copies[index]
        if copy.waiting or index in self._starts_at:
            raise EnvError(
                f"area {area} cannot be drawn now: its copy is "
                f"{'simulating a tick' if copy.waiting else 'started again soon'}"
            )
        try:
            copy.ask("render", area - self._first_area[index])
            if not copy.connection.poll(self._timeout):
                copy.kill()
                self._ended_for[index] = f"{copy.title} did not draw within {self._timeout:g} s (--timeout-wait)"
                raise WorkerLost(self._ended_for[index])
            reply = copy.receive()
        except WorkerLost as error:
            raise EnvError(f"area {area} cannot be drawn: {error}") from error
        self._note(copy, reply)
        if reply.image is None:
            raise EnvError(f"area {area} cannot be drawn: {reply.undrawn}")
        return reply.image

    def state_dict(self) -> dict[str, Tensor]:
        """Returns an empty state: copies in other processes are not saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises EnvError for any state but the empty one."""
        if state:
            raise EnvError(f"{self.traits.name} with several copies cannot go back to a saved state")

    def interrupt(self) -> None:
        """Makes a waiting `receive` return soon, with tables in which no agent acts. Safe in a signal handler."""
        self._interrupted = True
        with suppress(OSError):
            self._wake.send_bytes(b"!")

    def abandon(self) -> None:
        """Ends all copies at once. Safe in a signal handler."""
        for copy in self._copies:
            copy.kill()

    def close(self) -> None:
        """Ends all copies. May be called again. Raises the first error of an environment that cannot be closed, after
        all have ended.
        """
        if self._closed:
            return
        self._closed = True
        for copy in self._copies:
            copy.leave()
        try:
            close_all([partial(_close, copy) for copy in self._copies])
        finally:
            self._listener.close()
            self._awake.close()
            self._wake.close()
            if self._afterwards is not None:
                self._afterwards()


def _close(copy: EnvCopy) -> None:
    with _naming(copy):
        copy.close()


def _received(copy: EnvCopy) -> CopyReply:
    """Returns a copy's answer. Raises WorkerLost, or what the environment raised, with the copy's number."""
    with _naming(copy):
        return copy.receive()


@contextmanager
def _naming(copy: EnvCopy) -> Iterator[None]:
    """Begins what the environment raises with the copy's number."""
    try:
        yield
    except EnvError as error:
        error.args = (str(error) if str(error).startswith(copy.title) else f"{copy.title}: {error}",)
        raise
