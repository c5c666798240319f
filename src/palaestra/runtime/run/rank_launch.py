"""Starts the ranks of a run on this machine (`--processes`, `--gpus`), as torchrun does, ends them together, and gives each its share."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

import torch

from palaestra.core.errors import ConfigError, RankLost
from palaestra.envs.base import Env
from palaestra.parallel import ranks
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.environments.unity_games import GameSettings
from palaestra.runtime.settings.tree import TorchSettings

GRACE = 10.0
"""Seconds that the other ranks have to notice that one is gone, and to end."""
CHECK = 0.05
"""Seconds between two looks at the processes."""
OURS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launch(count: int, arguments: Sequence[str]) -> int:
    """Runs `palaestra` with these arguments in `count` processes. Returns rank 0's exit status.

    Raises RankLost if rank 0 was killed; of any other rank it tells by itself. Signals reach all ranks.
    """
    port = _free_port()
    processes = [_start(rank, count, port, arguments) for rank in range(count)]
    with _passing_on(processes):
        try:
            return _wait(processes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()


def _start(rank: int, count: int, port: int, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    values = (rank, rank, count, count, "127.0.0.1", port)
    own = {name: str(value) for name, value in zip(OURS, values, strict=True)}
    command = [sys.executable, "-m", "palaestra", *arguments]
    quiet = None if rank == 0 else subprocess.DEVNULL  # rank 0 tells what happens to the others
    return subprocess.Popen(command, env={"TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ, **own}, stdin=quiet, stdout=quiet, stderr=quiet)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Waits until all have ended. Once one has failed, the others have GRACE seconds."""
    deadline: float | None = None
    while any(process.poll() is None for process in processes):
        if deadline is None and any(process.poll() for process in processes):
            deadline = time.monotonic() + GRACE
        if deadline is not None and time.monotonic() > deadline:
            break
        time.sleep(CHECK)
    code = processes[0].poll()
    if code is not None and code < 0 and processes[0].returncode != -signal.SIGINT:
        raise RankLost(
            f"rank 0 of {len(processes)} was killed by {signal.Signals(-code).name}, and the others were ended; --resume continues the run"
        )
    if code is None:
        raise RankLost(f"rank 0 of {len(processes)} did not end after another rank had failed, and was killed; --resume continues the run")
    if code < 0:
        return 128 - code  # as shells report a signal
    return 1 if not code and any(process.returncode for process in processes) else code


@contextmanager
def _passing_on(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Within the block, signals go to all ranks. Ctrl-C reaches them from the terminal already."""

    def pass_on(number: int, _: FrameType | None) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, pass_on) for number in numbers}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN if sys.stdin.isatty() else pass_on)
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
        raise ConfigError(f"--gpus={settings.gpus}: this machine has {there} GPUs; --processes trains in several processes on CPUs")
    return count


def shares(name: str, games: GameSettings, areas: int | None, make: Callable[[], Env]) -> tuple[GameSettings, int | None]:
    """Returns this rank's share of a game's copies, or of an environment's areas. Raises ConfigError if there are fewer than ranks."""
    if is_game(name) or games.copies > 1:
        first = sum(games.copies // ranks.size() + (i < games.copies % ranks.size()) for i in range(ranks.number()))
        port = games.options.base_port
        own = share_of(games.copies, "copies of the environment", "--num-envs")
        games = replace(games, options=replace(games.options, copies=own, base_port=None if port is None else port + first))
    if is_game(name):
        return games, areas
    if areas is None:
        usual = make()
        areas = usual.num_areas
        usual.close()
    return games, share_of(areas, "areas", "--num-areas")


def share_of(total: int, what: str, flag: str) -> int:
    """Returns this rank's share. Raises ConfigError if a rank would have none."""
    if total < ranks.size():
        raise ConfigError(f"{ranks.size()} processes cannot share {total} {what}: each needs one at least ({flag})")
    return ranks.split(total)
