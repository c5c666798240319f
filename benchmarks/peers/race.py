"""The finish line of all CartPole peers: a mean of 475 over the last 100 episodes, and the time to reach it."""

from __future__ import annotations

import json
import os
import time
from collections import deque

GOAL = 475.0
WINDOW = 100


class Finished(Exception):
    """Raised when the goal is reached or the environment steps are used up."""


class Race:
    """Collects episode returns and measures one training, from `start` to `finish`."""

    def __init__(self, peer: str, seed: int, max_env_steps: int = 3_000_000) -> None:
        self.peer, self.seed, self.max_env_steps = peer, seed, max_env_steps
        self.env_steps = 0
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._setup_cpu = self._wall = 0.0

    def start(self) -> None:
        """Starts the clock: imports and the creation of environments and networks are not counted."""
        self._setup_cpu, self._wall = _cpu_seconds(), time.perf_counter()

    def took(self, env_steps: int) -> None:
        self.env_steps += env_steps

    def ended(self, episode_return: float, episodes: int = 1) -> None:
        """Records `episodes` that ended with this return, or with this mean."""
        self._returns.extend([episode_return] * min(episodes, WINDOW))

    @property
    def mean_return(self) -> float:
        return sum(self._returns) / max(len(self._returns), 1)

    @property
    def reached(self) -> bool:
        return len(self._returns) == WINDOW and self.mean_return >= GOAL

    @property
    def over(self) -> bool:
        return self.reached or self.env_steps >= self.max_env_steps

    def check(self) -> None:
        """Raises Finished if the race is over."""
        if self.over:
            raise Finished

    def finish(self) -> None:
        """Prints the one JSON line of this run."""
        result = {
            "peer": self.peer,
            "seed": self.seed,
            "env_steps": self.env_steps,
            "wall_s": round(time.perf_counter() - self._wall, 3),
            "cpu_s": round(_cpu_seconds() - self._setup_cpu, 3),
            "setup_cpu_s": round(self._setup_cpu, 3),
            "reached": self.reached,
            "return": round(self.mean_return, 1),
        }
        print(json.dumps(result), flush=True)


def _cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
