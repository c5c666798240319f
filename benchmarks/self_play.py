"""The cost of self-play: agent-steps a second of training with and without it, alternating in one process.

    python benchmarks/self_play.py [--env Tennis] [--num-areas 256] [--seconds 20] [--rounds 3] [--json FILE]

Both train with PPO and the same settings; with self-play one team learns and the other plays snapshots of a window of
10. What is counted is decisions of all agents, whoever makes them, updates included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import palaestra
from palaestra.envs.builtin.base.env import WarpEnv

SELF_PLAY = {
    "save_steps": 20_000,
    "team_change": 100_000,
    "swap_steps": 2_000,
    "window": 10,
    "play_against_latest_model_ratio": 0.5,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Tennis")
    parser.add_argument("--num-areas", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {"plain": [], "self_play": []}
    for _ in range(options.rounds):
        for kind, kept in rates.items():
            kept.append(
                rate(options.env, options.num_areas, options.seconds, SELF_PLAY if kind == "self_play" else None)
            )
            print(f"{kind:10s} {kept[-1]:,.0f} agent-steps/s", flush=True)
    medians = {kind: statistics.median(kept) for kind, kept in rates.items()}
    print(f"self-play at {medians['self_play'] / medians['plain']:.2f} of the plain rate")
    if options.json:
        options.json.write_text(
            json.dumps({"env": options.env, "areas": options.num_areas, "rates": rates}), encoding="utf-8"
        )


def rate(env: str, areas: int, seconds: float, self_play: dict[str, Any] | None) -> float:
    """Returns the agent-steps a second of one run, without its first two rollouts."""
    block = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 1024, "buffer_size": 20_480},
        "network_settings": {"hidden_units": 256, "num_layers": 2, "normalize": True},
        "max_steps": 10**9,
        "time_horizon": 64,
        "summary_freq": 20_480,
        "checkpoint_interval": 10**9,
    }
    if self_play:
        block["self_play"] = self_play
    count = _count(env)
    marks = list[tuple[float, int]]()

    def stop(summary: palaestra.Summary) -> bool:
        marks.append((time.perf_counter(), count[0]))
        return len(marks) > 2 and marks[-1][0] - marks[1][0] > seconds

    with tempfile.TemporaryDirectory() as folder:
        tree = {"behaviors": {env: block}, "torch_settings": {"threads": 1}}
        palaestra.train(
            config=tree,
            env=env,
            num_areas=areas,
            results_dir=folder,
            run_id="run",
            quiet=True,
            callbacks=[stop],
            seed=1,
        )
    (begun, before), (ended, after) = marks[1], marks[-1]
    return (after - before) / (ended - begun)


def _count(env: str) -> list[int]:
    """Counts the agent-steps of built-in environments from here on."""
    count = [0]
    step = getattr(WarpEnv.step, "plain", WarpEnv.step)

    def counted(self: WarpEnv, actions: Any) -> Any:
        steps = step(self, actions)
        count[0] += sum(len(one.acting) for one in steps.values())
        return steps

    counted.plain = step  # type: ignore[attr-defined]
    WarpEnv.step = counted  # type: ignore[method-assign]
    return count


if __name__ == "__main__":
    main()
