"""Copies of an environment in separate processes (`--num-envs`) or on other machines (`--env-runners`), as one
environment.

A tick consists of the copies that are ready; a slow copy is part of a later tick, on which its slots act again. Which
copies are ready depends on the machine, so that two runs with one seed differ. A copy that crashes or hangs is started
again; its open episodes are `lost`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic

import numpy as np
from torch import Tensor

from palaestra.core.errors import EnvError, GameGone, PalaestraError
from palaestra.core.metrics import Measurement
from palaestra.core.specs import BehaviorSpec, differences
from palaestra.core.timestep import Action, TimeStep
from palaestra.core.wording.voice import voiced
from palaestra.envs.base import BehaviorFacts, Distribution, TrainingFacts
from palaestra.envs.copies import UNLIMITED, Copies, CopyFailed, Log, Restarts, named
from palaestra.envs.env_of_copies import EnvOfCopies
from palaestra.envs.pool.copy_changes import CopyChanges
from palaestra.envs.pool.env_copy import EnvCopy
from palaestra.envs.pool.env_server import CopyReply, EnvFacts
from palaestra.envs.pool.links import Link
from palaestra.envs.pool.merged_table import MergedTable
from palaestra.envs.spaces.episode_parameters import check_taken
from palaestra.parallel.worker import Listener

DEFAULT_TIMEOUT = 60.0
"""Seconds after which a copy that does not answer has hung."""

NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")
"""Pattern of a number in a warning; of warnings that differ only in numbers, one is shown."""

ABLE = dict.fromkeys(
    ("asynchronous", "interruptible", "uses_cores", "reports_busy_time", "measures", "run_aware", "timed"), True
)
"""Traits that a pool has whatever its environments have."""

START_TRIES = 2
"""Most starts of a copy at the beginning, if it ends without an error of its environment."""


class EnvPool(EnvOfCopies[EnvCopy]):
    """An asynchronous `Env` that joins the areas of all copies, one copy after another."""

    def __init__(
        self,
        links: Iterable[Link],
        *,
        timeout: float | None = None,
        start_timeout: float | None = None,
        restarts: Restarts = UNLIMITED,
        log: Log | None = None,
        afterwards: Callable[[], None] = lambda: None,
    ) -> None:
        """Starts a copy for each link and waits for all of them. Raises what the environment raises.

        `timeout`: seconds after which a silent copy has hung; None: DEFAULT_TIMEOUT. `start_timeout`: seconds without a
        sign of any copy at the start; None: `timeout`. A copy that is started again has the longer of the two. `log`:
        None: warnings of Python. `afterwards` is called when all copies have ended.
        """
        timeout = DEFAULT_TIMEOUT if timeout is None else timeout
        start_timeout = timeout if start_timeout is None else start_timeout
        self._log = log or warn
        self._seed = 0
        self._warned: set[str] = set()
        """Warnings of copies, each of which is passed on once."""
        self._measurements: list[Measurement] = []
        self._tables: dict[str, MergedTable] = {}
        self._acting: list[EnvCopy] = []
        """Copies whose agents act in the newest tables."""
        self.behaviors: dict[str, BehaviorSpec] = {}
        listener = Listener()
        super().__init__(Copies(listener, restarts, self._log, grace=0.0, start_tries=START_TRIES))
        self.copies.afterwards = afterwards
        try:
            for index, link in enumerate(links):
                self.copies.grace = max(self.copies.grace, link.grace)
                self.copies.add(EnvCopy(index, link, listener, timeout, max(timeout, start_timeout), self._take_in))
            facts = self._first_facts(start_timeout)
        except BaseException:
            with suppress(PalaestraError):  # whatever closing adds, the first error counts
                self.close()
            raise
        self.copies.begun = True
        self._first_area = np.cumsum([0, *(one.num_areas for one in facts)]).tolist()
        self._changes = CopyChanges(self.copies, self._first_area)
        self.num_areas: int = self._first_area[-1]
        self.parameters: Mapping[str, float] = facts[0].parameters
        self.tick_seconds = facts[0].tick_seconds
        self.traits = replace(facts[0].traits, **ABLE)

    def _first_facts(self, timeout: float) -> list[EnvFacts]:
        while missing := [copy for copy in self.copies if copy.facts is None]:
            self.copies.gather()
            if monotonic() - self.copies.last_message_at > timeout:
                first = missing[0]
                raise GameGone(
                    f"{first.title} did not start within {timeout:g} s{first.link.explain_waiting()} (--timeout-wait)"
                )
        return [copy.facts for copy in self.copies if copy.facts is not None]

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets all copies, each with its own seed, and waits for all of them, or for an interruption."""
        copies = self.copies
        self._seed = seed
        self._wait_for_all()  # the tables of ticks under way are dropped
        copies.ready.clear()
        if copies.interrupted:  # a copy that still simulates cannot be asked for anything
            return self._tables_of_tick()
        copies.failed.clear()
        for copy in copies:
            if copy.index not in copies.starts_at:
                copies.attempt(copy, lambda copy=copy: copy.ask("reset", self._seed_of(copy.index)))
        self._wait_for_all()
        return self._tables_of_tick()

    def _wait_for_all(self) -> None:
        copies = self.copies
        while (copies.starts_at or any(copy.asked_at is not None for copy in copies)) and not copies.interrupted:
            copies.gather()

    def send(self, actions: Mapping[str, Action]) -> None:
        """See `EnvOfCopies`."""
        for copy in self._acting:
            slots_of = {
                name: table.slots_of[copy.index] for name, table in self._tables.items() if copy.index in table.slots_of
            }
            self.copies.attempt(copy, lambda copy=copy, slots_of=slots_of: copy.step(actions, slots_of))
        self._acting = []

    def _take_in(self, copy: EnvCopy, reply: CopyReply) -> None:
        for text in reply.warnings or ():
            if (alike := NUMBER.sub("0", text)) not in self._warned:
                self._warned.add(alike)
                self._log("warning", text)
        for name, spec in (reply.behaviors or {}).items():
            own = BehaviorSpec(spec.obs, spec.action, steady=False)
            if name in self.behaviors and (table := differences(self.behaviors[name], own, ("before", copy.title))):
                raise EnvError(f"the copies of the environment differ in behavior '{name}':\n{table}")
            self.behaviors.setdefault(name, own)
            self._tables.setdefault(name, MergedTable(own))
        self._measurements += reply.measurements or []
        if reply.facts is None:
            return
        if self.copies.begun:  # it was started again
            self._changes.restate(copy)
            copy.ask("reset", self._seed_of(copy.index))
        copy.facts = copy.facts or reply.facts

    def _tables_of_tick(self) -> dict[str, TimeStep]:
        for table in self._tables.values():
            for index in self.copies.failed:
                table.lose(index)
        self.copies.failed.clear()
        self._acting = self.copies.take_ready()  # in this order, whichever came first: slots follow areas after a reset
        for copy in self._acting:
            assert copy.tables is not None
            for name, arrays in copy.tables.arrays.items():
                self._tables[name].take(copy.index, arrays, self._first_area[copy.index])
                self.copies.progress += int(arrays["ends"][0])
        return {name: table.table() for name, table in self._tables.items() if table.slots}

    def _seed_of(self, index: int) -> int:
        """Returns the seed of a copy; one that was started again gets another."""
        return (self._seed + self._first_area[index] + self._changes.seeds_used(index)) & 0x7FFFFFFF

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets a value for each area. Raises EnvError for an unknown name."""
        unknown = [name for name in values if name not in self.parameters]
        if unknown and not self.traits.samples_parameters:
            check_taken(unknown[0], self.parameters, self.traits.refused_parameters, self.traits.name)
        self._changes.set(values)

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Sets the distribution of a parameter; `seeds` has one for each area. See `EnvWrapper`."""
        self._changes.draw(name, kind, numbers, seeds)

    def training_starts(self, facts: TrainingFacts) -> None:
        """Passes the facts on to the first copy, if it accepts them."""
        self._changes.pass_on("the run", "training_starts", facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Passes the facts on to the first copy, if it accepts them."""
        self._changes.pass_on(f"behavior {facts.behavior_name}", "behavior_joins", facts)

    def take_measurements(self) -> list[Measurement]:
        """Returns the measurements of the copies since the last call."""
        measurements = self._measurements
        self._measurements = []
        return measurements

    def busy_seconds(self) -> dict[str, float]:
        """Returns the seconds that each copy spent on finished ticks and resets."""
        return {copy.title: copy.busy for copy in self.copies}

    def render(self, area: int) -> np.ndarray:
        """Returns an image of one area.

        Raises EnvError if the environment cannot draw, or if its copy is in the middle of a tick. A copy that ends or
        hangs while it draws is started again on the next tick.
        """
        index = int(np.searchsorted(self._first_area, area, side="right")) - 1
        copy = self.copies[index]
        failed = index in self.copies.starts_at
        if failed or copy.asked_at is not None:
            why = "started again soon" if failed else "simulating a tick"
            raise EnvError(f"area {area} cannot be drawn now: its copy is {why}")
        try:
            reply = copy.draw(area - self._first_area[index])
        except CopyFailed as failure:
            raise EnvError(f"area {area} cannot be drawn: {named(failure.error, copy.title)}") from failure
        self._take_in(copy, reply)
        if reply.image is None:
            raise EnvError(f"area {area} cannot be drawn: {reply.undrawn}")
        return reply.image


def warn(_: str, text: str) -> None:
    """Warns the user as Python does; the default of `log`."""
    warnings.warn(voiced(text), stacklevel=2)
