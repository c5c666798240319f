"""Messages of ranks in the store of torch.distributed: arrival, signs of life, and the reason for an end."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from palaestra.core.errors import RankLost

PAUSE = 0.02
"""Seconds between two looks into the store."""
BEGUN = "palaestra/begun"
"""Begin of the key of a run that has started; its value is the number of the group that started it."""
LEFT = "left"
"""Key of the number of a rank that has ended, and of the reason."""
BEAT = 0.5
"""Seconds between two signs of life of a rank."""
SILENCE = 5.0
"""Seconds without a sign of life after which a rank is dead or stopped."""
T = TypeVar("T")


class Place(NamedTuple):
    """A rank's place in its group, for a process that works for the rank together with the other ranks' processes."""

    number: int
    size: int
    session: str
    timeout: float
    on_gpu: bool
    task: str
    """Purpose of these processes; empty: the ranks themselves."""


def agree_on_session(store: Any, number: int, size: int, timeout: float) -> str:
    """Returns a name for a new group of ranks. Raises RankLost if a rank does not arrive within `timeout` seconds.
    torchrun keeps its store when it starts ranks again. Keys of the failed group are still in the store, so a rank must
    not treat them as new. Each rank sends its own random word; rank 0 answers with all words and a name, until all
    ranks have confirmed it."""
    word = uuid.uuid4().hex
    deadline = time.monotonic() + timeout
    store.set(f"palaestra/hello/{number}", word)
    name = ""
    words = list[str | None]()
    missing = list(range(1, size)) if number == 0 else [0]
    while time.monotonic() < deadline:
        if number == 0:
            now = [_read(store, f"palaestra/hello/{rank}") for rank in range(size)]
            if now != words:
                name = uuid.uuid4().hex
                words = now
                store.set("palaestra/session", json.dumps([name, words]))
            missing = [rank for rank in range(1, size) if _read(store, f"palaestra/confirmed/{rank}") != name]
            if not missing:
                store.set("palaestra/complete", name)
                return name
        elif (found := _read(store, "palaestra/session")) is not None:
            name, words = json.loads(found)
            if words[number] == word:
                store.set(f"palaestra/confirmed/{number}", name)
                missing = []
                if _read(store, "palaestra/complete") == name:
                    return name
        time.sleep(PAUSE)
    who = (
        f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} of {size}"
        if missing
        else f"another rank of {size}"
    )
    raise RankLost(f"{who} did not come within {timeout:g} s", reports=number == 0 or (missing == [0] and number == 1))


def _read(store: Any, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None


def beats(store: Any, size: int) -> dict[int, tuple[int, int]]:
    """Returns each rank's number of signs of life and of calls."""
    found: dict[int, tuple[int, int]] = {}
    for rank in range(size):
        if (beat := _read(store, f"beat/{rank}")) is not None:
            count, calls = beat.split()
            found[rank] = int(count), int(calls)
    return found


def give_signs_of_life(store: Any, number: int, calls: Callable[[], int], ended: threading.Event) -> None:
    """Gives signs of life and of progress until a rank has ended, in a thread. `calls`: returns how often the rank has
    met the others."""

    def run() -> None:
        with suppress(Exception):
            own = store.clone()
            count = 0
            while not ended.wait(BEAT):
                count += 1
                own.set(f"beat/{number}", f"{count} {calls()}")

    threading.Thread(target=run, daemon=True, name="palaestra rank").start()


def wait_for_first(store: Any, main: Any, size: int, key: str) -> bool:
    """Waits until rank 0 has set a key of the store. Returns False if rank 0 has ended or hangs. `main`: the store of
    the ranks themselves."""
    newest = (-1, -1)
    changed_at = time.perf_counter()
    while not store.check([key]):
        time.sleep(0.1)
        if left_message(main, size) is not None:
            return False
        beat = beats(store, size).get(0, newest)
        if beat != newest:
            newest = beat
            changed_at = time.perf_counter()
        elif time.perf_counter() - changed_at > 2 * SILENCE:
            return False
    return True


def lost_rank(store: Any, main: Callable[[], Any], number: int, size: int, calls: int) -> RankLost:
    """Returns the error that names the missing ranks; the lowest remaining rank reports it.

    `main`: returns the store of the ranks themselves. `calls`: how often this rank has met the others.
    """
    message = within(SILENCE, lambda: left_message(main(), size))
    if message is not None:
        lowest = min(rank for rank in range(size) if rank != message[0])
        return RankLost(message[1], reports=message[0] != 0 and number == lowest)
    before = within(SILENCE, lambda: beats(store, size))
    if before is not None:
        time.sleep(SILENCE)
    after = None if before is None else within(SILENCE, lambda: beats(store, size))
    if before is None or after is None:
        return RankLost(
            f"rank 0 of {size} has ended or hangs: the other ranks cannot continue without it", reports=number == 1
        )
    silent = [rank for rank in range(size) if rank != number and before.get(rank) == after.get(rank)]
    behind = [rank for rank, (_, theirs) in after.items() if rank != number and theirs < calls]
    names = silent or behind
    who = ", ".join(map(str, names)) if names else "?"
    how = "has ended or hangs" if silent else "did not answer in time"
    return RankLost(
        f"rank {who} of {size} {how}", reports=number == min(rank for rank in range(size) if rank not in names)
    )


def unmet(number: int, reason: str) -> str:
    """Returns a sentence that says why a rank cannot meet the others."""
    address = os.environ["MASTER_ADDR"]
    port = os.environ["MASTER_PORT"]
    if "EADDRINUSE" in reason:
        return (
            f"port {port} is taken by another program on this machine: choose another (torchrun: --master-port; "
            "else MASTER_PORT)"
        )
    return f"rank {number} cannot meet the other ranks at {address}:{port}: {reason.splitlines()[0]}"


def set_left_message(store: Any, number: int, text: str) -> None:
    """Records why a rank has ended."""
    store.set(LEFT, f"{number} {text}")


def left_message(store: Any, size: int) -> tuple[int, str] | None:
    """Returns the number of a rank that has ended, and why, as a sentence."""
    message = _read(store, LEFT)
    if message is None:
        return None
    rank, _, text = message.partition(" ")
    return int(rank), f"rank {rank} of {size}: {text}"


def within(seconds: float, ask: Callable[[], T]) -> T | None:
    """Returns what `ask` returns from the store; None if none comes in time (the store's calls have no limit)."""
    found: list[T] = []

    def run() -> None:
        with suppress(Exception):
            found.append(ask())

    thread = threading.Thread(target=run, daemon=True, name="palaestra store")
    thread.start()
    thread.join(seconds)
    return found[0] if found else None
