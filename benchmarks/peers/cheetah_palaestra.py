"""Palaestra on HalfCheetah-v5. usage: cheetah_palaestra.py MINIBATCH serial|parallel

The whole engine runs as `palaestra learn` does. `parallel`: a process of its own learns (`threaded`) while the other
one collects.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from cheetah import ROLLOUT, Meter

import palaestra

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "ppo" / "HalfCheetah-v5.yaml"


def main(minibatch: int, way: str) -> None:
    meter = Meter("palaestra", minibatch, way)
    settings = {
        "hyperparameters.batch_size": minibatch,
        "hyperparameters.buffer_size": ROLLOUT,
        "summary_freq": ROLLOUT,
        "max_steps": 10**9,
        "threaded": way == "parallel",
    }
    with tempfile.TemporaryDirectory() as results:
        palaestra.train(
            CONFIG,
            seed=0,
            run_id="peer",
            results_dir=results,
            settings=settings,
            callbacks=[lambda summary: meter.cycle()],
            quiet=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
