"""Joins the ranks of a run, which torchrun or `--processes` has started."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch

from palaestra.core.errors import ConfigError, RankLost
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.parallel.rank_store import Place, agree_on_session, unmet
from palaestra.parallel.several_ranks import SeveralRanks

LOOPBACK = "127.0.0.1"
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that torchrun sets for each rank."""

_joined: SeveralRanks | None = None
"""The group of this process, inside the block that joined it: torch.distributed allows one group in a process."""


def asked() -> bool:
    """Whether this process was started as one of several ranks, as torchrun does."""
    return "RANK" in os.environ and _from_torchrun("WORLD_SIZE", "1") > 1


def _from_torchrun(name: str, usual: str = "") -> int:
    """Returns a number that torchrun has set. Raises ConfigError if it is none."""
    text = os.environ.get(name, usual)
    if not text.isdigit():
        raise ConfigError(f"the environment variable {name} is '{text}': expected a whole number, as torchrun sets it")
    return int(text)


@contextmanager
def joined(timeout: float, device: str | None = None) -> Iterator[RankGroup]:
    """Joins the group that torchrun's environment variables describe, for the length of the block; a group of one if
    there are none. Within another such block, yields the group of the outer block.

    `timeout`: seconds after which a missing rank counts as lost. `device`: `device` None or cuda: each rank gets its
    own GPU. Raises ConfigError, RankLost.
    """
    global _joined
    if not asked() or _joined is not None:
        yield _joined or ALONE
        return
    group = _joined = _meet(timeout, device)
    try:
        group.connect()
        yield group
    finally:
        _joined = None
        group.leave()


def _meet(timeout: float, device: str | None) -> SeveralRanks:
    """Returns the group that the environment variables of torchrun name, once all ranks have come."""
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
        raise RankLost(unmet(own, str(error)), reports=own <= 1) from error  # rank 0 may not be there to report it
    here = int(os.environ.get("LOCAL_WORLD_SIZE", count))
    on_gpu = device in (None, "cuda") and torch.cuda.is_available() and torch.cuda.device_count() >= here
    return SeveralRanks(Place(own, count, session, timeout, on_gpu, ""), job)


def _private_store(own: int, timeout: float) -> Any:
    """Returns rank 0's store where all ranks are on this machine: only this machine reaches it. None if torchrun's own
    store is used, which listens on all networks without a password."""
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


def group_at(place: Place | None) -> RankGroup:
    """Returns the group of a process that does a task for a rank (`rank_setup.place_for`)."""
    return ALONE if place is None else SeveralRanks(place)
