"""Runs the original toolkit, the peers and Palaestra on the same work, one at a time, and prints a table of medians.

usage: python benchmarks/peers/run.py [--work bar|cartpole|cheetah|original|update|lstm|cnn|sac|all] [--peers NAME ...]
[--seeds 5] [--json FILE]

A work is a set of scripts <work>_<peer>.py in this folder, each printing one JSON line. They run in turn, every peer
with the first seed, then every peer with the next, so that a busy machine slows all of them alike. A `palaestra` or
`lean` script runs in the project's own environment, each other one in its own (venvs.py).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venvs import PEERS, ROOT, MissingPeerFilesError, ensure, peer_files_option

HERE = Path(__file__).resolve().parent
SCRIPTS = {
    "bar": "bar",
    "cartpole": "cartpole",
    "cheetah": "cheetah",
    "original": "ball",
    "update": "update",
    "lstm": "lstm",
    "cnn": "cnn",
    "sac": "sac",
}
"""Work to the stem of its scripts."""
RUNS_IN = {"single_file": "sb3"}  # peers that share another's environment
OWN = ("palaestra", "palaestra_builtin", "lean")  # run in the project's
BARS = {"CartPole-v1": 5, "Acrobot-v1": 5, "Pendulum-v1": 5, "LunarLander-v3": 3}  # seeds at most
BARS_AFTER = 10  # no settings were chosen on the seeds after it
CHEETAH = [(size, way) for size in ("64", "256") for way in ("serial", "parallel")]  # minibatch, how copies are stepped
UPDATES = {  # minibatch, threads; networks of an LSTM: 2 are actor and critic apart, 1 is one for both; bits of images
    "update": [("64",), ("4096",)],
    "lstm": [(size, threads, networks) for size in ("1024", "4096") for threads in "12" for networks in "21"],
    "cnn": [("256", threads, bits) for threads in "12" for bits in ("32", "16")],
    "sac": [(game, threads) for game in ("3DBall", "FoodCollector") for threads in "12"],
}
KEYS = ("game", "agents", "minibatch", "way", "threads", "networks", "bits")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
LIMIT_S = {"bar": 3600}
LIMIT_ELSE_S = 600

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A process to run: a peer's script and its arguments."""

    work: str
    peer: str
    script: Path
    arguments: tuple[str, ...]


def arguments_of(work: str, seeds: int, agents: Sequence[int], seconds: int) -> list[tuple[str, ...]]:
    if work == "bar":
        return [(game, str(BARS_AFTER + i + 1)) for game, most in BARS.items() for i in range(min(seeds, most))]
    if work == "cartpole":
        return [(str(seed),) for seed in range(1, seeds + 1)]
    if work == "cheetah":
        return CHEETAH
    if work == "original":
        return [(str(count), str(seconds)) for count in agents]
    return UPDATES[work]


def scripts_of(work: str, peer_files: Path) -> dict[str, Path]:
    stem = SCRIPTS[work]
    found = {path.stem.removeprefix(f"{stem}_"): path for path in sorted(HERE.glob(f"{stem}_*.py"))}
    return {"original": peer_files / "original_in_process.py", **found} if work == "original" else found


def jobs(options: argparse.Namespace) -> Iterator[Job]:
    for work in SCRIPTS if options.work == "all" else [options.work]:
        scripts = scripts_of(work, options.peer_files)
        chosen = [peer for peer in scripts if not options.peers or peer in options.peers]
        for arguments in arguments_of(work, options.seeds, options.agents, options.seconds):
            for peer in chosen:
                yield Job(work, peer, scripts[peer], arguments)


def interpreters(peers: set[str], options: argparse.Namespace) -> dict[str, Path]:
    """Returns the python of each peer, built if missing. A peer that cannot be built here is reported and left out."""
    own = ROOT / ".venv/bin/python"
    found = {}
    for peer in sorted(peers):
        try:
            found[peer] = (own if own.exists() else Path(sys.executable)) if peer in OWN else _venv(peer, options)
        except (MissingPeerFilesError, subprocess.CalledProcessError) as error:
            print(f"left out: {peer}: {error}", file=sys.stderr)
    return found


def _venv(peer: str, options: argparse.Namespace) -> Path:
    return ensure(RUNS_IN.get(peer, peer), options.cache, options.peer_files)


def run(job: Job, python: Path) -> Result | None:
    """Returns the script's report, or None after printing the end of its errors to stderr."""
    command = [os.path.abspath(python), os.path.abspath(job.script), *job.arguments]
    limit = LIMIT_S.get(job.work, LIMIT_ELSE_S)
    load, one_thread = os.getloadavg()[0], {**os.environ, **ONE_THREAD, "STARTED": str(time.time())}
    try:
        with tempfile.TemporaryDirectory() as place:  # some peers leave files where they are started
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, env=one_thread, cwd=place, check=True
            )
        line = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
    except (subprocess.SubprocessError, StopIteration) as error:
        tail = getattr(error, "stderr", None) or str(error)
        print(f"failed: {job.peer} {' '.join(job.arguments)}: {str(tail)[-800:]}", file=sys.stderr)
        return None
    more = {"peer": job.peer, "arguments": job.arguments, "load_before": round(load, 2)}
    result = {"work": job.work, **json.loads(line), **more}
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def is_of(result: Result, job: Job) -> bool:
    """Whether a result in a file is this job's."""
    return (result["work"], result["peer"], tuple(result["arguments"])) == (job.work, job.peer, job.arguments)


def machine(pythons: Mapping[str, Path]) -> dict[str, Any]:
    ask = "import torch, platform; print(torch.__version__, platform.python_version())"
    cpu_info = Path("/proc/cpuinfo")
    lines = cpu_info.read_text().splitlines() if cpu_info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    versions = {}
    for peer, python in pythons.items():
        answer = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=False).stdout.split()
        versions[peer] = dict(zip(("torch", "python"), answer, strict=False))
    today = datetime.date.today().isoformat()
    return {
        "date": today,
        "cores": os.cpu_count(),
        "cpu": model,
        "system": platform.system(),
        "threads": 1,
        "versions": versions,
    }


def table(results: Sequence[Result]) -> str:
    """Returns the medians as Markdown, one table for each kind of work."""
    parts = []
    for work, columns in COLUMNS.items():
        groups: dict[tuple[str, ...], list[Result]] = {}
        for result in results:
            if result["work"] == work:
                key = tuple(str(result[name]) for name in KEYS if name in result)
                groups.setdefault((*key, result["peer"]), []).append(result)
        if groups:
            named = [name for name in KEYS if name in next(iter(groups.values()))[0]]
            rows = [
                {"peer": key[-1], **dict(zip(named, key, strict=False)), **columns(runs)}
                for key, runs in groups.items()
            ]
            names = list(rows[0])
            lines = [names, ["---"] * len(names), *([str(row[name]) for name in names] for row in rows)]
            parts.append(f"{work}\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def _median(runs: Sequence[Result], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _cartpole(runs: Sequence[Result]) -> dict[str, str]:
    cpu = [run["cpu_s"] for run in runs]
    return {
        "CPU s": f"{_median(runs, 'cpu_s'):.1f}",
        "lowest to highest": f"{min(cpu):.1f} to {max(cpu):.1f}",
        "wall s": f"{_median(runs, 'wall_s'):.1f}",
        "env steps": f"{_median(runs, 'env_steps'):,.0f}",
        "env steps a CPU s": f"{statistics.median(run['env_steps'] / run['cpu_s'] for run in runs):,.0f}",
        "set-up CPU s": f"{_median(runs, 'setup_cpu_s'):.1f}",
        "both": f"{statistics.median(run['cpu_s'] + run['setup_cpu_s'] for run in runs):.1f}",
        "reached": f"{sum(run['reached'] for run in runs)} of {len(runs)}",
    }


def _bar(runs: Sequence[Result]) -> dict[str, str]:
    """Returns median and range of what a training takes until its policy, and its episodes, are at the bar."""
    whats = ("decisions", "CPU s", "wall s")
    row = dict.fromkeys((f"{what}, {when}" for when in ("evaluated", "trained") for what in whats), "")
    for measure in runs[0]["measures"]:
        found = [run for run in runs if measure in run]
        of = "" if len(found) == len(runs) else f", {len(found)} of {len(runs)}"
        row[f"decisions, {measure}"] = _spread([run[measure]["steps"] for run in found], ",.0f") + of
        for what, name in (("CPU s", "cpu_s"), ("wall s", "wall_s")):
            row[f"{what}, {measure}"] = (
                _spread([run[f"setup_{name}"] + run[measure][name] for run in found], ".1f") + of
            )
    return row


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "not reached"
    middle, low, high = (format(x, form) for x in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


COLUMNS = {
    "bar": _bar,
    "cartpole": _cartpole,
    "cheetah": lambda runs: {"env steps/s": f"{_median(runs, 'steps_per_s'):,.0f}"},
    "original": lambda runs: {
        "agent-steps/s": f"{_median(runs, 'median_sps'):,.0f}",
        "cycles": str(sum(run["cycles"] for run in runs)),
    },
    **dict.fromkeys(
        ("lstm", "cnn"),
        lambda runs: {"rows/s": f"{_median(runs, 'rows_per_s'):,.0f}", "best": f"{_median(runs, 'best'):,.0f}"},
    ),
    "sac": lambda runs: {"steps/s": f"{_median(runs, 'rows_per_s'):,.1f}", "best": f"{_median(runs, 'best'):,.1f}"},
    "update": lambda runs: {"samples a CPU s": f"{_median(runs, 'samples_per_cpu_s'):,.0f}"},
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compares the original toolkit, the peers and Palaestra on the same work."
    )
    parser.add_argument("--work", choices=[*SCRIPTS, "all"], default="all")
    names = ["original", *PEERS, *RUNS_IN, *OWN]
    parser.add_argument("--peers", nargs="+", metavar="NAME", choices=names, help=f"only these, of {', '.join(names)}")
    parser.add_argument("--seeds", type=int, default=5, help="cartpole: seeds 1 to this; bar: as many after 10")
    parser.add_argument(
        "--agents", type=int, nargs="+", default=[12, 256], help="original: agents of the 3DBall-like game"
    )
    parser.add_argument("--seconds", type=int, default=20, help="original: how long each runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write machine and every run to FILE")
    parser.add_argument("--resume", action="store_true", help="only run what is missing in that file")
    peer_files_option(parser)
    chosen = parser.parse_args()
    if chosen.resume and chosen.json is None:
        parser.error("--resume goes on with a file; name it with --json")
    chosen.resume = chosen.resume and chosen.json.exists()
    return chosen


def main() -> None:
    chosen = options()
    planned = list(jobs(chosen))
    pythons = interpreters({job.peer for job in planned}, chosen)
    about = machine(pythons)
    results: list[Result] = json.loads(chosen.json.read_text())["runs"] if chosen.resume else []
    for job in planned:
        if job.peer not in pythons or any(is_of(result, job) for result in results):
            continue
        result = run(job, pythons[job.peer])
        if result is not None:
            results.append(result)
            if chosen.json is not None:  # each time, so that a run cut short leaves what it measured
                chosen.json.write_text(json.dumps({"machine": about, "runs": results}, indent=1) + "\n")
    if not results:
        sys.exit("nothing ran: no peer of these names has a script for this work, or none could be built (see above)")
    print(table(results))


if __name__ == "__main__":
    main()
