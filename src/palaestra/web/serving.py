"""Serves the page from this process until it is stopped."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from palaestra.web.access import Access, Guests, names_of_this_machine
from palaestra.web.page_socket import PageSocket
from palaestra.web.site import Site

if TYPE_CHECKING:
    import uvicorn

    from palaestra.web.people.invitation import Invitation
    from palaestra.web.scene.stream import SceneStreams

CLOSING = 3
"""Seconds that environments, such as Unity games, have to close when the page ends."""
_ARENA_MAX = -8
"""Number of the option for glibc's mallopt."""
GRACE = 1
"""Seconds that browsers have to leave when the page ends."""


def serve(site: Site, listener: PageSocket, ended: Callable[[], bool] | None = None) -> None:
    """Serves the page until a signal, or until `ended` returns True; `ended` is called four times a second."""
    share_free_memory()
    # nothing is kept; else a folder here, or one that anyone may write to
    os.environ.setdefault("NICEGUI_STORAGE_PATH", os.devnull)
    import uvicorn
    from fastapi import FastAPI
    from nicegui import ui

    from palaestra.web.layout import ICON
    from palaestra.web.people.invitation import invitation
    from palaestra.web.scene.stream import SceneStreams
    from palaestra.web.watch.watched import close_all

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    streams = SceneStreams()
    app.router.routes.append(streams.route)
    guests = Guests()
    add_pages(site, streams, lambda key: invitation(listener, f"/play?join={key}", guests.invite(key)))
    ui.run_with(
        app,
        title="Palaestra",
        favicon=ICON,
        dark=None,
        language="en-US",
        reconnect_timeout=10.0,
        show_welcome_message=False,
    )
    hosts = names_of_this_machine() if not listener.is_private else ("localhost",)
    # NiceGUI looks at every object once, torch's too
    warnings.filterwarnings("ignore", "`torch.distributed.reduce_op`", FutureWarning)
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    guarded = Access(app, listener.token, listener.port, hosts, guests)
    config = uvicorn.Config(
        guarded,
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=GRACE,
        lifespan="on",
        server_header=False,
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        watching = asyncio.create_task(_watch(server, streams, ended))
        await server.serve(sockets=[listener.socket])
        watching.cancel()

    try:
        with _ending_on_hangup(server):
            asyncio.run(run())
    finally:
        close_all(CLOSING)


def share_free_memory() -> None:
    """Lets all threads allocate from one heap, if glibc allocates memory.

    Each playback has its own thread: with a separate heap for each, the process grew by a megabyte with every visit to
    the page.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # other libraries have no such option
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


@contextmanager
def _ending_on_hangup(server: uvicorn.Server) -> Iterator[None]:
    """Ends the server when its terminal closes, as uvicorn itself does on SIGINT and SIGTERM."""
    number = getattr(signal, "SIGHUP", None)
    if (
        number is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(number) == signal.SIG_IGN
    ):
        yield
        return
    before = signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    try:
        yield
    finally:
        signal.signal(number, before)


def add_pages(site: Site, streams: SceneStreams, invitation_to: Callable[[str], Invitation]) -> None:
    """Registers every page and its WebSockets. `invitation_to` makes a second person's link to a game, by its key."""
    from palaestra.runtime.monitor.run_index import RunIndex
    from palaestra.web.dashboard.runs_page import add_runs_page
    from palaestra.web.people.play_page import add_play_page
    from palaestra.web.recorded.demos_page import add_demos_page
    from palaestra.web.starting.new_run_page import add_new_run_page
    from palaestra.web.watch.watch_page import add_watch_page

    index = RunIndex(site.results)
    add_runs_page(site, index)
    add_new_run_page(site)
    add_watch_page(site, streams, index)
    add_play_page(site, streams, invitation_to)
    add_demos_page(site)


async def _watch(server: uvicorn.Server, streams: SceneStreams, ended: Callable[[], bool] | None) -> None:
    """Stops the server when `ended` returns True, and then ends the streams, which would continue otherwise."""
    while not server.should_exit:
        await asyncio.sleep(0.25)
        if ended is not None and ended():
            server.should_exit = True
    streams.close()
