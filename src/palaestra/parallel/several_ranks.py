"""A group of several ranks: only this module and `parallel.ranks` use torch.distributed."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from palaestra.core.errors import RankLost
from palaestra.parallel.rank_group import RankGroup
from palaestra.parallel.rank_store import Place, give_signs_of_life, lost_rank, unmet, wait_for_first
from palaestra.parallel.shared_sums import SharedSums

T = TypeVar("T")
MOST_PAIRED = 16
MOST_NUMBERS = 1 << 20
"""Most ranks, and most numbers, for sums in pairs."""
SHARED_TYPES = (torch.float32, torch.float64, torch.int64)
"""Types of numbers that are summed in shared memory."""


class SeveralRanks(RankGroup):
    """Ranks that torchrun or `--processes` has started, or processes that do the same task for each of them.

    The processes meet at the first call in which all take part, so that ranks may start such processes in any order.
    """

    def __init__(self, place: Place, job: Any = None) -> None:
        """`job`: the store of all ranks, which torchrun keeps when it restarts ranks; None: this process opens it."""
        self.place = place
        self.number = place.number
        self.size = place.size
        self.local_size = int(os.environ.get("LOCAL_WORLD_SIZE", place.size))
        self.local_number = int(os.environ.get("LOCAL_RANK", place.number))
        self.sums: SharedSums | None = None
        """Sums in shared memory, if all ranks are on this machine."""
        self.job = job
        self._on_gpu: Any = None  # process group for tensors on a GPU; None: the default one
        self._calls = 0  # collective calls so far: a rank with fewer of them is the one that others wait for
        self._ended = threading.Event()

    def connect(self) -> None:
        """Meets the other processes of the group. Raises RankLost if a process does not come."""
        import torch.distributed as dist

        limit = timedelta(seconds=self.place.timeout)
        try:
            if self.job is None:
                address = os.environ["MASTER_ADDR"]
                port = int(os.environ["MASTER_PORT"])
                self.job = dist.TCPStore(address, port, is_master=False, timeout=limit)  # pyright: ignore[reportPrivateImportUsage]
            store = self._store_of(self.place.task)
            dist.init_process_group("gloo", store=store, rank=self.number, world_size=self.size, timeout=limit)
        except (RuntimeError, ValueError) as error:
            raise RankLost(unmet(self.number, str(error)), reports=self.number <= 1) from error
        self.store = store.clone()
        if self.place.on_gpu and dist.is_nccl_available():
            torch.cuda.set_device(self.local_number)
            self._on_gpu = dist.new_group(backend="nccl", timeout=limit)
        give_signs_of_life(self.store, self.number, lambda: self._calls, self._ended)
        if self.size <= MOST_PAIRED:
            self.sums = SharedSums.join(self.number, self.size, self.place.timeout, self.from_first, self.gather)

    def leave(self) -> None:
        """Ends this process's part in the group."""
        import torch.distributed as dist

        if self.sums is not None:
            self.sums.leave()
        self._ended.set()
        with suppress(Exception):
            dist.destroy_process_group()

    def _store_of(self, task: str) -> Any:
        """Returns the store of the processes that do a task for their ranks."""
        from torch.distributed import distributed_c10d as c10d

        store: Any = c10d.PrefixStore(f"palaestra/{self.place.session}/{task}", self.job)
        return store.clone()

    @contextmanager
    def _together(self) -> Iterator[None]:
        """A call in which all ranks take part. Raises RankLost if one does not."""
        if self.store is None:  # this process has not met the others
            self.connect()
        self._calls += 1
        with self._waiting():
            yield

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Counts the time of a block in which this rank waits for others. Raises RankLost if the store is gone."""
        start = time.perf_counter()
        try:
            yield
        except RuntimeError as error:
            raise self._lost() from error
        finally:
            self.waited += time.perf_counter() - start

    def _lost(self) -> RankLost:
        """Returns the error that names the rank that is missing."""
        return lost_rank(self.store, lambda: self._store_of(""), self.number, self.size, self._calls)

    def when_first_is_done(self, work: Callable[[], T]) -> T:
        """Returns what `work` returns on rank 0. The other ranks wait for as long as rank 0 gives signs of life,
        however long that takes. Raises RankLost."""
        if self.store is None:
            self.connect()
        key = f"done/{self._calls}"
        if self.number:
            with self._waiting():
                if not wait_for_first(self.store, self._store_of(""), self.size, key):
                    raise self._lost()
            return self.from_first(cast(T, None))
        result = work()
        store: Any = self.store
        store.set(key, "1")
        return self.from_first(result)

    def from_first(self, value: T) -> T:
        """Returns rank 0's value."""
        import torch.distributed as dist

        with self._together():
            box = [value]
            dist.broadcast_object_list(box, 0)
            return box[0]

    def known(self, now: T, when_met: T) -> T:
        """Returns a value that all ranks know: the value `when_met`."""
        return when_met

    def gather(self, value: T) -> list[T]:
        """Returns the values of all ranks, in their order."""
        import torch.distributed as dist

        with self._together():
            if self.sums is not None:
                return [pickle.loads(each) for each in self.sums.gather(pickle.dumps(value))]
            found: list[Any] = [None] * self.size
            dist.all_gather_object(found, value)
            return found

    def of_others(self, make: Callable[[], T]) -> list[T]:
        """Returns, on rank 0, the other ranks' results in their order; on the other ranks an empty list."""
        import torch.distributed as dist

        own = make()
        with self._together():
            found: list[Any] | None = [None] * self.size if self.number == 0 else None
            dist.gather_object(own, found, 0)
            return [] if found is None else found[1:]

    def gather_tensor(self, values: Tensor) -> list[Tensor]:
        """Returns a tensor of the same shape and type from every rank, on the CPU."""
        with self._together():
            found = torch.zeros((self.size, *values.shape), dtype=values.dtype)
            found[self.number] = values.detach().cpu()
            self._sum(found)  # of zeros and one row each: exact
            return list(found)

    def average_gradients(self, parameters: Sequence[Tensor], rows: float) -> None:
        """Replaces every gradient by its mean over all ranks; `rows` (the size of a rank's batch) is the weight."""
        if not parameters:
            return
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        some_have_one = parameters[0].new_tensor([p.grad is not None for p in parameters])
        self.average([*gradients, some_have_one], rows)
        if any(p.grad is None for p in parameters):
            for p, gradient, some in zip(parameters, gradients, some_have_one.tolist(), strict=True):
                p.grad = gradient if some else None

    @torch.no_grad()
    def average(self, tensors: Sequence[Tensor], rows: float) -> None:
        """Replaces every tensor by its mean over all ranks, weighted by `rows`."""
        if not tensors:
            return
        with self._together():
            weight = tensors[0].new_full((1,), rows)
            whole = torch.cat([*(x.reshape(-1) for x in tensors), torch.ones_like(weight)]).mul_(weight)
            self._sum(whole)
            whole.div_(whole[-1].clone())
            parts = whole[:-1].split([x.numel() for x in tensors])
            for x, part in zip(tensors, parts, strict=True):
                x.copy_(part.view_as(x))

    def _sum(self, values: Tensor) -> None:
        """Replaces a tensor by its sum over all ranks, the same digits on each.

        Few ranks of one machine use shared memory; on several machines pairs exchange their sums until all ranks have
        the total. gloo's `all_reduce` hands each call to another thread, which takes six times as long for a small
        network.
        """
        import torch.distributed as dist

        if values.device.type == "cuda":
            dist.all_reduce(values, group=self._on_gpu)
            return
        small = values.numel() <= MOST_NUMBERS
        if self.sums is not None and small and values.is_contiguous() and values.dtype in SHARED_TYPES:
            self.sums.add(values)
            return
        if self.size & (self.size - 1) or self.size > MOST_PAIRED or not small:
            dist.all_reduce(values)
            return
        theirs = torch.empty_like(values)
        distance = 1
        while distance < self.size:
            other = self.number ^ distance
            sending = dist.isend(values, other)
            dist.recv(theirs, other)
            assert sending is not None
            sending.wait()
            values += theirs
            distance *= 2
