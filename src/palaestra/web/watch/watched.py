"""One browser's playback: what it shows, its stream and its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from nicegui import run as worker
from nicegui import ui

from palaestra.core.display import escaped_lines, print_now
from palaestra.core.errors import PalaestraError
from palaestra.runtime.play.run_models import Models
from palaestra.runtime.playback.inspection import Inspector
from palaestra.runtime.playback.playing import Opened, Playback
from palaestra.runtime.playback.sources import PlaybackSource, steps_of
from palaestra.runtime.showing.live_models import LiveModels
from palaestra.runtime.storage.networks import load_networks
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.runtime.storage.writer_lock import is_written
from palaestra.web.scene.stream import SceneStreams

MOST = 6
"""Most playbacks at once, of all browsers; the oldest ends when another begins."""

_open: list[WatchedPlayback] = []


class WatchedPlayback:
    """A playback that ends when its browser closes the page."""

    def __init__(self, source: PlaybackSource, streams: SceneStreams, *, paused: bool = False) -> None:
        self.source = source
        self._streams = streams
        self._level = ""
        self._message = ""
        self._played: Mapping[str, object] = {}
        """File and modification time of each model that plays."""
        self.playback = Playback(self._open, paused=paused, on_error=_print)
        self.inspector = Inspector(self.playback)
        self.key = streams.add(self.playback.display)
        self.chosen = source.step
        """Step that the person chose, at which a ghost may play beside the newest models; None: the newest."""
        self._newest: int | None = None  # step of the models that play, where the newest are followed
        _open.append(self)
        while len(_open) > MOST:
            _open[0].close()

    def close(self) -> None:
        """Ends the playback and its stream."""
        if self in _open:
            _open.remove(self)
        self._streams.remove(self.key)
        self.playback.close()

    def _open(self) -> Opened:
        source = self.source
        opened = source.open(self._note)
        self._played = {} if source.run is None else _stamps(source.models())
        return opened

    def _note(self, level: str, text: str) -> None:
        _print(text)
        self._level = level
        self._message = text

    @property
    def notice(self) -> str:
        """Newest message of a Unity game, if it is a warning or if the game does not play yet."""
        state = self.playback.state
        return self._message if state.error is None and (state.opening or self._level == "warning") else ""

    async def show_step(self, step: int | None) -> str | None:
        """Plays the models of a step of the run, or the newest models. Returns an error as text."""
        self.source = replace(self.source, step=step)
        try:
            await worker.io_bound(self._exchange)
        except (PalaestraError, OSError) as error:
            return str(error)
        return None

    def _exchange(self) -> None:
        game = self.playback.game
        source = self.source
        if game is None or source.run is None:
            return
        models = source.models()
        before = self._played
        self._played = _stamps(models)
        brain_of = source.brain_of(game.env, source.parts(models))
        anew = self._played != before
        self.playback.order(lambda game: game.set_brains(brain_of, anew=anew))
        folder = RunFolder(source.results, source.run)
        there = [step for step in steps_of(folder) if (folder.checkpoints / str(step)).is_dir()]
        near = min(there, key=lambda step: abs(step - (source.step or there[-1])), default=None)
        found = {} if near is None else load_networks(folder.path, near, source.trust)
        self.inspector.networks = {name: network for name, (network, _) in found.items()}

    def has_newer_models(self) -> bool:
        """Whether there are newer models than the playing ones, if the newest are wanted."""
        if self.source.run is None:
            return False
        folder = RunFolder(self.source.results, self.source.run)
        if is_written(folder.path):  # it goes on showing itself while someone looks at how it was
            LiveModels(folder.path).watch()
        if self.source.step is not None:
            return False
        steps = steps_of(folder)
        if not steps or steps[-1] == self._newest:
            return False
        first = self._newest is None
        self._newest = steps[-1]
        return not first


def _stamps(models: Models) -> dict[str, object]:
    """Returns a fingerprint that changes when a learning run replaces these models."""
    return {name: (file, file.stat().st_mtime_ns) for name, file in models.files.items()}


def close_all(wait: float) -> None:
    """Ends all playbacks, and waits up to `wait` seconds in total until their environments are closed."""
    playbacks = [watched.playback for watched in _open]
    for watched in tuple(_open):
        watched.close()
    end = time.monotonic() + wait
    for playback in playbacks:
        playback.close(max(end - time.monotonic(), 0.01))


def _print(text: str) -> None:
    with suppress(OSError, ValueError):
        print_now(f"palaestra: {escaped_lines(text)}", sys.stderr)


def close_with_page(closes: Callable[[], object]) -> None:
    """Calls `closes` when the browser has closed the page for good."""
    ui.context.client.on_delete(lambda: closes() and None)
