"""`palaestra learn` as a process of its own, as signals and games meet it."""

import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SERVER = multiprocessing.get_context("forkserver")  # imports torch once, not once a process
SERVER.set_forkserver_preload(
    [
        "palaestra.api.train",
        "palaestra.runtime.environments.unity_games",
        "palaestra.runtime.plots.curves",
        "palaestra.cli.learn",
    ]
)


class Trainer:
    """Works in a folder, below which its temporary files are too; what it says goes to a file there."""

    def __init__(self, folder: Path, words: list[str], name: str = "trainer") -> None:
        self.folder = folder
        self.output = folder / f"{name}.said"
        self.temporary = folder / f"{name}.temporary"
        self.temporary.mkdir()
        self.output.touch()
        self.process = SERVER.Process(target=play, args=(str(folder), str(self.output), str(self.temporary), words))
        self.process.start()

    @property
    def text(self) -> str:
        return self.output.read_text("utf-8")

    def until(self, so: str | Callable[[], bool], patience: float = 120.0) -> None:
        """Waits until it has said that, or that is so."""
        deadline = time.monotonic() + patience
        while not (so in self.text if isinstance(so, str) else so()):
            assert time.monotonic() < deadline, f"waited in vain for {so!r}: {self.text}"
            assert self.process.exitcode is None, f"it ended before {so!r}: {self.text}"
            time.sleep(0.02)

    def hears(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def ends(self) -> int | None:
        """Its exit status; None: it has not ended within two minutes."""
        self.process.join(120)
        return self.process.exitcode

    def games(self) -> list[dict[str, Any]]:
        """What its games noted when they started (`make_build(..., notes=folder / "notes")`)."""
        return [
            json.loads(note.read_text())
            for note in self.folder.glob("notes/*.json")
            if not note.name.endswith(".end.json")
        ]

    def left(self) -> list[str]:
        """What should not be there any more, after a moment's patience."""
        eventually(lambda: not any(alive(game["pid"]) for game in self.games()))
        games = [f"game {game['pid']}" for game in self.games() if alive(game["pid"])]
        ports = [f"port {game['port']}" for game in self.games() if listens(game["port"])]
        return [*games, *ports, *(path.name for path in self.temporary.glob("palaestra-*"))]


def play(folder: str, output: str, temporary: str, words: list[str]) -> None:
    """The process itself."""
    from palaestra.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with
    os.chdir(folder)
    tempfile.tempdir = temporary
    out = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]
    sys.exit(main(["learn", *words]))


def alive(process: int) -> bool:
    """Whether it runs; an ended one that nobody has asked for its status does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def listens(port: int) -> bool:
    """Whether any process of this machine accepts connections there."""
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def eventually(so: Callable[[], bool], patience: float = 60.0) -> bool:
    deadline = time.monotonic() + patience
    while not so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return so()
