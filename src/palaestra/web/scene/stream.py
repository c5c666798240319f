"""Sends the scene to browsers: always the newest rows, and nothing to a browser that has not received the last
message."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from typing import Any

import numpy as np
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from palaestra.envs.solids import Drawing
from palaestra.runtime.playback.scene_display import Display
from palaestra.web.scene.packing import blend, outline, rows, structure

RATE = 30.0
"""Frames a second."""
PATH = "/scene/{key}"


class SceneStreams:
    """Sources that browsers may watch, each under a key that cannot be guessed."""

    def __init__(self) -> None:
        self._sources: dict[str, Display] = {}
        self.route = WebSocketRoute(PATH, self._serve)

    def add(self, source: Display) -> str:
        """Makes a source available; returns its key."""
        key = secrets.token_urlsafe(12)
        self._sources[key] = source
        return key

    def remove(self, key: str) -> None:
        """Makes a source unavailable; browsers that watch it are disconnected."""
        self._sources.pop(key, None)

    def close(self) -> None:
        """Stops offering all sources."""
        self._sources.clear()

    async def _serve(self, socket: WebSocket) -> None:
        """Sends one frame for each answer of the browser, at most `RATE` a second."""
        key = socket.path_params["key"]
        if key not in self._sources:
            await socket.close(4404)
            return
        await socket.accept()
        frames = Frames(self._sources[key])
        due = time.monotonic()
        try:
            while key in self._sources:
                message = frames.next()
                if message is None:
                    await asyncio.sleep(0.5 / RATE)
                    continue
                if isinstance(message, bytes):
                    await socket.send_bytes(message)
                else:
                    await socket.send_text(json.dumps(message))
                await socket.receive_text()  # the browser has it
                due = max(due + 1 / RATE, time.monotonic() - 1 / RATE)  # a delay is made up for, but not a long one
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            await socket.close(4404)
        except (WebSocketDisconnect, RuntimeError):
            return  # the browser has left


class Frames:
    """Messages for one browser: an outline whenever it changes, then rows interpolated between the last two ticks, or
    pictures."""

    def __init__(self, source: Display) -> None:
        self._source = source
        self._tick = -1
        self._drawing: Drawing | None = None  # a paused one changes too, when another agent is looked at
        self._structure: tuple[Any, ...] | None = None
        self._before = self._now = np.zeros((0, 0), np.float32)
        self._extent = 0.0
        self._done = False  # the newest tick has been shown as it is

    def next(self) -> bytes | dict[str, Any] | None:
        """Returns the next message; None if nothing has changed."""
        tick, made, lasts = self._source.ticks()
        if tick < 0:
            return None
        drawing = self._source.drawing()
        if tick != self._tick or drawing is not self._drawing:
            if drawing is None:
                self._tick = tick
                return self._source.picture()
            if (found := structure(drawing)) != self._structure:
                self._structure = found
                self._now = rows(drawing)
                self._extent = 2 * max(drawing.half)
                return {"outline": outline(drawing)}
            self._drawing = drawing
            self._before = self._now if tick == self._tick + 1 else rows(drawing)
            self._now = rows(drawing)
            self._tick = tick
            self._done = False
        elif self._done or self._structure is None:
            return None
        share = 1.0 if lasts <= 1 / RATE else min((time.monotonic() - made) / lasts, 1.0)
        self._done = share >= 1
        numbers = blend(self._before, self._now, share, self._extent)
        return np.array([tick & 0xFFFFFFFF], np.uint32).tobytes() + numbers.tobytes()
