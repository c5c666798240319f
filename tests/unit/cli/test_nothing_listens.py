"""A run on this machine listens for this machine only."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

FILE = Path(__file__).parents[3] / "configs" / "ppo" / "CartPole.yaml"


def listeners(process: subprocess.Popen[bytes]) -> set[str]:
    """Returns the addresses that a process and all that it has started listen on, until it ends."""
    found = set[str]()
    while process.poll() is None:
        started = []
        for one in (psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)):
            try:
                started += one.net_connections("inet")
            except psutil.Error:
                continue
        found |= {one.laddr.ip for one in started if one.status == psutil.CONN_LISTEN}
        time.sleep(0.1)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "learn --env=CartPole --processes=2 --num-areas=8",
        "learn --env=CartPole --processes=2 --num-areas=8 --set behaviors.CartPole.threaded=true",
        "learn --env=gymnasium:CartPole-v1 --env-runners=2 --num-envs=2",
        "learn --env=gymnasium:CartPole-v1 --processes=2 --env-runners=2 --num-envs=4 --num-areas=8",
        "tune --env=CartPole --trials=1 --ray",
    ],
)
def test_nothing_listens_beyond_loopback(words: str, tmp_path: Path):
    if "runners" in words or "ray" in words:
        pytest.importorskip("ray")
    command, *flags = words.split()
    given = [command, str(FILE), *flags, "--max-steps=4000"]
    process = subprocess.Popen([sys.executable, "-m", "palaestra", *given], cwd=tmp_path, stdin=subprocess.DEVNULL)
    found = listeners(process)
    assert process.wait() == 0
    assert found
    assert all((getattr(ip := ipaddress.ip_address(one), "ipv4_mapped", None) or ip).is_loopback for one in found), found
