"""Shared by the benchmarks of HalfCheetah: equal settings of PPO, and the rate over whole cycles of collecting and
learning.

16 copies, 128 ticks a rollout, 10 passes, actor and critic each two layers of 64 with tanh, normalized observations and
rewards where the library has them. `ways`: `serial` steps the copies one after another, `parallel` in processes of the
library's own kind.
"""

from __future__ import annotations

import json
import time
from typing import Any

COPIES, TICKS, EPOCHS, UNITS = 16, 128, 10, 64
ROLLOUT = COPIES * TICKS
RATE, GAMMA, LAMBDA, CLIP, NORM = 3e-4, 0.99, 0.95, 0.2, 0.5
SECONDS = 20.0
WORKERS = 2
GAME = "HalfCheetah-v5"


class Enough(Exception):
    """Raised when the time is over."""


class Meter:
    """Measures environment steps a second from the end of the first rollout's update until `SECONDS` later."""

    def __init__(self, peer: str, minibatch: int, way: str) -> None:
        self.named: dict[str, Any] = {"peer": peer, "minibatch": minibatch, "way": way}
        self._began: float | None = None
        self._cycles = 0

    def cycle(self) -> bool:
        """Notes that a cycle of collecting and learning is over. Returns whether the time is, after printing the one
        JSON line.
        """
        now = time.perf_counter()
        if self._began is None:
            self._began = now
            return False
        self._cycles += 1
        if now - self._began < SECONDS:
            return False
        rate = self._cycles * ROLLOUT / (now - self._began)
        print(json.dumps({**self.named, "steps_per_s": round(rate), "cycles": self._cycles}), flush=True)
        return True

    def check(self) -> None:
        """Notes the end of a cycle. Raises Enough when the time is over."""
        if self.cycle():
            raise Enough
