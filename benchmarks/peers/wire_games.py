"""Palaestra and ML-Agents' own trainer on small games over the wire: decisions and seconds until a mean reward.

    PALAESTRA_ORIGINAL=FOLDER python benchmarks/peers/wire_games.py [--games recall spot ripest] [--seeds 3] [--json
    FILE]

PALAESTRA_ORIGINAL is the folder of the virtual environment in which the original is installed. Both read the same
settings and play the same game, one after the other, so that a busy machine is busy for both. The games are in
benchmarks/games: PPO with memory (recall), images (spot), observations of variable length (ripest), curiosity (maze),
GAIL and cloning (errand); SAC (reach); POCA (escape). A run counts up to its first summary at the bar, from the start
of its process (wall, and CPU seconds with its game) and from its first answer to the game (`learning s`, so without
starting up); then it is ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from palaestra.sdk.__main__ import pack

GAMES = Path(__file__).resolve().parents[1] / "games"
BARS = {"recall": 0.8, "spot": 9.0, "ripest": 8.5, "reach": 22.0, "maze": 0.8, "escape": 0.7, "errand": 0.8}
"""Mean reward of an episode, or of a group's. Heuristics earn 1, 10, 10, 25, 1, 1 and 1, random actions 0, 2.5, 2.5,
-11 and 0.
"""
DEMONSTRATED = {"errand": 60}
"""Number of the heuristic's episodes in GAME.demo, for games that are trained with demonstrations."""
PALAESTRA = str(Path(sys.executable).with_name("palaestra"))
OURS, ORIGINAL = "palaestra", "original"
SUMMARY = re.compile(
    r"Step: (\d+)\. Time Elapsed: ([\d.]+) s\. Mean Reward: (-?[\d.]+?)\. (?:Mean Group Reward: (-?[\d.]+?)\. )?"
)
FIGURES = ("decisions", "wall_s", "cpu_s", "learning_s")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one run."""

    game: str
    trainer: str
    seed: int
    reached: bool
    decisions: int
    wall_s: float
    cpu_s: float
    learning_s: float
    rewards: list[tuple[int, float]]  # at each summary


def raced(trainer: str, command: list[str], game: str, seed: int, folder: Path) -> Outcome:
    """Trains until the target reward or the settings' `max_steps`."""
    if game in DEMONSTRATED:
        record(game, folder / f"{game}.demo")
    if trainer == OURS:
        env = GAMES / f"{game}.py"
    else:
        env = pack(GAMES / f"{game}.py", folder / f"{game}.x86_64")
        command = [*command, f"--base-port={free_port()}"]
    words = [
        *command,
        str(GAMES / f"{game}.yaml"),
        f"--env={env}",
        "--run-id=run",
        f"--results-dir={folder}",
        f"--seed={seed}",
        "--force",
    ]
    began = time.perf_counter()
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=variables
    )
    assert process.stdout is not None
    rewards, printed, wall, cpu, learning, reached = [], [], 0.0, 0.0, 0.0, False
    for line in process.stdout:
        printed.append(line)
        found = SUMMARY.search(line)
        if found is None or reached:
            continue
        step, elapsed, reward = int(found[1]), float(found[2]), float(found[4] or found[3])
        rewards.append((step, reward))
        wall, cpu, learning = time.perf_counter() - began, cpu_seconds(process.pid), elapsed
        if reward >= BARS[game]:
            reached = True
            process.send_signal(signal.SIGINT)
    process.wait()
    if not rewards:
        sys.exit(f"{' '.join(words)} printed no summaries:\n{''.join(printed[-40:])}")
    return Outcome(game, trainer, seed, reached, rewards[-1][0], wall, cpu, learning, rewards)


def record(game: str, path: Path) -> None:
    """Records episodes of a game's heuristic, the same each time."""
    words = [PALAESTRA, "record", "--demo", f"--env=python:{game}:{game}", "--brain=heuristic", f"--demo-out={path}"]
    subprocess.run(
        [*words, f"--episodes={DEMONSTRATED[game]}", "--seed=0", "--force"],
        cwd=GAMES,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def cpu_seconds(root: int) -> float:
    """Returns the CPU seconds of a running process and its children."""
    processes = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def free_port() -> int:
    """Returns a free port: the original does not choose one itself."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def table(outcomes: Iterable[Outcome]) -> str:
    """Returns the medians over the seeds as Markdown, and ours in units of the original's."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.game, outcome.trainer), []).append(outcome)
    lines = ["| game | trainer | reached | " + " | ".join(FIGURES) + " |", "|" + " --- |" * (3 + len(FIGURES))]
    for (game, trainer), runs in groups.items():
        figures = [median(runs, name) for name in FIGURES]
        lines.append(
            f"| {game} | {trainer} | {sum(run.reached for run in runs)} of {len(runs)} | {words(figures, 1)} |"
        )
        peer = groups.get((game, ORIGINAL))
        if trainer == OURS and peer is not None:
            lines.append(
                f"| {game} | ours / original | | "
                f"{words([median(runs, name) / median(peer, name) for name in FIGURES], 2)} |"
            )
    return "\n".join(lines)


def median(runs: Iterable[Outcome], name: str) -> float:
    """Returns the median of one figure over runs."""
    return statistics.median(getattr(run, name) for run in runs)


def words(figures: Iterable[float], digits: int) -> str:
    """Returns the cells of a table row."""
    return " | ".join(f"{figure:,.{digits}f}" for figure in figures)


def main() -> None:
    """Runs the games named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", choices=list(BARS), default=list(BARS))
    parser.add_argument("--trainers", nargs="+", choices=[ORIGINAL, OURS], default=[ORIGINAL, OURS])
    parser.add_argument("--seeds", type=int, default=3, help="seeds 1 to this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run to FILE")
    options = parser.parse_args()
    place = os.environ.get("PALAESTRA_ORIGINAL")
    if ORIGINAL in options.trainers and place is None:
        sys.exit("PALAESTRA_ORIGINAL does not say where ML-Agents is installed (the folder of its virtual environment)")
    commands = {
        OURS: [PALAESTRA, "learn", "--torch-threads=1"],
        ORIGINAL: [f"{place}/bin/mlagents-learn"],
    }
    outcomes = []
    for game in options.games:
        for seed in range(1, options.seeds + 1):
            for trainer in options.trainers:
                with tempfile.TemporaryDirectory() as folder:
                    outcomes.append(raced(trainer, commands[trainer], game, seed, Path(folder)))
                print(f"{game}, {trainer}, seed {seed}: {asdict(outcomes[-1])}", file=sys.stderr, flush=True)
                if options.json:  # each time, so that a run cut short leaves what it measured
                    options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    print(table(outcomes))


if __name__ == "__main__":
    main()
