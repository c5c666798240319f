"""The processes that train one run together, as an object for every caller that needs the other ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from palaestra.parallel.rank_store import Place

T = TypeVar("T")
SEED_STRIDE = 1_000_003
"""Distance between the seeds of two ranks: a prime, far larger than the differences between seeds of one rank."""


class RankGroup:
    """The processes that train one run together; each is a *rank* with its own areas and the same weights.

    This class is a group of one: every method returns at once what a single process needs, and exchanges nothing, so no
    caller needs to know the number of ranks. `palaestra.parallel.several_ranks.SeveralRanks` is a group of more;
    `palaestra.parallel.rank_setup` has what ranks do once in a run.
    """

    size: int = 1
    """Number of ranks."""
    number: int = 0
    """This rank's number, from 0."""
    local_size: int = 1
    """Number of ranks on this machine."""
    local_number: int = 0
    """This rank's number among the ranks on this machine."""
    waited: float = 0.0
    """Seconds that this process has spent in calls in which all ranks take part, waiting and exchanging."""
    place: Place = Place(0, 1, "", 0.0, False, "")
    """This rank's place among all ranks."""
    job: Any = None
    """The store of all ranks, which torchrun keeps when it starts them again; None in a group of one."""
    store: Any = None
    """The store of this group's own; None in a group of one."""

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which writes files and prints to the console."""
        return self.number == 0

    def own_seed(self, seed: int) -> int:
        """Returns a seed for this rank: rank 0 has the given seed, the others have different seeds."""
        return (seed + self.number * SEED_STRIDE) & 0x7FFFFFFF if self.number else seed

    def share(self, total: int, *, rounded_down: bool = False) -> int:
        """Returns this rank's part of a number of decisions. All ranks get the same number, rounded up if it does not
        divide evenly."""
        return total // self.size if rounded_down else -(-total // self.size)

    def known(self, now: T, when_met: T) -> T:
        """Returns a value that all ranks know: in a group of one the value `now`, else the value at the last meeting,
        `when_met`."""
        return now

    def first(self, work: Callable[[], T]) -> T | None:
        """Returns what `work` returns on rank 0. Does nothing on the other ranks, and returns None."""
        return work() if self.leads else None

    def when_first_is_done(self, work: Callable[[], T]) -> T:
        """Returns what `work` returns on rank 0. The other ranks wait for as long as rank 0 gives signs of life,
        however long that takes. Raises RankLost."""
        return work()

    def from_first(self, value: T) -> T:
        """Returns rank 0's value."""
        return value

    def gather(self, value: T) -> list[T]:
        """Returns the values of all ranks, in their order."""
        return [value]

    def of_others(self, make: Callable[[], T]) -> list[T]:
        """Returns, on rank 0, the other ranks' results in their order; on the other ranks an empty list."""
        return []

    def gather_tensor(self, values: Tensor) -> list[Tensor]:
        """Returns a tensor of the same shape and type from every rank; with several ranks they are on the CPU."""
        return [values]

    def gather_numbers(self, values: Sequence[float]) -> list[list[float]]:
        """Returns the numbers of all ranks, in the order of ranks; each rank gives equally many."""
        return [row.tolist() for row in self.gather_tensor(torch.tensor(values, dtype=torch.float64))]

    def least(self, count: int) -> int:
        """Returns the smallest of all ranks' counts."""
        return int(min(row[0] for row in self.gather_numbers([count])))

    def total(self, count: float) -> float:
        """Returns the sum of all ranks' numbers."""
        return sum(row[0] for row in self.gather_numbers([count]))

    def average(self, tensors: Sequence[Tensor], rows: float) -> None:
        """Replaces every tensor by its mean over all ranks, weighted by `rows`."""

    def average_gradients(self, parameters: Sequence[Tensor], rows: float) -> None:
        """Replaces every gradient by its mean over all ranks; `rows` (the size of a rank's batch) is the weight.

        Makes one call for all parameters on a device. A missing gradient counts as 0; if no rank has a gradient for a
        parameter, the parameter keeps none.
        """


def mean_and_deviation(values: Tensor, group: RankGroup) -> tuple[Tensor, Tensor]:
    """Returns mean and standard deviation, each (), of the values (N,) of all ranks."""
    if group.size == 1:
        return values.mean(), values.std(correction=0)
    wide = values.double()
    parts = group.gather_numbers([len(wide), float(wide.mean()), float(wide.var(correction=0))])
    rows = sum(part[0] for part in parts)
    middle = sum(part[0] * part[1] for part in parts) / rows
    variance = sum(part[0] * (part[2] + (part[1] - middle) ** 2) for part in parts) / rows
    return values.new_tensor(middle), values.new_tensor(variance**0.5)


ALONE = RankGroup()
"""The group of a single process."""
