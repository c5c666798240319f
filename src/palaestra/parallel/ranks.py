"""Several processes that train one run together, each a *rank*: torch.distributed, which this module alone uses.

Every rank has areas of its own, and the same weights. Outside a group of ranks every function returns at once what one
process needs.
"""

from __future__ import annotations

import errno
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError, RankLost
from palaestra.parallel.rank_store import BEGUN, LEFT, agree_on_session, beats, left_message, within
from palaestra.parallel.shared_sums import SharedSums

T = TypeVar("T")
SEED_STRIDE = 1_000_003
"""Distance between the seeds of two ranks: a prime, far larger than the differences between seeds of one rank."""
BEAT = 0.5
"""Seconds between two signs of life of a rank."""
SILENCE = 5.0
"""Seconds without a sign of life after which a rank is dead or stopped."""
MOST_PAIRED = 16
MOST_NUMBERS = 1 << 20
"""Most ranks, and most numbers, that are summed in pairs."""
SHARED_TYPES = (torch.float32, torch.float64, torch.int64)
"""Types of numbers that are summed in shared memory."""
LOOPBACK = "127.0.0.1"
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that torchrun sets for each rank."""


class Place(NamedTuple):
    """A rank's place in its group, for a process that works for the rank and meets those that do the same for the other
    ranks.
    """

    number: int
    size: int
    session: str
    timeout: float
    on_gpu: bool
    task: str
    """Purpose of these processes; empty: the ranks themselves."""


@dataclass(slots=True)
class _Group:
    """The group of ranks that this process belongs to."""

    place: Place
    number: int
    size: int
    job: Any = None  # the store of the whole job, which torchrun keeps when it starts ranks again
    store: Any = None  # the group's own; None: this process has not met the others
    on_gpu: Any = None  # process group for tensors on a GPU; None: the default one
    sums: SharedSums | None = None  # for ranks that are all on this machine
    calls: int = 0  # collective calls so far: a rank with fewer of them is the one that others wait for
    ended: threading.Event = field(default_factory=threading.Event)


_group: _Group | None = None


def asked() -> bool:
    """Whether this process was started as one of several ranks, as torchrun does."""
    return "RANK" in os.environ and _from_torchrun("WORLD_SIZE", "1") > 1


def _from_torchrun(name: str, usual: str = "") -> int:
    """Returns a number that torchrun has set. Raises ConfigError if it is none."""
    text = os.environ.get(name, usual)
    if not text.isdigit():
        raise ConfigError(f"the environment variable {name} is '{text}': expected a whole number, as torchrun sets it")
    return int(text)


def size() -> int:
    """Returns the number of ranks."""
    return 1 if _group is None else _group.size


def number() -> int:
    """Returns this rank's number, from 0."""
    return 0 if _group is None else _group.number


def leads() -> bool:
    """Whether this is rank 0, which writes files and the console."""
    return number() == 0


def local_number() -> int:
    """Returns this rank's number among those of this machine."""
    return int(os.environ.get("LOCAL_RANK", number())) if _group is not None else 0


def local_size() -> int:
    """Returns the number of ranks on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", size())) if _group is not None else 1


def own_seed(seed: int) -> int:
    """Returns a seed of this rank's own: rank 0 has the given one."""
    return (seed + number() * SEED_STRIDE) & 0x7FFFFFFF if number() else seed


def share(total: int) -> int:
    """Returns this rank's part of a number of decisions, at least 1; all parts are equal."""
    return max(1, -(-total // size()))


def split(total: int) -> int:
    """Returns this rank's part of a number of areas or copies; the first ranks have one more where it does not
    divide.
    """
    return total // size() + (number() < total % size())


@contextmanager
def joined(timeout: float, device: str | None = None) -> Iterator[None]:
    """Joins the group that the environment variables of torchrun name, for the length of the block; nothing if there
    are none.

    `timeout`: seconds after which a rank that does not come is lost. `device`: None or cuda for a GPU each. Raises
    ConfigError, RankLost.
    """
    global _group
    if not asked() or _group is not None:
        yield
        return
    from torch.distributed.rendezvous import rendezvous

    if missing := [name for name in VARIABLES if name not in os.environ]:
        raise ConfigError(
            f"WORLD_SIZE is set, but {', '.join(missing)} is not: start ranks with torchrun, or with --processes"
        )
    own = _from_torchrun("RANK")
    count = _from_torchrun("WORLD_SIZE")
    try:
        job: Any = _private_store(own, timeout)
        if job is None:
            job, own, count = next(iter(rendezvous("env://", own, count, timeout=timedelta(seconds=timeout))))
        session = agree_on_session(job, own, count, timeout)
    except (RuntimeError, ValueError) as error:
        raise RankLost(_unmet(own, str(error)), tell=own <= 1) from error  # rank 0 may not be there to tell
    group = _group = _Group(Place(own, count, session, timeout, False, ""), own, count, job)
    on_gpu = device in (None, "cuda") and torch.cuda.is_available() and gpus_suffice()
    group.place = group.place._replace(on_gpu=on_gpu)
    try:
        _connect(group)
        yield
    finally:
        _group = None
        _leave(group)


def _private_store(own: int, timeout: float) -> Any:
    """Returns rank 0's store where all ranks are on this machine: only this machine reaches it. None where it is made
    as torchrun has it, which listens on all networks, without a password.
    """
    import torch.distributed as dist

    address = os.environ["MASTER_ADDR"]
    port = _from_torchrun("MASTER_PORT")
    if own != 0 or address != LOOPBACK or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    try:
        listener = socket.create_server((address, port), backlog=128)
    except OSError as error:
        raise RuntimeError(f"EADDRINUSE: {error}" if error.errno == errno.EADDRINUSE else str(error)) from error
    return dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
        address,
        port,
        is_master=True,
        timeout=timedelta(seconds=timeout),
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


def place_for(task: str) -> Place | None:
    """Returns the place for a process that does a task for this rank; None outside a group."""
    return None if _group is None else _group.place._replace(task=task)


def take_place(place: Place | None) -> None:
    """Makes this process, which a rank has started, one of those that do a task for their ranks, until it ends; nothing
    if None.

    It meets the others at the first call in which all take part, so that ranks may start such processes in any order.
    """
    global _group
    if place is not None:
        _group = _Group(place, place.number, place.size)


def _connect(group: _Group) -> None:
    """Meets the other processes of a group. Raises RankLost if one does not come."""
    import torch.distributed as dist

    place = group.place
    limit = timedelta(seconds=group.place.timeout)
    try:
        if group.job is None:
            address = os.environ["MASTER_ADDR"]
            port = int(os.environ["MASTER_PORT"])
            group.job = dist.TCPStore(address, port, is_master=False, timeout=limit)  # pyright: ignore[reportPrivateImportUsage]
        store = _store_of(group, place.task)
        dist.init_process_group("gloo", store=store, rank=group.number, world_size=group.size, timeout=limit)
    except (RuntimeError, ValueError) as error:
        raise RankLost(_unmet(group.number, str(error)), tell=group.number <= 1) from error
    group.store = store.clone()
    if place.on_gpu and dist.is_nccl_available():
        torch.cuda.set_device(local_number())
        group.on_gpu = dist.new_group(backend="nccl", timeout=limit)
    threading.Thread(target=_beat, args=(group,), daemon=True, name="palaestra rank").start()
    if group.size <= MOST_PAIRED:
        group.sums = SharedSums.join(group.number, group.size, place.timeout, from_first, gather)


def _store_of(group: _Group, task: str) -> Any:
    """Returns the store of the processes that do a task for their ranks."""
    from torch.distributed import distributed_c10d as c10d

    store: Any = c10d.PrefixStore(f"palaestra/{group.place.session}/{task}", group.job)
    return store.clone()


def _leave(group: _Group) -> None:
    """Ends this process's part in a group."""
    import torch.distributed as dist

    if group.sums is not None:
        group.sums.leave()
    group.ended.set()
    with suppress(Exception):
        dist.destroy_process_group()


def _unmet(own: int, reason: str) -> str:
    """Returns why a rank cannot meet the others, as a sentence."""
    place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    port = os.environ["MASTER_PORT"]
    if "EADDRINUSE" in reason:
        return (
            f"port {port} is taken by another program on this machine: choose another (torchrun: --master-port; "
            "else MASTER_PORT)"
        )
    return f"rank {own} cannot meet the other ranks at {place}: {reason.splitlines()[0]}"


def note_begun(run: str) -> None:
    """Notes that a run has begun, for ranks that are started again."""
    if _group is not None:
        _group.job.set(f"{BEGUN}/{run}", _group.place.session)


def begun_before(run: str) -> bool:
    """Whether this job has begun the run before, and its ranks were started again. The same on all ranks."""
    if _group is None:
        return False
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return any(
            gather(int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0)
        )  # counted by each machine for itself
    key = f"{BEGUN}/{run}"
    return from_first(_group.job.check([key]) and _group.job.get(key).decode() != _group.place.session)


def gpus_suffice() -> bool:
    """Whether each rank of this machine has a GPU of its own."""
    return torch.cuda.device_count() >= local_size()


def _beat(group: _Group) -> None:
    """Gives signs of life, and of progress."""
    with suppress(Exception):
        own = group.store.clone()
        count = 0
        while not group.ended.wait(BEAT):
            count += 1
            own.set(f"beat/{group.number}", f"{count} {group.calls}")


@contextmanager
def _together() -> Iterator[_Group]:
    """A call in which all ranks take part. Raises RankLost if one does not."""
    global _waited
    group = _group
    assert group is not None
    if group.store is None:
        _connect(group)
    group.calls += 1
    start = time.perf_counter()
    try:
        yield group
    except RuntimeError as error:
        raise RankLost(_lost(group), tell=_tells) from error
    finally:
        _waited += time.perf_counter() - start


_waited = 0.0


def waited() -> float:
    """Returns the seconds that this process has spent in calls in which all ranks take part, waiting and exchanging."""
    return _waited


_tells = True
"""Whether this rank is the one to report a lost rank: the lowest of those that are left."""


def _lost(group: _Group) -> str:
    """Returns who is missing, as a sentence."""
    global _tells
    told = within(SILENCE, lambda: left_message(_store_of(group, ""), group.size))
    if told is not None:
        _tells = told[0] != 0 and group.number == min(rank for rank in range(group.size) if rank != told[0])
        return told[1]
    before = within(SILENCE, lambda: beats(group.store, group.size))
    if before is not None:
        time.sleep(SILENCE)
    after = None if before is None else within(SILENCE, lambda: beats(group.store, group.size))
    if before is None or after is None:
        _tells = group.number == 1
        return f"rank 0 of {group.size} has ended or hangs: the others cannot go on without it"
    silent = [rank for rank in range(group.size) if rank != group.number and before.get(rank) == after.get(rank)]
    behind = [rank for rank, (_, calls) in after.items() if rank != group.number and calls < group.calls]
    names = silent or behind
    _tells = group.number == min(rank for rank in range(group.size) if rank not in names)
    who = ", ".join(map(str, names)) if names else "?"
    how = "has ended or hangs" if silent else "did not answer in time"
    return f"rank {who} of {group.size} {how}"


def must_have_same(versions: Mapping[str, str]) -> None:
    """Raises ConfigError if these differ between ranks, such as those of two machines."""
    found = gather(dict(versions))
    if any(one != found[0] for one in found):
        told = "; ".join(
            f"rank {rank}: {', '.join(f'{name} {version}' for name, version in one.items())}"
            for rank, one in enumerate(found)
        )
        raise ConfigError(
            f"all processes of a run must have the same versions; found {told}; install the same ones on every machine"
        )


def leave_message(text: str) -> None:
    """Tells the other ranks why this one ends, so that they can report it."""
    if (group := _group) is not None:
        within(SILENCE, lambda: group.store.set(LEFT, f"{group.number} {text}"))


def gather(value: T) -> list[T]:
    """Returns the values of all ranks, in their order."""
    if _group is None:
        return [value]
    import torch.distributed as dist

    with _together() as group:
        if group.sums is not None:
            return [pickle.loads(each) for each in group.sums.gather(pickle.dumps(value))]
        found: list[Any] = [None] * group.size
        dist.all_gather_object(found, value)
        return found


def to_first(value: T) -> list[T] | None:
    """Returns the values of all ranks, in their order, on rank 0; None on the others."""
    if _group is None:
        return [value]
    import torch.distributed as dist

    with _together() as group:
        found: list[Any] | None = [None] * group.size if group.number == 0 else None
        dist.gather_object(value, found, 0)
        return found


def gather_numbers(values: Sequence[float]) -> list[list[float]]:
    """Returns the numbers of all ranks, in their order: as many of each."""
    if _group is None:
        return [list(values)]
    return [row.tolist() for row in gather_tensor(torch.tensor(values, dtype=torch.float64))]


def gather_tensor(values: Tensor) -> list[Tensor]:
    """Returns a tensor of the same shape and type from every rank, on the CPU."""
    if _group is None:
        return [values]
    with _together() as group:
        found = torch.zeros((group.size, *values.shape), dtype=values.dtype)
        found[group.number] = values.detach().cpu()
        _sum(found, group)  # of zeros and one row each: exact
        return list(found)


def from_first(value: T) -> T:
    """Returns rank 0's value."""
    if _group is None:
        return value
    import torch.distributed as dist

    with _together():
        box = [value]
        dist.broadcast_object_list(box, 0)
        return box[0]


def scatter(values: Sequence[T] | None) -> T:
    """Returns this rank's part of what rank 0 has, a value for each; the others pass None."""
    if _group is None:
        assert values is not None
        return values[0]
    import torch.distributed as dist

    with _together():
        box: list[Any] = [None]
        dist.scatter_object_list(box, None if values is None else list(values), 0)
        return box[0]


def least(count: int) -> int:
    """Returns the smallest of all ranks' counts."""
    return count if _group is None else int(min(row[0] for row in gather_numbers([count])))


def total(count: float) -> float:
    """Returns the sum of all ranks' numbers."""
    return count if _group is None else sum(row[0] for row in gather_numbers([count]))


def average_gradients(parameters: Sequence[Tensor], rows: float) -> None:
    """Replaces every gradient by its mean over all ranks, weighted by the `rows` that each rank's is a mean over.

    One call for all parameters on a device. A parameter without a gradient counts as one of 0, and stays without if no
    rank has one.
    """
    if _group is None or not parameters:
        return
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    some_have_one = parameters[0].new_tensor([p.grad is not None for p in parameters])
    average([*gradients, some_have_one], rows)
    if any(p.grad is None for p in parameters):
        for p, gradient, some in zip(parameters, gradients, some_have_one.tolist(), strict=True):
            p.grad = gradient if some else None


def _sum(values: Tensor, group: _Group) -> None:
    """Replaces a tensor by its sum over all ranks, the same digits on each.

    Few ranks of one machine use shared memory; on several machines pairs exchange what they have until all have
    everything. gloo's `all_reduce` hands each call to another thread, which takes six times as long for a small
    network.
    """
    import torch.distributed as dist

    if values.device.type == "cuda":
        dist.all_reduce(values, group=group.on_gpu)
        return
    if (
        group.sums is not None
        and values.numel() <= MOST_NUMBERS
        and values.is_contiguous()
        and values.dtype in SHARED_TYPES
    ):
        group.sums.add(values)
        return
    if group.size & (group.size - 1) or group.size > MOST_PAIRED or values.numel() > MOST_NUMBERS:
        dist.all_reduce(values)
        return
    theirs = torch.empty_like(values)
    distance = 1
    while distance < group.size:
        other = group.number ^ distance
        sending = dist.isend(values, other)
        dist.recv(theirs, other)
        assert sending is not None
        sending.wait()
        values += theirs
        distance *= 2


@torch.no_grad()
def average(tensors: Sequence[Tensor], rows: float) -> None:
    """Replaces every tensor by its mean over all ranks, weighted by `rows`."""
    if _group is None or not tensors:
        return
    with _together() as group:
        weight = tensors[0].new_full((1,), rows)
        whole = torch.cat([*(x.reshape(-1) for x in tensors), torch.ones_like(weight)]).mul_(weight)
        _sum(whole, group)
        whole.div_(whole[-1].clone())
        parts = whole[:-1].split([x.numel() for x in tensors])
        for x, part in zip(tensors, parts, strict=True):
            x.copy_(part.view_as(x))


class RankGroup:
    """The ranks of a run as an object. A group of one gives back what it is given."""

    @property
    def size(self) -> int:
        """Number of ranks."""
        return size()

    @property
    def number(self) -> int:
        """This rank's number, from 0."""
        return number()

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which writes files and the console."""
        return leads()

    @property
    def local_size(self) -> int:
        """Number of ranks on this machine."""
        return local_size()

    @property
    def waited(self) -> float:
        """Seconds that this process has spent in calls in which all ranks take part."""
        return waited()

    def own_seed(self, seed: int) -> int:
        """Returns a seed of this rank's own: rank 0 has the given one."""
        return own_seed(seed)

    def gather(self, value: T) -> list[T]:
        """Returns the values of all ranks, in their order."""
        return gather(value)

    def gather_numbers(self, values: Sequence[float]) -> list[list[float]]:
        """Returns the numbers of all ranks, in their order: as many of each."""
        return gather_numbers(values)

    def from_first(self, value: T) -> T:
        """Returns rank 0's value."""
        return from_first(value)

    def when_first_is_done(self, work: Callable[[], T]) -> T:
        """Returns what `work` returns on rank 0. The others wait for as long as rank 0 gives signs of life, however
        long that takes. Raises RankLost.
        """
        group = _group
        if group is None:
            return work()
        if group.store is None:
            _connect(group)
        key = f"done/{group.calls}"
        if group.number:
            _wait_for_first(group, key)
            return from_first(cast(T, None))
        result = work()
        assert group.store is not None
        group.store.set(key, "1")
        return from_first(result)


def _wait_for_first(group: _Group, key: str) -> None:
    """Waits until rank 0 has set a key of the store. Raises RankLost if it has ended or hangs."""
    global _waited
    start = time.perf_counter()
    heard = (-1, -1)
    heard_at = start
    try:
        while not group.store.check([key]):
            time.sleep(0.1)
            if left_message(_store_of(group, ""), group.size) is not None:
                raise RankLost(_lost(group), tell=_tells)
            beat = beats(group.store, group.size).get(0, heard)
            if beat != heard:
                heard = beat
                heard_at = time.perf_counter()
            elif time.perf_counter() - heard_at > 2 * SILENCE:
                raise RankLost(_lost(group), tell=_tells)
    except RuntimeError as error:
        raise RankLost(_lost(group), tell=_tells) from error
    finally:
        _waited += time.perf_counter() - start
