"""The processes that train one run together, as an object that is passed to whoever needs the others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from palaestra.core.errors import ConfigError
from palaestra.parallel.rank_store import Place

T = TypeVar("T")
SEED_STRIDE = 1_000_003
"""Distance between the seeds of two ranks: a prime, far larger than the differences between seeds of one rank."""


class RankGroup:
    """The processes that train one run together, each a *rank* with areas of its own and the same weights.

    This class is a group of one: every method returns at once what a single process needs, and exchanges nothing, so
    that nobody has to ask how many ranks there are. `palaestra.parallel.several_ranks.SeveralRanks` is a group of more.
    """

    size: int = 1
    """Number of ranks."""
    number: int = 0
    """This rank's number, from 0."""
    waited: float = 0.0
    """Seconds that this process has spent in calls in which all ranks take part, waiting and exchanging."""

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which writes files and the console."""
        return self.number == 0

    @property
    def local_number(self) -> int:
        """This rank's number among those of this machine."""
        return 0

    @property
    def local_size(self) -> int:
        """Number of ranks on this machine."""
        return 1

    def own_seed(self, seed: int) -> int:
        """Returns a seed of this rank's own: rank 0 has the given one."""
        return (seed + self.number * SEED_STRIDE) & 0x7FFFFFFF if self.number else seed

    def share(self, total: int, *, rounded_down: bool = False) -> int:
        """Returns this rank's part of a number of decisions. All ranks have the same, which is rounded up where it does
        not divide.
        """
        return total // self.size if rounded_down else -(-total // self.size)

    def split(self, total: int, what: str = "things", flag: str = "") -> int:
        """Returns this rank's part of a number of areas or copies; the first ranks have one more where it does not
        divide. Raises ConfigError if a rank would have none; it names `what` they are and their command-line `flag`.
        """
        if total < self.size:
            raise ConfigError(f"{self.size} processes cannot share {total} {what}: each needs one at least ({flag})")
        return total // self.size + (self.number < total % self.size)

    def before(self, total: int) -> int:
        """Returns the sum of the parts that `split` gives to the ranks before this one."""
        return self.number * (total // self.size) + min(self.number, total % self.size)

    def known(self, now: T, when_met: T) -> T:
        """Returns what all ranks know of a number: in a group of one as it is `now`, else as it was `when_met`."""
        return now

    def ticks_until(self, ticks: int, every: int) -> int | None:
        """Returns the number of ticks until the next multiple of `every`. None in a group of several: their ranks are
        at different ticks when they meet, and do then what is due.
        """
        return every - ticks % every

    def own_of(self, values: Sequence[T]) -> T:
        """Returns this rank's of the values, one for each rank."""
        return values[self.number]

    def first(self, work: Callable[[], T]) -> T | None:
        """Returns what `work` returns on rank 0. Does nothing on the others, and returns None."""
        return work() if self.leads else None

    def when_first_is_done(self, work: Callable[[], T]) -> T:
        """Returns what `work` returns on rank 0. The others wait for as long as rank 0 gives signs of life, however
        long that takes. Raises RankLost.
        """
        return work()

    def from_first(self, value: T) -> T:
        """Returns rank 0's value."""
        return value

    def share_weights(self, network: nn.Module) -> None:
        """Gives the network of every rank the weights of rank 0's."""

    def gather(self, value: T) -> list[T]:
        """Returns the values of all ranks, in their order."""
        return [value]

    def of_others(self, make: Callable[[], T]) -> list[T]:
        """Returns, on rank 0, what the other ranks make, in their order; on these an empty list."""
        return []

    def gather_numbers(self, values: Sequence[float]) -> list[list[float]]:
        """Returns the numbers of all ranks, in their order: as many of each."""
        return [list(values)]

    def gather_tensor(self, values: Tensor) -> list[Tensor]:
        """Returns a tensor of the same shape and type from every rank; those of several are on the CPU."""
        return [values]

    def least(self, count: int) -> int:
        """Returns the smallest of all ranks' counts."""
        return int(min(row[0] for row in self.gather_numbers([count])))

    def total(self, count: float) -> float:
        """Returns the sum of all ranks' numbers."""
        return sum(row[0] for row in self.gather_numbers([count]))

    def average(self, tensors: Sequence[Tensor], rows: float) -> None:
        """Replaces every tensor by its mean over all ranks, weighted by `rows`."""

    def average_gradients(self, parameters: Sequence[Tensor], rows: float) -> None:
        """Replaces every gradient by its mean over all ranks, weighted by the `rows` that each rank's is a mean over.

        One call for all parameters on a device. A parameter without a gradient counts as one of 0, and stays without if
        no rank has one.
        """

    def mean_and_deviation(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Returns mean and standard deviation, each (), of the values (N,) of all ranks."""
        return values.mean(), values.std(correction=0)

    def must_have_same(self, versions: Mapping[str, str]) -> None:
        """Raises ConfigError if these differ between ranks, such as those of two machines."""
        found = self.gather(dict(versions))
        if any(one != found[0] for one in found):
            told = "; ".join(
                f"rank {rank}: {', '.join(f'{name} {version}' for name, version in one.items())}"
                for rank, one in enumerate(found)
            )
            raise ConfigError(
                f"all processes of a run must have the same versions; found {told}; install the same ones on every "
                "machine"
            )

    def note_begun(self, run: str) -> None:
        """Notes that a run has begun, for ranks that are started again."""

    def begun_before(self, run: str) -> bool:
        """Whether this job has begun the run before, and its ranks were started again. The same on all ranks."""
        return False

    def leave_message(self, text: str) -> None:
        """Tells the other ranks why this one ends, so that they can report it."""

    def place_for(self, task: str) -> Place | None:
        """Returns the place of a process that does a task for this rank, and meets those of the other ranks; None in a
        group of one.
        """
        return None

    def make(self, kind: Callable[..., T], what: str, *arguments: Any) -> T:
        """Returns what a trainer's or a reward signal's class makes of these arguments, and of `group` where its
        constructor has a parameter of that name. `what`: its name in messages.

        Raises ConfigError where there are several ranks and it has none: it would learn in each for itself.
        """
        if takes_group(kind):
            return kind(*arguments, group=self)
        if self.size > 1:
            raise ConfigError(
                f"{what} cannot learn in {self.size} processes: its constructor has no parameter 'group', with which "
                "it would average its gradients (docs/guides/own-trainer.md, Several processes); give it one, or train "
                "in one process"
            )
        return kind(*arguments)


def takes_group(kind: Callable[..., object]) -> bool:
    """Whether a constructor has a parameter `group`, so that it can learn in several ranks."""
    try:
        return "group" in inspect.signature(kind).parameters
    except (TypeError, ValueError):  # of a class that is not written in Python
        return False


ALONE = RankGroup()
"""The group of one process."""
