"""How many threads a run computes with."""

from __future__ import annotations

import os

MUCH_WORK = 30_000_000
"""Multiplications in one pass at which a second core begins to pay: below, handing work over costs more than it saves."""


def threads_for(work: int) -> tuple[int, str]:
    """All cores (or OMP_NUM_THREADS) where tables or minibatches are much work, else one; and a line that says so."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(told) if told.isdigit() else os.cpu_count()
    threads = cores or 1 if work >= MUCH_WORK else 1
    much = f"{work / 1e6:,.0f} million" if work >= 1e6 else "less than a million"
    why = f"{much} multiplications in a pass of a minibatch or a tick; --torch-threads chooses"
    return threads, f"Computing with {threads} {'thread' if threads == 1 else 'threads'}: {why}"
