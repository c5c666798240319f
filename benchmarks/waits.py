"""How long a game waits for its actions: a game in Python that takes 10 ms a step, trained over gRPC with and without
`threaded: true`.

    python benchmarks/waits.py [--ms 10] [--behaviors 1] [--agents 12] [--updates 12] [--repeat 1] [--json FILE]

The game is this file. It measures each tick's wait itself: from its message to the actions. Prints a histogram for each
way, and how long updates took. With `threaded: true` no wait should be as long as an update.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

from palaestra import sdk

BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, float("inf"))
"""Upper ends of the histogram's bins, in milliseconds."""
WARM_UP = 20
"""Ticks at the start that do not count."""


class Runner(sdk.Agent):
    """Walks on a line towards 1."""

    behavior = sdk.Behavior("First", observations=8, continuous=2)
    decision_period = 1
    max_step = 100

    def on_episode_begin(self) -> None:
        """Starts at 0."""
        self.at = 0.0

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        """Sees its place eight times."""
        sensor.add(*[self.at] * 8)

    def on_action_received(self, actions: sdk.Actions) -> None:
        """Walks, and is paid for being near 1."""
        self.at += 0.1 * actions.continuous[0]
        self.add_reward(-abs(self.at - 1.0))


class Follower(Runner):
    """Agent of another behavior."""

    behavior = sdk.Behavior("Second", observations=8, continuous=2)


@sdk.game
def waiting(academy: sdk.Academy, agents: int = 12, behaviors: int = 1, ms: float = 10.0, notes: str = "") -> None:
    """Agents of one behavior or two; each step takes `ms` milliseconds. Waits are written to the file `notes`."""
    for i in range(agents):
        academy.add(Follower() if behaviors == 2 and i % 2 else Runner())
    told, file = [0.0], open(notes or os.devnull, "ab", buffering=0)  # noqa: SIM115 - until the run ends the game

    @academy.on_step
    def simulate() -> None:
        if told[0]:
            file.write(array("d", [time.perf_counter() - told[0]]).tobytes())
        time.sleep(ms / 1000)
        told[0] = time.perf_counter()


def settings(threaded: bool, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the settings of a run; a rollout takes about two seconds to collect, a checkpoint is due at every second
    one.
    """
    agents = options.agents // options.behaviors
    rollout = int(agents * 2000 / options.ms)
    block = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 128, "buffer_size": rollout, "num_epoch": options.epochs},
        "network_settings": {"hidden_units": 128, "num_layers": 2},
        "summary_freq": rollout,
        "checkpoint_interval": 2 * rollout + 100,
        "max_steps": rollout * options.updates,
        "threaded": threaded,
    }
    # rollouts of the second behavior are shorter, so that updates of the two meet in every way
    other = {
        "hyperparameters": {**block["hyperparameters"], "buffer_size": rollout * 7 // 10},
        "max_steps": rollout * options.updates,
    }
    return {"behaviors": {"First": block, **({"Second": {**block, **other}} if options.behaviors == 2 else {})}}


def measure(threaded: bool, options: argparse.Namespace) -> dict[str, Any]:
    """Trains once. Returns waits and updates in milliseconds."""
    import palaestra

    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "waits"
        words = {"agents": options.agents, "behaviors": options.behaviors, "ms": options.ms, "notes": notes}
        arguments = tuple(part for name, value in words.items() for part in (f"--{name}", str(value)))
        given = {
            "env": os.path.abspath(__file__),
            "env_args": arguments,
            "results_dir": folder,
            "run_id": "run",
            "seed": 1,
        }
        palaestra.train(settings(threaded, options), quiet=True, **given)
        waits = array("d")
        waits.frombytes(notes.read_bytes())
        timers = json.loads((Path(folder) / "run/run_logs/timers.json").read_text())["children"]
    update = timers["update"]
    learned = (
        sum(one["total"] for one in timers["trainer_threads"]["children"].values()) if threaded else update["total"]
    )
    waited = update.get("children", {}).get("waiting for the trainer", {"total": 0.0})["total"]
    return {
        "waits": [1000 * wait for wait in waits[WARM_UP:]],
        "update": 1000 * learned / max(update["count"] - threaded, 1),
        "updates": update["count"],
        "waited for trainers": 1000 * waited,
    }


def shown(name: str, found: dict[str, Any]) -> str:
    """Returns the histogram of a run as text."""
    waits = found["waits"]
    low = 0.0
    median = statistics.median(waits)
    most = sorted(waits)[int(0.99 * len(waits))]
    lines = [
        f"{name}: {len(waits)} ticks, {found['updates']} updates of {found['update']:.0f} ms; waits: median "
        f"{median:.1f} ms, 99 % {most:.1f} ms, longest {max(waits):.0f} ms; {sum(waits) / 1000:.1f} s in all"
    ]
    for bound in BOUNDS:
        count = sum(low <= wait < bound for wait in waits)
        if count:
            lines.append(
                f"  {f'{low:g} to {bound:g} ms':>16} {count:6}  {'#' * max(1, round(50 * count / len(waits)))}"
            )
        low = bound
    return "\n".join(lines)


def main() -> None:
    """Runs the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ms", type=float, default=10.0)
    parser.add_argument("--behaviors", type=int, choices=(1, 2), default=1)
    parser.add_argument("--agents", type=int, default=12)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    every = []
    for _ in range(options.repeat):
        for threaded in (False, True):
            found = measure(threaded, options)
            every.append({"threaded": threaded, **found})
            print(shown("threaded" if threaded else "serial", found), flush=True)
    if options.json:
        options.json.write_text(json.dumps(every))


if __name__ == "__main__":
    import sys

    if "--mlagents-port" in sys.argv:
        waiting.play()
    else:
        main()
