"""Environments, their bars, and what is measured until a training reaches one: the same for every library.

Each `every` decisions the policy plays 20 episodes without exploration (each time from the same seeds), and the mean
return of the last 100 episodes of training is looked at. Neither the decisions nor the seconds of evaluations count.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

EPISODES = 20
FIRST_SEED = 10_000
WINDOW = 100

Policy = Callable[[np.ndarray], Sequence[Any] | np.ndarray]
"""Observations (N, *shape) to actions in the environment's units."""


@dataclass(frozen=True, slots=True)
class Game:
    """An environment and the mean return that solves it."""

    bar: float
    every: int
    """Decisions between two evaluations."""
    trained: bool = True
    """Whether episodes of training are looked at; those of Pendulum are so long that 100 take the whole training."""


GAMES = {
    "CartPole-v1": Game(475.0, 1000),
    "Acrobot-v1": Game(-100.0, 2000),
    "Pendulum-v1": Game(-200.0, 500, trained=False),
    "LunarLander-v3": Game(200.0, 10_000),
}
"""Bars are Gymnasium's `reward_threshold`, where an environment has one; Pendulum has none."""


class Course:
    """Measures one training from `start` to `report`."""

    def __init__(self, peer: str, game: str, seed: int, budget: int, *, whole: bool = False) -> None:
        """`budget`: decisions of the whole training. `whole`: go on after the bar and keep all evaluations."""
        self.game = GAMES[game]
        self._evaluations: list[float] | None = [] if whole else None
        self._measures = ("evaluated", "trained") if self.game.trained else ("evaluated",)
        self._about = {"peer": peer, "game": game, "seed": seed, "budget": budget, "measures": self._measures}
        self._returns: deque[float] = deque(maxlen=WINDOW)
        self._envs = [gymnasium.make(game) for _ in range(EPISODES)]
        self._found: dict[str, dict[str, float]] = {}
        self._next = self.game.every
        self._last = 0.0
        self._setup_cpu = self._setup_wall = self._wall = self._aside_cpu = self._aside_wall = 0.0

    def start(self) -> None:
        """Starts the clock. What came before (imports, environments, networks) is reported as set-up."""
        self._setup_cpu, self._wall = cpu_seconds(), time.perf_counter()
        self._setup_wall = time.time() - float(os.environ.get("STARTED", time.time()))  # run.py says when

    def ended(self, episode_return: float) -> None:
        """Records an episode of training."""
        self._returns.append(episode_return)

    def is_due(self, step: int) -> bool:
        """Whether `look` has something to do after so many decisions."""
        return step >= self._next

    def look(self, step: int, policy: Policy) -> bool:
        """Compares both means with the bar, and returns whether both have reached it. Not counted."""
        self._next = (step // self.game.every + 1) * self.game.every
        cpu, wall = cpu_seconds(), time.perf_counter()
        spent = {
            "steps": step,
            "cpu_s": round(cpu - self._setup_cpu - self._aside_cpu, 3),
            "wall_s": round(wall - self._wall - self._aside_wall, 3),
        }
        if self._evaluations is not None or "evaluated" not in self._found:
            self._last = self.evaluate(policy)
            self._note("evaluated", self._last, spent)
        if self._evaluations is not None:
            self._evaluations.append(round(self._last, 1))
        if "trained" in self._measures and len(self._returns) == WINDOW:
            self._note("trained", float(np.mean(self._returns)), spent)
        self._aside_cpu += cpu_seconds() - cpu
        self._aside_wall += time.perf_counter() - wall
        return self._evaluations is None and len(self._found) == len(self._measures)

    def _note(self, measure: str, mean: float, spent: dict[str, float]) -> None:
        if mean >= self.game.bar:
            self._found.setdefault(measure, {**spent, "return": round(mean, 1)})

    def evaluate(self, policy: Policy) -> float:
        """Returns the mean return of a policy over `EPISODES` episodes."""
        obs = [env.reset(seed=FIRST_SEED + i)[0] for i, env in enumerate(self._envs)]
        returns = np.zeros(len(obs))
        playing = list(range(len(obs)))
        while playing:
            actions = policy(np.stack([obs[i] for i in playing]))
            still = []
            for i, action in zip(playing, actions, strict=True):
                obs[i], reward, terminated, truncated, _ = self._envs[i].step(action)
                returns[i] += float(reward)
                if not (terminated or truncated):
                    still.append(i)
            playing = still
        return float(returns.mean())

    def report(self, **more: Any) -> None:
        """Prints the one JSON line of this run."""
        mean = round(float(np.mean(self._returns)), 1) if self._returns else None
        setup = {"setup_cpu_s": round(self._setup_cpu, 3), "setup_wall_s": round(self._setup_wall, 3)}
        last = {"last_evaluation": round(self._last, 1), "last_trained": mean, **setup}
        whole = {} if self._evaluations is None else {"evaluations": self._evaluations}
        print(json.dumps({**self._about, **self._found, **last, **whole, **more}), flush=True)


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
