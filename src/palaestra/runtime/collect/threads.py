"""How many threads PyTorch computes with in a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

from palaestra.core.processes import usable_cores
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.learner import Learner

MUCH_WORK = 30_000_000
"""Multiplications in one forward pass from which a second core pays off."""


class ComputeThreads:
    """Sets the number of threads: the setting's, else one chosen by the size of the networks, anew when a behavior
    appears.

    Between updates it is one where copies of the environment, or trainers, compete for the cores: several threads would
    wait for them.
    """

    def __init__(
        self, setting: int | None, learners: Mapping[str, Learner], group: RankGroup, *, cores_are_busy: bool
    ) -> None:
        """`cores_are_busy`: the environment simulates beside this process."""
        self.number = setting
        self._is_given = setting is not None
        self._learners = learners
        self._group = group
        self._cores_are_busy = cores_are_busy

    def choose(self, tell: Callable[[str], object], saved: int | None = None) -> None:
        """Chooses the number unless the settings do, and tells it. `saved`: the number of a run that goes on."""
        if not self._is_given:
            if saved is None:
                work = max((learner.work for learner in self._learners.values()), default=0)
                number, why = threads_for(work, self._group)
                if number != self.number:
                    tell(why)
                self.number = number
            else:
                self.number = saved
        torch.set_num_threads(self._acting)

    @property
    def _acting(self) -> int:
        threaded = any(learner.settings.threaded for learner in self._learners.values())
        return 1 if threaded or self._cores_are_busy else self.number or 1

    @contextmanager
    def all(self) -> Iterator[None]:
        """Uses all threads within the block."""
        torch.set_num_threads(self.number or 1)
        try:
            yield
        finally:
            torch.set_num_threads(self._acting)


def threads_for(work: int, group: RankGroup) -> tuple[int, str]:
    """Returns the number of threads, and why: all cores that it may use (or OMP_NUM_THREADS) if a forward pass is
    large, else one.
    """
    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(told) if told.isdigit() else usable_cores()
    threads = max(1, cores // group.local_size) if work >= MUCH_WORK else 1
    much = f"{work / 1e6:,.0f} million" if work >= 1e6 else "less than a million"
    why = f"{much} multiplications in a pass of a minibatch or a tick; --torch-threads chooses"
    return threads, f"Computing with {threads} {'thread' if threads == 1 else 'threads'}: {why}"
