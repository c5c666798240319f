"""Open a page in the browser: watch training, compare runs, see agents act, play against them, record demonstrations.

The page runs on this machine's loopback address, and its address has a token that keeps others out. The page is served
until this command ends.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from palaestra.cli.flags import env_options, given_env_options, option, results_dir, switch, trust
from palaestra.cli.game_flags import add_game_flags, given_flags, refuse_flags
from palaestra.core.display import is_terminal, print_now
from palaestra.core.errors import ConfigError, EnvError, PluginError, RunError
from palaestra.core.files import MODEL_FILES, near_files
from palaestra.core.plugins import nearest, registry

if TYPE_CHECKING:
    from palaestra.web.page_socket import PageSocket
    from palaestra.web.site import Site

EXAMPLES = """\
palaestra view
palaestra view first
palaestra view other/results
palaestra view 3DBall
palaestra view ./Soccer.x86_64 --no-graphics
palaestra view --bind 0.0.0.0 --port 9000
"""

OWN = ("num_envs", "bind")
"""Flags of Unity games that this command lacks, or that mean something else on the page."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra view`."""
    what = "a run, a folder of runs, or an environment (default: the runs of --results-dir)"
    parser.add_argument("what", nargs="?", metavar="WHAT", help=what)
    results_dir(parser)
    option(parser, "--port", "N", "port; the next free one is used if it is taken", 8600)
    option(parser, "--bind", "ADDRESS", "address to listen on; 0.0.0.0: other machines too", "127.0.0.1")
    switch(parser, "--beside", argparse.SUPPRESS)  # of `learn --view`: ends with its input
    switch(parser, "--no-browser", "print the address, but open no browser")
    trust(parser)
    env_options(parser)
    add_game_flags(parser, without=OWN)


def main(options: argparse.Namespace) -> int:
    """Serves the page until Ctrl-C. Raises ConfigError, RunError or PluginError."""
    from palaestra.runtime.environments.make import is_game

    if not 1 <= options.port <= 65535:
        raise ConfigError(f"--port is {options.port}; expected 1 to 65535")
    if options.beside:
        return _beside(options)
    site = replace(_site(options), flags=given_flags(options, without=OWN), options=given_env_options(options))
    if site.options and site.env is None and site.run is None:
        raise ConfigError("--set is for one run or environment: name it, such as 'palaestra view Match3'")
    if site.env is not None and not is_game(site.env):
        refuse_flags(site.env, site.flags)
    path = "/watch" if site.env is not None else "/" if site.run is None else f"/run?{urlencode({'id': site.run})}"
    return open_page(site, options.bind, options.port, path, browser=not options.no_browser)


def _beside(options: argparse.Namespace) -> int:
    """Serves the page of a run that is about to begin, until the process that trains it closes this one's input."""
    from palaestra.runtime.control.os_signals import act_on_closed_input
    from palaestra.web.site import Site

    with suppress(AttributeError, OSError):
        os.nice(10)  # the training goes first
    over = threading.Event()
    act_on_closed_input(over.set)
    path = f"/watch?{urlencode({'run': options.what, 'areas': 16, 'begins': 1})}" if options.what else "/"
    return open_page(Site(options.results_dir, run=options.what), path=path, browser=False, ended=over.is_set)


def open_page(
    site: Site,
    bind: str = "127.0.0.1",
    port: int = 8600,
    path: str = "/",
    *,
    browser: bool = True,
    ended: Callable[[], bool] | None = None,
) -> int:
    """Serves the page until Ctrl-C, and opens a browser at `path` where there is a desktop. Raises PalaestraError."""
    require_page()
    from palaestra.web.page_socket import listen
    from palaestra.web.serving import serve

    listener = listen(bind, port)
    announce(listener, path)
    if browser and listener.is_private:
        _open_browser(listener.address(path))
    with suppress(KeyboardInterrupt):  # the usual way to end it
        serve(site, listener, ended)
    return 0


def require_page() -> None:
    """Raises PluginError with the pip command if the page's libraries are not installed."""
    from importlib.util import find_spec

    if find_spec("nicegui") is None:
        raise PluginError("the page needs NiceGUI, which is not installed: pip install 'palaestra[view]'")


def announce(listener: PageSocket, path: str = "/") -> None:
    """Prints the address, and warns if other machines can reach it."""
    if listener.port != listener.wanted:
        print(f"port {listener.wanted} is taken; the page uses {listener.port}")
    print_now(f"page         {listener.address(path)}")
    if not listener.is_private:
        print(
            f"palaestra: warning: the page listens on {listener.bind}: anyone on the network who has this address, "
            "token included, can watch, play and stop runs; the traffic is not encrypted",
            file=sys.stderr,
        )


def _site(options: argparse.Namespace) -> Site:
    from palaestra.envs.unity import executable
    from palaestra.runtime.environments.make import EDITOR, is_game
    from palaestra.runtime.monitor.run_list import find_runs
    from palaestra.runtime.play.run_models import run_folder
    from palaestra.runtime.storage.run_folder import CONFIGURATION
    from palaestra.web.site import Site

    what = options.what
    if what is None:
        return Site(options.results_dir, trust=options.trust)
    path = Path(what)
    if is_game(what) and not (options.results_dir / what).is_dir() and not (path.is_dir() and find_runs(path)):
        if what != EDITOR and not path.exists() and executable.find(what) is None:
            raise EnvError(executable.explain_missing(what))
        return Site(options.results_dir, env=what, trust=options.trust)
    if path.is_dir() and not (path / CONFIGURATION).is_file() and not (options.results_dir / what).is_dir():
        return Site(path, trust=options.trust)
    if (options.results_dir / what).is_dir() or path.is_dir():
        folder = run_folder(what, options.results_dir)
        return Site(folder.results, run=folder.run_id, trust=options.trust)
    if path.suffix in (*MODEL_FILES, ".demo"):
        missing = f"the file {path} does not exist{near_files(path, [path.suffix])}"
        raise RunError(f"{path} is a file; expected a run, a folder or an environment" if path.exists() else missing)
    known = registry("envs").names()
    if (
        what not in known
        and not what.startswith(("gymnasium:", "envpool:", "pettingzoo:", "python:", "builtin:"))
        and not path.exists()
    ):
        runs = find_runs(options.results_dir)
        raise RunError(
            f"there is no run, folder or environment '{what}'{nearest(what, [*runs, *known])} (runs in "
            f"{options.results_dir}: {', '.join(runs[:10]) or 'none'}; environments: {', '.join(known)})"
        )
    return Site(options.results_dir, env=what, trust=options.trust)


def _open_browser(address: str) -> None:
    """Opens the browser of a desktop; machines without one, or reached over SSH, print the address only."""
    desktop = sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if desktop and is_terminal(sys.stdout) and not os.environ.get("SSH_CONNECTION"):
        webbrowser.open(address)
