"""Parameters, distributions and facts about the run, which are sent to copies before their next tick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from palaestra.envs.base import Distribution
from palaestra.envs.copies import Copies
from palaestra.envs.pool.env_copy import EnvCopy
from palaestra.envs.pool.env_server import Call, Changes
from palaestra.envs.sampler_seeds import spacing


class CopyChanges:
    """Sends each copy the changes for its areas, and sends all of them again when the copy is restarted."""

    def __init__(self, copies: Copies[EnvCopy], first_area: Sequence[int]) -> None:
        """`first_area`: the number of the first area of each copy, then the number of all areas."""
        self._copies = copies
        self._first_area = first_area
        self._parameters: dict[str, Tensor] = {}
        self._draws: dict[str, Call] = {}
        """The newest call of `draw_parameter` for each parameter."""
        self._facts: dict[str, Call] = {}
        """Calls for the first copy alone, by their subject."""

    def seeds_used(self, index: int) -> int:
        """Returns the number of seeds that all copies would have used, had each restarted as often as this copy."""
        return self._copies.restarts(index) * self._first_area[-1]

    def set(self, values: Mapping[str, Tensor]) -> None:
        """Sets values of parameters, (areas,) each."""
        self._forget(values)
        self._parameters |= values
        for copy in self._copies:
            self._of(copy).parameters.update(self._values_of(copy.index))

    def draw(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Sets the distribution of a parameter; `seeds` has one for each area."""
        self._forget([name])
        call = self._draws[name] = ("draw_parameter", (name, kind, tuple(numbers), tuple(seeds)))
        for copy in self._copies:
            self._of(copy).calls.append(self._drawn_by(copy.index, call))

    def pass_on(self, about: str, method: str, facts: Any) -> None:
        """Passes facts about the run on to the first copy, if it accepts them."""
        first = self._copies[0]
        if first.facts is not None and first.facts.traits.run_aware:
            self._facts[about] = (method, (facts,))
            self._of(first).calls.append(self._facts[about])

    def restate(self, copy: EnvCopy) -> None:
        """Sends all changes to a copy that was started again."""
        facts = self._facts.values() if copy.index == 0 else ()
        draws = [self._drawn_by(copy.index, call) for call in self._draws.values()]
        copy.changes = Changes(self._values_of(copy.index), [*facts, *draws])

    @staticmethod
    def _of(copy: EnvCopy) -> Changes:
        if copy.changes is None:
            copy.changes = Changes()
        return copy.changes

    def _areas_of(self, index: int) -> slice:
        return slice(self._first_area[index], self._first_area[index + 1])

    def _values_of(self, index: int) -> dict[str, Tensor]:
        return {name: values[self._areas_of(index)] for name, values in self._parameters.items()}

    def _drawn_by(self, index: int, call: Call) -> Call:
        """Returns a call with the seeds of one copy's areas; after a restart of the copy, with other seeds."""
        method, (*others, seeds) = call
        shift = spacing(self.seeds_used(index))
        return method, (*others, tuple((seed + shift) & 0x7FFFFFFF for seed in seeds[self._areas_of(index)]))

    def _forget(self, names: Iterable[str]) -> None:
        """Forgets older values and distributions of these parameters, so that a restarted copy does not get them."""
        for name in names:
            self._parameters.pop(name, None)
            self._draws.pop(name, None)
            for changes in (copy.changes for copy in self._copies if copy.changes is not None):
                changes.parameters.pop(name, None)
                changes.calls[:] = [
                    (method, given) for method, given in changes.calls if method != "draw_parameter" or given[0] != name
                ]
