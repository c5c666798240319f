"""Environments for copies in processes: small ones that sleep, crash, hang or fail when they are told to."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import gymnasium
import numpy as np
import torch

from palaestra import sdk
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.pool.env_pool import EnvPool
from palaestra.envs.pool.shared_tables import SharedTables


class Stroll:
    """A pool whose agents all walk right, from its reset on."""

    def __init__(self, env: EnvPool) -> None:
        self.env = env
        self.reset()

    def reset(self) -> None:
        """Begins new episodes."""
        (self.step,) = self.env.reset(3).values()
        self.lost = torch.zeros(len(self.step.acting), dtype=torch.bool)

    @property
    def action(self) -> dict[str, Action]:
        """One step to the right for everyone."""
        slots = len(self.step.acting)
        return dict.fromkeys(self.env.behaviors, Action(torch.zeros(slots, 0), torch.ones(slots, 1, dtype=torch.int64)))

    def walk(self, ticks: int = 1) -> TimeStep:
        """Makes so many ticks; notes who was lost on any."""
        for _ in range(ticks):
            (self.step,) = self.env.step(self.action).values()
            if self.step.lost is not None:
                assert not (self.step.lost & (self.step.acting | self.step.terminated | self.step.truncated)).any()
                self.lost |= self.step.lost
        return self.step

    def until(self, done: Callable[[], object], seconds: float = 60.0) -> None:
        """Walks until `done`."""
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, "it took too long"
            self.walk()

    @property
    def lost_are_back(self) -> bool:
        """Whether some agents were lost and act again."""
        return bool((self.step.acting & self.lost).any())


def drawn_by(seed: int) -> set[float]:
    """The values that a game draws from 0 to 1 by a seed, as they are observed."""
    random = Random(seed)
    return {float(np.float32(random.uniform(0, 1))) for _ in range(10_000)}


class Walk(gymnasium.Env[Any, Any]):
    """Walks on a line for `length` steps. Each step pays 1; the observation shows place, step and process. Files in
    `folder` are orders.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, folder: str = "", length: int = 10, ms: float = 0.0) -> None:
        self.folder = folder
        self.length = length
        self.ms = ms
        self.place = self.count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins at 0."""
        super().reset(seed=seed)
        self.place = self.count = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Walks right for 1, left for 0."""
        self._obey()
        time.sleep(self.ms / 1000)
        self.place = self.place + (1 if action else -1)
        self.count = self.count + 1
        return self._seen(), 1.0, False, self.count >= self.length, {}

    def _seen(self) -> Any:
        return np.array([self.place, self.count, os.getpid() % 10_000], np.float32)

    def _obey(self) -> None:
        """Carries out the order that lies in the folder, which the first process to find it takes."""
        for order in ("crash", "hang", "fail"):
            try:
                (Path(self.folder) / order).unlink()
            except OSError:
                continue
            match order:
                case "crash":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "hang":
                    time.sleep(600)
                case _:
                    raise ZeroDivisionError("one by nothing")


def make(folder: str = "", length: int = 10, ms: float = 0.0) -> Walk:
    """Makes a walk."""
    return Walk(folder, length, ms)


class Drawer(sdk.Agent):
    """Shows the value that it draws of the parameter "mass" in each of its episodes of one step."""

    behavior = sdk.Behavior("Walk", observations=1, branches=(2,))
    max_step = 1
    folder = ""

    def on_episode_begin(self) -> None:
        """Draws a value. Crashes where the order "crash" lies in the folder."""
        self.mass = self.academy.environment_parameters.get_with_default("mass", -1.0)
        with suppress(OSError):
            (Path(self.folder) / "crash").unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        """Sees the value."""
        sensor.add(self.mass)


@sdk.game
def drawers(academy: sdk.Academy) -> None:
    """One such agent in each area."""
    academy.add(Drawer())


def make_drawers(areas: int | None = None, folder: str = "") -> Any:
    """Makes games that draw their parameter."""
    Drawer.folder = folder
    return drawers(areas=areas or 1)


class Forgotten(Walk):
    """Removes the shared memory of its process before the run has opened it, where the order "forget" lies in the
    folder.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins at 0."""
        with suppress(OSError):
            (Path(self.folder) / "forget").unlink()
            create = SharedTables.create

            def forget(*arguments: Any) -> SharedTables:
                tables = create(*arguments)
                os.unlink(tables.layout.path)
                return tables

            SharedTables.create = forget  # type: ignore[method-assign]
        return super().reset(seed=seed, options=options)


def make_forgotten(folder: str = "") -> Forgotten:
    """Makes such a walk."""
    return Forgotten(folder)


class Ends(Walk):
    """Does as `close` says when it is closed, and as `render` says when it is drawn."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, folder: str = "", close: str = "", render: str = "") -> None:
        super().__init__(folder)
        self._at_close = close
        self._at_render = render

    def render(self) -> Any:
        """Returns a black picture, if nothing else is said."""
        self._do(self._at_render)
        return np.zeros((4, 4, 3), np.uint8)

    def close(self) -> None:
        """Notes in the folder that it was closed, if nothing else is said."""
        self._do(self._at_close)
        (Path(self.folder) / f"closed {os.getpid()}").touch()

    def _do(self, what: str) -> None:
        match what:
            case "raise":
                raise OSError("the port is gone")
            case "hang":
                time.sleep(600)
            case "exit":
                os._exit(9)
            case "wait":
                time.sleep(0.3)
