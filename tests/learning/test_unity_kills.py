"""SIGKILL of a random copy of a game every ten seconds: the run goes on, and half episodes are no part of it."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from small_runs import settings, write
from unity_games import make_build

COPIES, EVERY, SEEN_WITHIN = 4, 10.0, 2.0


class Watched:
    """A `palaestra learn` whose lines are kept with the time at which they came."""

    def __init__(self, folder: Path, build: Path) -> None:
        file = write(str(folder / "settings.yaml"), settings("Ball", 10**9, summary_freq=1000))
        command = [
            sys.executable,
            "-m",
            "palaestra",
            "learn",
            file,
            f"--env={build}",
            f"--num-envs={COPIES}",
            "--run-id=kills",
        ]
        self.process = subprocess.Popen(
            [*command, f"--results-dir={folder}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line))

    def wait_for(self, found: Callable[[str], bool], since: int, seconds: float) -> float:
        """When a line came, of those since that one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            times = [when for when, line in self.lines[since:] if found(line)]
            if times:
                return times[0]
            time.sleep(0.01)
        raise AssertionError(f"not within {seconds} s:\n" + "".join(line for _, line in self.lines[-20:]))

    def games(self) -> list[tuple[int, psutil.Process]]:
        """Those that run, and which copy each is."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            words = child.cmdline()
            if "-logFile" in words:
                found.append((int(words[words.index("-logFile") + 1].rpartition("-")[2].partition(".")[0]), child))
        return found

    def end(self) -> str:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self._reader.join(10)
        return "".join(line for _, line in self.lines)


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
@pytest.mark.slow
def test_a_run_goes_on_though_games_are_killed_again_and_again(tmp_path: Path) -> None:
    chance = random.Random(5)
    delays = list[float]()
    run = Watched(tmp_path, make_build(tmp_path, "Ball", episode=10))
    try:
        run.wait_for(lambda line: "Step:" in line, 0, 60)
        start = time.monotonic()
        for number in range(1, 30):
            time.sleep(max(0.0, start + number * EVERY - time.monotonic()))
            copy, victim = chance.choice(run.games())
            since = len(run.lines)
            killed = time.monotonic()
            victim.kill()
            delays.append(
                run.wait_for(lambda line, copy=copy: f"copy {copy} of the game: it" in line, since, 10) - killed
            )
            run.wait_for(lambda line: "Step:" in line, len(run.lines), 10)
        time.sleep(5)
        assert len(run.games()) == COPIES
        said = run.end()
    finally:
        run.process.kill()
    assert run.process.returncode == 0, said[-2000:]
    assert said.count("Its open episodes are left out") == len(delays)
    assert max(delays) < SEEN_WITHIN, delays
    lengths = [line["Environment/Episode Length"] for line in metrics(tmp_path / "kills") if line["episodes"]]
    assert len(lengths) > 100
    assert set(lengths) == {9.0}  # as ML-Agents counts: decisions after the first
    print(f"{len(delays)} kills, seen within {max(delays):.2f} s; {len(lengths)} summaries")


def metrics(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
