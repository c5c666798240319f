"""Messages of ranks in the store of torch.distributed: that they come, that they live, why they end."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from palaestra.core.errors import RankLost

PAUSE = 0.02
"""Seconds between two looks into the store."""
BEGUN = "palaestra/begun"
"""First part of the key of a run that has begun; its value is the group that began it."""
LEFT = "left"
"""Key of the number of a rank that has ended, and why."""
T = TypeVar("T")


def agree_on_session(store: Any, number: int, size: int, timeout: float) -> str:
    """Returns a name for a new group of ranks. Raises RankLost if one does not come within `timeout` seconds.

    torchrun keeps its store when it starts ranks again. Keys of the group that failed are still there, so that a rank
    must not take what it finds for news. Each says hello with a word of its own; rank 0 answers with all words and a
    name, until all have confirmed it.
    """
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
    raise RankLost(f"{who} did not come within {timeout:g} s", tell=number == 0 or (missing == [0] and number == 1))


def _read(store: Any, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None


def beats(store: Any, size: int) -> dict[int, tuple[int, int]]:
    """Returns each rank's signs of life and calls."""
    found: dict[int, tuple[int, int]] = {}
    for rank in range(size):
        if (told := _read(store, f"beat/{rank}")) is not None:
            count, calls = told.split()
            found[rank] = int(count), int(calls)
    return found


def left_message(store: Any, size: int) -> tuple[int, str] | None:
    """Returns the number of a rank that has ended, and why, as a sentence."""
    told = _read(store, LEFT)
    if told is None:
        return None
    rank, _, text = told.partition(" ")
    return int(rank), f"rank {rank} of {size}: {text}"


def within(seconds: float, ask: Callable[[], T]) -> T | None:
    """Returns what the store answers; None if it is gone or does not answer in time, since calls of it know no
    limit.
    """
    found: list[T] = []

    def run() -> None:
        with suppress(Exception):
            found.append(ask())

    thread = threading.Thread(target=run, daemon=True, name="palaestra store")
    thread.start()
    thread.join(seconds)
    return found[0] if found else None
