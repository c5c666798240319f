"""Plays an environment in a thread at real speed, and obeys commands from other threads."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.brains.base import Brain
from palaestra.core.errors import PalaestraError, exception_summary
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.envs.ray_fans import RayFan
from palaestra.envs.solids import Drawing
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.play.players import BrainOf
from palaestra.runtime.playback.agent_slots import AgentSlots, Moves
from palaestra.runtime.playback.annotations import with_arrows, with_rays
from palaestra.runtime.playback.assigned_brains import AssignedBrains, Seat
from palaestra.runtime.playback.cameras import camera_pictures
from palaestra.runtime.playback.tally import Tally

USUAL_TICK = 0.05
"""Seconds of a tick of an environment that does not say how long one lasts."""
SHORTEST_TICK = 0.02
"""Least seconds of a tick of a game that keeps time by itself, at normal speed: Unity's usual step of physics."""
FASTEST = 10.0
WANTED = 2.0
"""Seconds for which drawings and pictures are made after someone asked for one."""
FRAME = 1 / 60
"""Least seconds between two drawings."""
PICTURE = 1 / 25
"""Least seconds between two pictures, which cost more."""
SCENE = 1.5
"""Width of the page's scene, as a share of its height."""
NICE = 10
"""Priority of the thread below that of training runs beside it, where threads have priorities of their own."""

Opened = tuple[Env, BrainOf]


@dataclass(frozen=True, slots=True)
class PlaybackState:
    """State that a page shows; see `Playback.state`."""

    opening: bool
    paused: bool
    speed: float
    ticks: int
    error: str | None
    """Why it ended; None while it plays."""
    seconds: float | None
    """Seconds of a tick at normal speed; None: unknown, so `USUAL_TICK`."""
    held: float = 0.0
    """Seconds until the next tick, while a countdown runs."""


class Playback:
    """Owns an environment from the thread's start to its end. Methods may be called from any thread and never wait."""

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
        self._commands: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._closed = False
        self._held_until = 0.0
        self._error: str | None = None
        self._tick = -1
        self._made = 0.0
        self._drawn_tick = -1
        self._drawn_at = 0.0
        self._drawing: Drawing | None = None
        self._draws: bool | None = None  # unknown before the first attempt
        self._picture: bytes | None = None
        self._asked_drawing = self._asked_picture = 0.0
        self._looked: Seat | None = None
        self._changed = False  # the newest tick is to be drawn again
        self.env: EnvWrapper | None = None
        """The environment, once it is open; only to read what never changes."""
        self.seats: AssignedBrains | None = None
        self.tally = Tally()
        self.agent_slots: AgentSlots | None = None
        """Slots that have agents, where each episode may be in another slot; None: agents stay where they are."""
        self.steps: dict[str, TimeStep] = {}
        """Tables of the newest tick, which are never modified."""
        self.actions: dict[str, Action] = {}
        """Actions that led to the newest tick."""
        self.watchers: list[Callable[[Mapping[str, TimeStep], Mapping[str, Action], Mapping[str, TimeStep]], None]] = []
        """Called in the thread after each tick (tables before, actions, tables after) and restart (only the last)."""
        self.followers: list[Callable[[Moves], None]] = []
        """Called in the thread, after the watchers, if agents continue in other slots."""
        self._thread = threading.Thread(target=self._run, name="playback", daemon=True)
        self._thread.start()

    # --- commands ---

    def pause(self) -> None:
        """Stops before the next tick."""
        self._paused = True

    def resume(self) -> None:
        """Continues after `pause`."""
        self._paused = False
        self._wake.set()

    def hold(self, seconds: float) -> None:
        """Makes no tick for so many seconds, as in the countdown before a game begins."""
        self._held_until = time.monotonic() + seconds

    def advance(self) -> None:
        """Makes one tick while paused."""
        self._order(self._advance)

    def set_speed(self, speed: float) -> None:
        """Sets the speed, 0.1 to `FASTEST` times the simulated time."""
        self._speed = min(max(speed, 0.1), FASTEST)
        self._order(self._pass_speed)

    def restart(self, seed: int | None = None) -> None:
        """Begins all episodes anew."""
        self._order(lambda: self._restart(seed))

    def set_parameter(self, name: str, value: float) -> None:
        """Sets a parameter of the environment, from each area's next episode on."""
        self._order(lambda: self._set_parameter(name, value))

    def set_brains(self, brain_of: BrainOf, *, anew: bool = False) -> None:
        """Replaces the brains of all sides, but not those of single agents. `anew`: scores are counted from here."""

        def replace() -> None:
            if self.seats is not None:
                self.seats.replace(brain_of)
            if anew:
                self.tally.begin_scores()

        self._order(replace)

    def seat(self, behavior: str, slot: int, brain: Brain) -> None:
        """Lets a brain act for one agent."""
        self._order(lambda: self.seats and self.seats.seat(behavior, slot, brain))

    def leave(self, behavior: str, slot: int) -> None:
        """Gives an agent back to the brain of its side."""
        self._order(lambda: self.seats and self.seats.leave(behavior, slot))

    def look_at(self, behavior: str, slot: int) -> None:
        """Draws the rays of an agent into the scene, if the environment tells where they are in its observations."""
        self._looked = (behavior, slot)
        self._changed = True

    @property
    def looked(self) -> Seat | None:
        """The agent that is looked at, in the slot that it has now."""
        return self._looked

    def close(self, wait: float = 0.0) -> None:
        """Ends the thread, which closes the environment; waits so many seconds for it."""
        self._closed = True
        self._wake.set()
        if self.env is not None:
            self.env.interrupt()
        if wait:
            self._thread.join(wait)

    # --- what there is to see ---

    @property
    def state(self) -> PlaybackState:
        """The current state."""
        seconds = None if self.env is None else self.env.tick_seconds
        held = max(self._held_until - time.monotonic(), 0.0)
        opening = self._tick < 0 and self._error is None
        return PlaybackState(opening, self._paused, self._speed, max(self._tick, 0), self._error, seconds, held)

    @property
    def ended(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def ticks(self) -> tuple[int, float, float]:
        """Returns the number of the newest tick that is drawn, when it was made and its seconds at this speed."""
        self._asked_drawing = time.monotonic()
        lasts = 0.0 if self._paused else (self._seconds() / self._speed)
        return self._drawn_tick, self._drawn_at, lasts

    def drawing(self) -> Drawing | None:
        """Returns the newest drawing; None for an environment that describes no solids, or could not yet."""
        self._asked_drawing = time.monotonic()
        return self._drawing

    def picture(self) -> bytes | None:
        """Returns the newest picture of the areas or of agents' cameras as a JPEG; None if there is none."""
        self._asked_picture = time.monotonic()
        return self._picture

    @property
    def has_shown(self) -> bool:
        """Whether there has been a drawing or a picture."""
        return self._drawing is not None or self._picture is not None

    @property
    def draws(self) -> bool:
        """Whether the environment draws its areas, as far as is known."""
        return self._draws is not False

    def record_gif(self, seconds: float, rate: int = 10) -> bytes | None:
        """Records the first areas for so many seconds as a GIF, and waits; None if the environment cannot draw."""
        taken = self.take_pictures(seconds, rate)
        return animated(taken, rate) if taken else None

    def take_pictures(self, seconds: float, rate: int = 10) -> list[NDArray[np.uint8]]:
        """Records the first areas for so many seconds, and waits; empty if the environment cannot draw."""
        frames: queue.SimpleQueue[NDArray[np.uint8] | None] = queue.SimpleQueue()
        taken: list[NDArray[np.uint8]] = []
        for _ in range(max(int(seconds * rate), 1)):
            self._order(lambda: frames.put(self._rendered()))
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

    # --- the thread ---

    def _order(self, command: Callable[[], object]) -> None:
        self._commands.put(command)
        self._wake.set()

    def _run(self) -> None:
        with suppress(AttributeError, OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # of this thread alone, on Linux
        torch.set_num_threads(1)
        try:
            opened, brain_of = self._opener()
            self.env = EnvWrapper.of(opened)
            self.seats = AssignedBrains(self.env.behaviors, brain_of)
            self.agent_slots = AgentSlots() if self.env.traits.reassigns_slots else None
            self._pass_speed()
            if self._closed:
                return
            self._restart(None)
            self._play()
        except PalaestraError as error:
            self._fail(str(error))
        except (Exception, SystemExit) as error:  # a user's environment may raise anything
            self._fail(exception_summary(error))
        finally:
            if self.env is not None:
                with suppress(Exception):
                    self.env.close()

    def _fail(self, error: str) -> None:
        if not self._closed:  # a game that is told to quit may fail as it does
            self._error = error
            self._on_error(error)

    def _play(self) -> None:
        due = time.monotonic()
        while not self._closed:
            while not self._commands.empty():
                self._commands.get()()
            if self._paused or time.monotonic() < self._held_until:
                self._draw()
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
            self._advance()
            due = max(due + self._seconds() / self._speed, time.monotonic())  # lost time is not made up for

    def _seconds(self) -> float:
        assert self.env is not None
        return self.env.tick_seconds or (SHORTEST_TICK if self.env.traits.real_time else USUAL_TICK)

    def _pass_speed(self) -> None:
        if self.env is not None:
            self.env.set_speed(self._speed)

    def _restart(self, seed: int | None) -> None:
        assert self.env is not None
        assert self.seats is not None
        self._seed = self._seed + 1 if seed is None else seed
        self.steps = self.env.reset(self._seed)
        self.seats.restart()
        self.tally.note(self.steps, first=True, agent_slots=self.agent_slots)
        self._noted({}, {})

    def _advance(self) -> None:
        assert self.env is not None
        assert self.seats is not None
        before = self.steps
        self.actions = self.seats.act(before)
        self.steps = self.env.step(self.actions)
        self.tally.note(self.steps, agent_slots=self.agent_slots)
        self._noted(before, self.actions)

    def _noted(self, before: Mapping[str, TimeStep], actions: Mapping[str, Action]) -> None:
        self._tick = self._tick + 1
        self._made = time.monotonic()
        for watcher in tuple(self.watchers):
            watcher(before, actions, self.steps)
        if self.agent_slots is not None and (moves := self.agent_slots.note(self.steps, first=not before)):
            self._follow(moves)
        self._draw()

    def _follow(self, moves: Moves) -> None:
        assert self.seats is not None
        self.seats.move(moves)
        if (looked := self._looked) is not None and looked in moves:
            self._looked = looked[0], moves[looked]
        for follower in tuple(self.followers):
            follower(moves)

    def _set_parameter(self, name: str, value: float) -> None:
        assert self.env is not None
        self.env.set_parameters({name: torch.full((self.env.num_areas,), value, device=self.env.device)})

    def _draw(self) -> None:
        """Draws the newest tick if someone watches, and the last drawing is not too recent."""
        now = time.monotonic()
        wanted = self._draws is None or now - self._asked_drawing <= WANTED
        if self.env is None or (self._drawn_tick == self._tick and not self._changed) or not wanted:
            return
        self._changed = False
        if self.env.traits.draws:
            if now - self._drawn_at >= FRAME or self._paused:
                drawing = self.env.drawing(np.arange(self.env.num_areas))
                drawing = with_arrows(drawing, self.seats.taken if self.seats is not None else set())
                self._drawing = self._with_rays(drawing)
                self._draws = True
                self._drawn_tick = self._tick
                self._drawn_at = self._made
        elif now - self._drawn_at >= PICTURE or self._paused:
            self._picture = encoded(self._rendered())
            self._drawn_tick = self._tick
            self._drawn_at = self._made

    def _with_rays(self, drawing: Drawing) -> Drawing:
        """Returns the drawing with the rays of the agent that is looked at."""
        if self._looked is None or self.env is None:
            return drawing
        behavior, slot = self._looked
        return with_rays(drawing, behavior, slot, rays_of(self.env, self.steps, behavior, slot))

    def _rendered(self) -> NDArray[np.uint8] | None:
        """Returns the pictures of up to four areas, or what agents see; None if there is neither."""
        if self.env is None:
            return None
        try:
            pictures = [self.env.render(area) for area in range(min(self.env.num_areas, 4))]
        except PalaestraError:
            taken = sorted(self.seats.taken) if self.seats is not None else []
            self._draws = False
            return camera_pictures(self.env.behaviors, self.steps, taken or ([self._looked] if self._looked else []))
        self._draws = True
        return in_rows(pictures)


def in_rows(pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Returns pictures (H, W, 3) of one size as one, in the number of columns that fills the page's scene best."""
    height, width, _ = pictures[0].shape

    def scale(columns: int) -> float:
        return min(SCENE / (columns * width), 1 / (-(-len(pictures) // columns) * height))

    columns = max(range(1, len(pictures) + 1), key=lambda columns: (round(scale(columns), 9), -columns))
    filled = [*pictures, *[np.full_like(pictures[0], 255)] * (-len(pictures) % columns)]
    return np.concatenate([np.concatenate(filled[at : at + columns], axis=1) for at in range(0, len(filled), columns)])


def rays_of(
    env: EnvWrapper, steps: Mapping[str, TimeStep], behavior: str, slot: int
) -> list[tuple[RayFan, NDArray[np.float32]]]:
    """Returns the ray sensors of an agent, each with its observation (n,); none if the environment names none."""
    step = steps.get(behavior)
    fans = env.traits.ray_fans.get(behavior, ())
    if not fans or step is None or slot >= len(step.acting):
        return []
    columns = {part.name: column for part, column in zip(env.behaviors[behavior].obs, step.obs, strict=True)}
    return [(fan, columns[fan.obs][slot].cpu().numpy()) for fan in fans if fan.obs in columns]


def encoded(picture: NDArray[np.uint8] | None) -> bytes | None:
    """Returns a picture (H, W, 3) as a JPEG."""
    if picture is None:
        return None
    from io import BytesIO

    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=88)
    return file.getvalue()


def animated(pictures: list[NDArray[np.uint8]], rate: int) -> bytes:
    """Returns pictures (H, W, 3) as an endless GIF."""
    from io import BytesIO

    from PIL import Image

    first, *others = [Image.fromarray(picture).quantize(64) for picture in pictures]
    file = BytesIO()
    first.save(file, "GIF", save_all=True, append_images=others, duration=round(1000 / rate), loop=0)
    return file.getvalue()
