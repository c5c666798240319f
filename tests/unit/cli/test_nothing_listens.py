"""A run on this machine listens for this machine only."""

import ipaddress
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]
FILE = ROOT / "configs" / "ppo" / "CartPole.yaml"
ROLL = ROOT / "configs" / "sdk" / "roll.yaml"
ROLL_GAME = ROOT / "examples" / "sdk_roll.py"


def listeners(process: subprocess.Popen[bytes], *, once: bool = False) -> set[str]:
    """Returns the addresses that a process and all that it has started listen on, until it ends or, if `once`, until
    there is any.
    """
    found = set[str]()
    while process.poll() is None and not (once and found):
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
        f"learn {FILE} --env=CartPole --processes=2 --num-areas=8",
        f"learn {FILE} --env=CartPole --processes=2 --num-areas=8 --set behaviors.CartPole.threaded=true",
        "learn --env=gymnasium:CartPole-v1 --env-runners=2 --num-envs=2",
        "learn --env=gymnasium:CartPole-v1 --processes=2 --env-runners=2 --num-envs=4 --num-areas=8",
        f"learn {FILE} --env=CartPole --num-areas=8 --view",
    ],
)
def test_nothing_listens_beyond_loopback(words: str, tmp_path: Path):
    if "runners" in words:
        pytest.importorskip("ray")
    given = [*words.split(), "--max-steps=4000"]
    process = subprocess.Popen([sys.executable, "-m", "palaestra", *given], cwd=tmp_path, stdin=subprocess.DEVNULL)
    found = listeners(process)
    assert process.wait() == 0
    must_be_loopback(found)


def must_be_loopback(found: set[str]) -> None:
    assert found
    assert all((getattr(ip := ipaddress.ip_address(one), "ipv4_mapped", None) or ip).is_loopback for one in found), (
        found
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", ["", "--num-envs=2", "--env-runners=2 --num-envs=2"])
def test_a_game_is_met_on_loopback(words: str, tmp_path: Path):
    if "runners" in words:
        pytest.importorskip("ray")
    given = ["learn", str(ROLL), f"--env={ROLL_GAME}", *words.split(), "--max-steps=1500"]
    process = subprocess.Popen([sys.executable, "-m", "palaestra", *given], cwd=tmp_path, stdin=subprocess.DEVNULL)
    found = listeners(process)
    assert process.wait() == 0
    must_be_loopback(found)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["view CartPole --no-browser", "run CartPole --brain=X=player --no-browser"])
def test_the_page_listens_on_loopback(command: str, tmp_path: Path):
    words = command.replace("X=", "CartPole=").split()
    process = subprocess.Popen([sys.executable, "-m", "palaestra", *words], cwd=tmp_path, stdin=subprocess.DEVNULL)
    try:
        must_be_loopback(listeners(process, once=True))
    finally:
        process.terminate()
        process.wait()
