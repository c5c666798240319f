"""Training a Unity game over the wire: agent-steps/s of Palaestra, of the original toolkit and of a trainer that
answers at once.

    python benchmarks/wire.py GAME [--original MLAGENTS_LEARN] [--agents 12] [--config FILE] [--steps 60000] [--seconds
    10]

GAME is a build that reads its number of agents from GAME_AGENTS. The trainer that answers at once shows the game's own
limit. Rates of trainings are those between their second and their last summary, so that starting up does not count.
Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from palaestra.core.timestep import Action
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions

SUMMARY = re.compile(r"Step: (\d+)\. Time Elapsed: ([\d.]+) s")


def limit(game: str, seconds: float) -> float:
    """Returns the agent-steps/s of the game if every answer is zeros, sent at once."""
    env = UnityEnv(UnityOptions(executable=game), log=lambda *_: None)
    steps = env.reset(0)
    (name,) = steps
    spec = env.behaviors[name].action
    answers: dict[int, Action] = {}
    done = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        slots = len(steps[name].reward)
        action = answers.setdefault(
            slots, Action(torch.zeros(slots, spec.continuous), torch.zeros(slots, len(spec.branches)).long())
        )
        steps = env.step({name: action})
        done += int(steps[name].acting.sum())
    rate = done / (time.perf_counter() - start)
    env.close()
    return rate


def trained(command: list[str], game: str, config: Path, folder: str, steps: int, threads: int) -> float:
    """Returns the agent-steps/s of a training, from its output."""
    text = re.sub(r"max_steps:.*", f"max_steps: {steps}", config.read_text())
    text = re.sub(r"summary_freq:.*", f"summary_freq: {max(steps // 10, 1000)}", text)
    own = Path(folder) / "config.yaml"
    own.write_text(text)
    words = [*command, str(own), f"--env={game}", "--run-id=run", f"--results-dir={folder}", "--seed=1", "--force"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    found = [(int(step), float(elapsed)) for step, elapsed in SUMMARY.findall(result.stdout)]
    if len(found) < 3:
        sys.exit(f"{command[0]} printed no summaries:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    (first, began), (last, ended) = found[1], found[-1]
    return (last - first) / (ended - began)


def main() -> None:
    """Runs the measurements named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game")
    parser.add_argument("--original", help="mlagents-learn of the original toolkit")
    parser.add_argument("--agents", type=int, default=12)
    parser.add_argument("--config", type=Path, default=Path("configs/ppo/3DBall.yaml"))
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--original-steps", type=int, default=24_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ["GAME_AGENTS"] = str(options.agents)
    game = str(Path(options.game).resolve())
    figures: dict[str, float] = {"agents": options.agents, "limit": limit(game, options.seconds)}
    with tempfile.TemporaryDirectory() as folder:
        ours = [str(Path(sys.executable).with_name("palaestra")), "learn"]
        figures["ours"] = trained(ours, game, options.config, folder, options.steps, options.threads)
        if options.original:
            figures["original"] = trained(
                [options.original], game, options.config, folder, options.original_steps, options.threads
            )
            figures["ours / original"] = figures["ours"] / figures["original"]
    figures["limit again"] = limit(game, options.seconds)
    figures["ours / limit"] = figures["ours"] / (0.5 * (figures["limit"] + figures["limit again"]))
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}, indent=1))


if __name__ == "__main__":
    main()
