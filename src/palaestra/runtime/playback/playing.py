"""Plays an environment in a thread at real speed; other threads send it commands."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import torch

from palaestra.core.errors import PalaestraError, exception_summary
from palaestra.envs.base import Env
from palaestra.runtime.play.assigned_brains import BrainOf
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.scene_display import Display, Picture

FASTEST = 10.0
NICE = 10
"""Priority of the thread, lower than that of training runs on the machine, on systems whose threads have priorities."""

Opened = tuple[Env, BrainOf]


@dataclass(frozen=True, slots=True)
class PlaybackState:
    """State that a page shows; see `Playback.state`."""

    opening: bool
    paused: bool
    speed: float
    ticks: int
    error: str | None
    """Why the playback ended; None while it plays."""
    held: float
    """Seconds until the next tick, while a countdown runs."""


class Playback:
    """Owns an environment while its thread runs. Methods may be called from any thread and never wait."""

    def __init__(
        self,
        opener: Callable[[], Opened],
        *,
        seed: int = 0,
        speed: float = 1.0,
        paused: bool = False,
        on_error: Callable[[str], object] = lambda text: None,
    ) -> None:
        """`opener` is called in the thread; its error becomes the state's `error` and is passed to `on_error`."""
        self._opener = opener
        self._seed = seed
        self._speed = speed
        self._paused = paused
        self._on_error = on_error
        self._commands: queue.SimpleQueue[Callable[[PlayedEnv], object]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._closed = False
        self._held_until = 0.0
        self._error: str | None = None
        self.game: PlayedEnv | None = None
        """The environment with its brains, once it is open. Other threads only read it, and change it through
        `order`."""
        self.display = Display()
        self._thread = threading.Thread(target=self._run, name="playback", daemon=True)
        self._thread.start()

    @property
    def state(self) -> PlaybackState:
        """The current state."""
        tick = -1 if self.game is None else self.game.tick
        held = max(self._held_until - time.monotonic(), 0.0)
        opening = tick < 0 and self._error is None
        return PlaybackState(opening, self._paused, self._speed, max(tick, 0), self._error, held)

    @property
    def ended(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def order(self, command: Callable[[PlayedEnv], object]) -> None:
        """Calls `command` in the thread, between two ticks."""
        self._commands.put(command)
        self._wake.set()

    def pause(self) -> None:
        """Stops before the next tick."""
        self._paused = True

    def resume(self) -> None:
        """Continues after `pause`."""
        self._paused = False
        self._wake.set()

    def hold(self, seconds: float) -> None:
        """Makes no tick for a number of seconds, for example in the countdown before a game begins."""
        self._held_until = time.monotonic() + seconds

    def advance(self) -> None:
        """Makes one tick while paused."""
        self.order(lambda game: game.advance())

    def restart(self, seed: int | None = None) -> None:
        """Begins all episodes anew."""
        self.order(lambda game: game.restart(seed))

    def set_speed(self, speed: float) -> None:
        """Sets the speed, 0.1 to `FASTEST` times the simulated time."""
        self._speed = min(max(speed, 0.1), FASTEST)
        self.order(lambda game: game.env.set_speed(self._speed))

    def take_pictures(self, seconds: float, rate: int) -> list[Picture]:
        """Records the first areas for a number of seconds, and waits until this is done; empty if the environment
        cannot draw."""
        frames: queue.SimpleQueue[Picture | None] = queue.SimpleQueue()
        taken: list[Picture] = []
        for _ in range(max(int(seconds * rate), 1)):
            self.order(lambda game: frames.put(self.display.render(game)))
            began = time.monotonic()
            try:
                picture = frames.get(timeout=5.0)
            except queue.Empty:
                break
            if picture is None:
                return []
            taken.append(picture)
            time.sleep(max(0.0, 1 / rate - (time.monotonic() - began)))
        return taken

    def close(self, wait: float = 0.0) -> None:
        """Ends the thread, which closes the environment; waits up to `wait` seconds for it."""
        self._closed = True
        self._wake.set()
        if self.game is not None:
            self.game.env.interrupt()
        if wait:
            self._thread.join(wait)

    def _run(self) -> None:
        with suppress(AttributeError, OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # of this thread alone, on Linux
        torch.set_num_threads(1)
        try:
            self.game = PlayedEnv(*self._opener(), self._seed)
            self.game.env.set_speed(self._speed)
            if not self._closed:
                self.game.restart()
                self._play(self.game)
        except PalaestraError as error:
            self._fail(str(error))
        except (Exception, SystemExit) as error:  # a user's environment may raise anything
            self._fail(exception_summary(error))
        finally:
            if self.game is not None:
                with suppress(Exception):
                    self.game.env.close()

    def _fail(self, error: str) -> None:
        if not self._closed:  # a game that is asked to quit may fail as it does
            self._error = error
            self._on_error(error)

    def _play(self, game: PlayedEnv) -> None:
        due = time.monotonic()
        while not self._closed:
            while not self._commands.empty():
                self._commands.get()(game)
            self.display.draw(game, 0.0 if self._paused else game.seconds / self._speed)
            if self._paused or time.monotonic() < self._held_until:
                self._wake.wait(0.05)
                self._wake.clear()
                due = time.monotonic()
                continue
            wait = due - time.monotonic()
            if wait > 0:
                self._wake.wait(wait)
                self._wake.clear()
                if time.monotonic() < due and not self._commands.empty():
                    continue
            if self._paused or self._closed or time.monotonic() < due - 1e-4:
                continue
            game.advance()
            due = max(due + game.seconds / self._speed, time.monotonic())  # lost time is not made up for
