"""Environments for copies in processes: small ones that sleep, crash, hang or fail when they are told to."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from palaestra import sdk
from palaestra.envs.pool.shared_tables import SharedTables


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
