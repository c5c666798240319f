"""Palaestra on 3DBall with the official settings. usage: ball_palaestra.py AGENTS SECONDS

Prints what the original's script prints: agent-steps/s over whole 12,000-step cycles (collect and update), the first
left out.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import torch

import palaestra

CYCLE = 12_000
CONFIG = Path(__file__).resolve().parents[2] / "configs" / "ppo" / "3DBall.yaml"


def main(agents: int, seconds: float) -> None:
    marks: list[tuple[float, int]] = []

    def note(summary) -> bool:
        marks.append((summary.elapsed, summary.step))
        return summary.elapsed - marks[0][0] > seconds

    with tempfile.TemporaryDirectory() as results:
        palaestra.train(
            CONFIG,
            env="builtin:3DBall",
            num_areas=agents,
            seed=0,
            run_id="peer",
            results_dir=results,
            max_steps=500_000_000,
            callbacks=[note],
            quiet=True,
        )
    rates = [(end - start) / (then - now) for (now, start), (then, end) in pairwise(marks)]
    print(
        json.dumps(
            {
                "agents": agents,
                "cycles": len(rates),
                "median_sps": statistics.median(rates),
                "threads": torch.get_num_threads(),
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
