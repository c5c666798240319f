"""Starts the ranks of a run on this machine (`--processes`, `--gpus`), as torchrun does, and ends them together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import torch

from palaestra.core.display import is_terminal
from palaestra.core.errors import ConfigError, RankLost
from palaestra.core.plugins import own_python
from palaestra.parallel import ranks
from palaestra.runtime.control.os_signals import LAUNCHED, act_on_closed_input
from palaestra.runtime.settings.tree import TorchSettings

GRACE = 10.0
"""Seconds in which the other ranks must notice that a rank has ended, and end too."""
CHECK = 0.05
"""Seconds between two looks at the processes."""
OURS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
INTERFACES = {
    platform: {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": name}
    for platform, name in (("linux", "lo"), ("darwin", "lo0"))
}
"""Network interface of the ranks, which are all on this machine. PyTorch's default can be reached from other
machines."""
PREFIX, TRACEBACK = "palaestra: error: ", "Traceback (most recent call last)"
GOES_ON = "--resume continues the run"
PATIENCE = 60.0
"""Seconds that a rank has to save its state after its launcher has ended."""
LINES = 200
"""Lines of a rank's standard error that are kept."""


class RankProcess:
    """One rank's process. Rank 0 prints messages; of the other ranks only the standard error is kept."""

    def __init__(self, rank: int, count: int, port: int, arguments: Sequence[str]) -> None:
        self.name = f"rank {rank} of {count}"
        values = (rank, rank, count, count, ranks.LOOPBACK, port)
        own = {name: str(value) for name, value in zip(OURS, values, strict=True)} | {LAUNCHED: "1"}
        command = own_python("palaestra", *arguments)
        out, err = (None, None) if rank == 0 else (subprocess.DEVNULL, subprocess.PIPE)
        environment = {"TORCH_CPP_LOG_LEVEL": "ERROR", **INTERFACES.get(sys.platform, {}), **os.environ, **own}
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=err)
        self._lines = deque[str](maxlen=LINES)
        self._reader = threading.Thread(target=self._read, daemon=True, name=self.name)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self._lines.append(line.decode(errors="replace"))

    @property
    def code(self) -> int | None:
        """Exit code; None while it runs."""
        return self.process.poll()

    @property
    def killed_by(self) -> str | None:
        """Name of the signal that ended the process; None without a signal."""
        code = self.code
        return signal.Signals(-code).name if code is not None and code < 0 else None

    @property
    def error(self) -> str | None:
        """The process's error message; None if it has printed none."""
        text = "".join(self._lines)
        return text[text.rindex(PREFIX) + len(PREFIX) :].strip() if PREFIX in text else None

    @property
    def traceback(self) -> str | None:
        """The traceback that the process printed, if it failed with one."""
        text = "".join(self._lines)
        return text[text.rindex(TRACEBACK) :].strip() if TRACEBACK in text else None

    def close(self) -> None:
        """Ends the process, if it is still running."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self._reader.join(1.0)


def launch(count: int, arguments: Sequence[str]) -> int:
    """Runs `palaestra` with these arguments in `count` processes. Returns rank 0's exit status, else the status of
    another rank that failed.

    Raises RankLost if rank 0 could not report what happened. Signals reach all ranks.
    """
    port = _free_port()
    processes = list[RankProcess]()
    try:
        for rank in range(count):
            processes.append(RankProcess(rank, count, port, arguments))
        with _passing_on([rank.process for rank in processes]):
            first = _wait(processes)
    finally:
        ended = [rank.code for rank in processes]
        for rank in processes:
            rank.close()
    return _status(processes, first, ended)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _wait(processes: Sequence[RankProcess]) -> RankProcess | None:
    """Waits for all ranks; after one has failed, the others get GRACE seconds. Returns the first that failed."""
    first, deadline = None, 0.0
    while any(rank.code is None for rank in processes):
        if first is None:
            first = next((rank for rank in processes if rank.code), None)
            deadline = time.monotonic() + GRACE
        elif time.monotonic() > deadline:
            break
        time.sleep(CHECK)
    return first or next((rank for rank in processes if rank.code), None)


def _status(processes: Sequence[RankProcess], first: RankProcess | None, ended: Sequence[int | None]) -> int:
    """Returns the exit status of all. `ended`: exit codes when waiting ended. Raises RankLost."""
    if first is None:
        return 0
    for rank in processes[1:]:
        if rank.traceback is not None:
            print(f"{rank.name}:\n{rank.traceback}", file=sys.stderr)
    status = ended[0]
    code = first.code or 1
    if status is not None and status > 0:
        return status
    if status == 0:  # all is written: only rank 0 writes
        return 0 if first.killed_by is not None else code
    if first.killed_by in ("SIGINT", "SIGTERM", "SIGHUP"):
        return 128 - code
    if first.killed_by is not None:
        raise RankLost(f"{first.name} was killed by {first.killed_by}, and the others were ended; {GOES_ON}")
    raise RankLost(first.error or f"{first.name} failed, and {processes[0].name} did not end: it was killed; {GOES_ON}")


def end_with_launcher() -> None:
    """Ends this process, saved, when the process that launched it ends; kills it if that takes too long."""
    if os.environ.get(LAUNCHED):
        act_on_closed_input(_save_and_end)


def _save_and_end() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # the second ends it at once
        os.kill(os.getpid(), number)
        time.sleep(PATIENCE)
    os._exit(1)


@contextmanager
def _passing_on(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Within the block, signals go to all ranks. Ctrl-C reaches them from the terminal already."""

    def pass_on(number: int, _: FrameType | None) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, pass_on) for number in numbers}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN if is_terminal(sys.stdin) else pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def count_of(settings: TorchSettings) -> int:
    """Returns the number of processes. Raises ConfigError if there are fewer GPUs."""
    if settings.gpus is None:
        return settings.processes or 1
    there = torch.cuda.device_count()
    count = there if settings.gpus == -1 else settings.gpus
    if settings.processes not in (None, count):
        raise ConfigError(f"--processes={settings.processes} and --gpus={settings.gpus} differ; leave one of them out")
    if count > there or not count:
        flag = "--multi-gpu" if settings.gpus == -1 else f"--gpus={settings.gpus}"
        has = f"this machine has {there} GPU{'' if there == 1 else 's'}"
        raise ConfigError(f"{flag}: {has}; --processes trains in several processes on CPUs")
    return count
