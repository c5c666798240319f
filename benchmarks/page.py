"""Measures the page: frames that reach a browser, what a run loses while it is watched, how fast many long runs open,
memory over time.

    python benchmarks/page.py frames rate runs memory --minutes 60

`rate` and `runs` use a headless Chromium (PALAESTRA_CHROMIUM, one that is installed, or Playwright's own).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil
import websockets
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "page"))
from browser import FLAGS, Visitor, chromium, viewing

SCENES = (("3DBall", 64), ("FoodCollector", 16))
CURVES = """() => { const e = document.querySelector('[data-mark=curves]');
  const c = e && getElement(e.id.slice(1))?.chart;
  return c && c.getOption().series.some(s => s.data.length) }"""
LEARN = [
    sys.executable,
    "-m",
    "palaestra",
    "learn",
    "--env=3DBall",
    "--seed=1",
    "--force",
    "--set",
    "behaviors.*.max_steps=600000",
]


async def watch(address: str, path: str, seconds: float) -> list[float]:
    """Receives frames as a browser does, without drawing them. Returns when each came, seconds."""
    with httpx.Client(follow_redirects=True) as client:
        home = address.partition("?")[0].rstrip("/")
        client.get(address)
        (key,) = set(re.findall(r"/scene/([\w-]+)", client.get(home + path, timeout=30).text))
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    came: list[float] = []
    async with websockets.connect(
        home.replace("http", "ws") + f"/scene/{key}", additional_headers={"cookie": cookie}
    ) as socket:
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            message = await asyncio.wait_for(socket.recv(), 30)
            if isinstance(message, bytes):
                came.append(time.monotonic())
            await socket.send("")
    return came


def frames(folder: Path, seconds: float) -> None:
    """Frames a second of the scenes, and the longest wait between two."""
    for env, areas in SCENES:
        with viewing(folder) as (process, address):
            asyncio.run(watch(address, f"/watch?env={env}&areas={areas}", 8))  # the second one finds everything loaded
            server = psutil.Process(process.pid)
            before = sum(server.cpu_times()[:2])
            began = time.monotonic()
            came = asyncio.run(watch(address, f"/watch?env={env}&areas={areas}", seconds))
            share = (sum(server.cpu_times()[:2]) - before) / (time.monotonic() - began)
            late = came[len(came) // 5 :]  # past the opening
            gaps = sorted(now - last for last, now in itertools.pairwise(late))
            rate = len(gaps) / (late[-1] - late[0])
            print(
                f"frames: {areas} areas of {env}: {rate:.1f} a second, 99 % of waits under "
                f"{gaps[int(len(gaps) * 0.99)] * 1000:.0f} ms, longest {gaps[-1] * 1000:.0f} ms, server {share:.0%} "
                "of a core"
            )


def rate(folder: Path, pairs: int) -> None:
    """Rate of a run with its page open in a browser, as a share of the rate without."""
    shares = []
    for number in range(pairs):
        found: dict[str, float] = {}
        for kind in ("alone", "watched") if number % 2 else ("watched", "alone"):
            run = folder / "results" / kind
            if kind == "alone":
                learn(folder, kind)
            else:
                with viewing(folder) as (_, address), sync_playwright() as driver:
                    browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
                    someone = Visitor(browser, address)
                    process = subprocess.Popen([*LEARN, f"--run-id={kind}"], cwd=folder, stdout=subprocess.DEVNULL)
                    while process.poll() is None and not (run / "metrics.jsonl").exists():
                        time.sleep(0.1)
                    someone.open(f"/run?id={kind}")
                    while process.poll() is None:
                        someone.page.wait_for_timeout(200)
                    browser.close()
            last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
            found[kind] = last["step"] / last["elapsed"]
        shares.append(found["watched"] / found["alone"])
        print(
            f"rate: alone {found['alone']:,.0f}, watched {found['watched']:,.0f} decisions a second: {shares[-1]:.3f}"
        )
    print(f"rate: median of {pairs} pairs {statistics.median(shares):.3f}")


def learn(folder: Path, run_id: str) -> None:
    """Trains a run to its end."""
    subprocess.run([*LEARN, f"--run-id={run_id}"], cwd=folder, stdout=subprocess.DEVNULL, check=True)


def runs(folder: Path, count: int = 100, steps: int = 10_000_000, every: int = 10_000) -> None:
    """Seconds until a browser shows the table and curves of many long runs; the server has just been started."""
    tags = [f"Losses/Part {number}" for number in range(20)]
    for number in range(count):
        run = folder / "results" / f"long-{number}"
        (run / "run_logs").mkdir(parents=True)
        (run / "configuration.yaml").write_text(f"behaviors:\n  A:\n    trainer_type: ppo\n    max_steps: {steps}\n")
        with (run / "metrics.jsonl").open("w") as file:
            for step in range(every, steps + 1, every):
                values = {tag: math.sin(step / 1e5 + at) for at, tag in enumerate(tags)}
                line = {
                    "behavior": "A",
                    "step": step,
                    "time": 1.7e9 + step / 1e4,
                    "elapsed": step / 1e4,
                    "Environment/Cumulative Reward": 1.0,
                }
                file.write(json.dumps(line | values) + "\n")
    size = sum(path.stat().st_size for path in (folder / "results").rglob("*.jsonl"))
    with viewing(folder) as (_, address), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page()
        # scripts are in the browser's cache
        page.goto(address.partition("?")[0] + "demos?" + address.partition("?")[2])
        page.wait_for_timeout(2000)
        began = time.monotonic()
        page.goto(address.partition("?")[0])
        page.get_by_text(re.compile(r"long-\d+")).first.wait_for(timeout=20_000)
        table = time.monotonic() - began
        page.wait_for_function(CURVES, timeout=20_000)
        print(f"runs: {count} runs, {size / 1e6:.0f} MB: table {table:.2f} s, curves {time.monotonic() - began:.2f} s")
        browser.close()


def memory(folder: Path, minutes: float) -> None:
    """Memory of the server while a browser watches a scene, every tenth of the time."""
    with viewing(folder) as (process, address), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        someone = Visitor(browser, address)
        someone.open("/watch?env=3DBall&areas=64")
        for part in range(1, 11):
            someone.page.wait_for_timeout(minutes * 6000)
            print(
                f"memory: {part * minutes / 10:.1f} min: {psutil.Process(process.pid).memory_info().rss / 2**20:.1f} "
                "MiB",
                flush=True,
            )
        browser.close()


def main() -> None:
    """Runs the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["frames", "rate", "runs"], help="frames, rate, runs, memory")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each scene")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs, one watched and one alone")
    parser.add_argument("--minutes", type=float, default=60.0, help="length of the memory test")
    given = parser.parse_args()
    for part in given.parts:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            if part == "frames":
                frames(folder, given.seconds)
            elif part == "rate":
                rate(folder, given.pairs)
            elif part == "runs":
                runs(folder)
            else:
                memory(folder, given.minutes)


if __name__ == "__main__":
    main()
