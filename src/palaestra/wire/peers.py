"""Identifies the program at the other end of a connection to a game's port, as far as the system reports it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

import psutil

LOOPBACK = ("127.", "::1", "::ffff:127.")


class Origin(Enum):
    """The sender of a message."""

    GAME = "the game that was started"
    OTHER = "another program of this machine"
    UNKNOWN = "nobody can tell"


@dataclass(frozen=True, slots=True)
class PeerProgram:
    """A process and its name."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name}, process {self.pid}"


def origin(peer: str, port: int, game: int) -> tuple[Origin, PeerProgram | None]:
    """Returns whether `peer` (gRPC's name) belongs to the process `game` or one of its descendants, and which program
    it is.

    A program started with our port on its command line also counts as the game: a wrapper may have another program
    start it.
    """
    program = program_of(peer, port)
    if program is None:
        return Origin.UNKNOWN, None
    return (Origin.GAME if _is_part_of(program.pid, game, port) else Origin.OTHER), program


def program_of(peer: str, port: int) -> PeerProgram | None:
    """Returns the process at the peer's end of a connection to our `port`; None: on another machine, gone, or not
    reported.
    """
    host, _, number = peer.partition(":")[2].rpartition(":")
    if not unquote(host).strip("[]").startswith(LOOPBACK) or not number.isdigit():
        return None
    for connection in _connections():
        ours = connection.raddr and connection.raddr[1] == port
        if ours and connection.laddr[1] == int(number) and connection.pid:
            return PeerProgram(connection.pid, _name(connection.pid))
    return None


def holder_of(port: int) -> PeerProgram | None:
    """Returns the process that listens on a port of this machine; None: there is none, or the system does not report
    it.
    """
    for connection in _connections():
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1] == port and connection.pid:
            return PeerProgram(connection.pid, _name(connection.pid))
    return None


def _connections() -> list:
    """Returns the connections that this user may see; on macOS, where only root may see all, those of this user's
    processes.
    """
    try:
        return psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        pass
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            read = getattr(process, "net_connections", None) or process.connections  # its name before psutil 6
            found += [_Own(each.laddr, each.raddr, each.status, process.pid) for each in read("tcp")]
    return found


@dataclass(frozen=True, slots=True)
class _Own:
    laddr: tuple
    raddr: tuple
    status: str
    pid: int


def _is_part_of(pid: int, game: int, port: int) -> bool:
    if pid == game:
        return True
    if sys.platform != "win32":
        with suppress(OSError):
            if os.getsid(pid) == game:  # each game is started in its own session
                return True
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if any(parent.pid == game for parent in process.parents()):
            return True
        words = process.cmdline()
        return any(word == "--mlagents-port" and words[i + 1 : i + 2] == [str(port)] for i, word in enumerate(words))
    return False


def _name(pid: int) -> str:
    with suppress(psutil.Error):
        return psutil.Process(pid).name()
    return "a program"
