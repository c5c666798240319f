"""Measures MA-POCA's updates with the official settings of a built-in game, from a rollout that is collected first.

usage: python benchmarks/poca_steps.py [--env SoccerTwos] [--decisions 20480] [--times 3] [--threads 1]

Prints the gradient steps a second of wall time and of processor time, values before the passes included, and a digest
of what was learned. For a comparison run it by turns with the code before and after (PYTHONPATH=OTHER/src).
"""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path

import torch

import palaestra
from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.settings import load
from palaestra.trainers.poca import POCA

OFFICIAL = Path(__file__).resolve().parent.parent / "tests" / "golden" / "data" / "configs" / "poca"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="SoccerTwos", help="a built-in game with official settings of MA-POCA")
    parser.add_argument("--decisions", type=int, help="of a rollout (default: the official buffer_size)")
    parser.add_argument("--times", type=int, default=3, help="updates, of which the fastest counts")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    settings = load(OFFICIAL / f"{options.env}.yaml").settings.behaviors[options.env]
    learners: list[Learner] = []

    def join(name: str, spec: BehaviorSpec) -> BehaviorCollector:
        learners.append(Learner(name, spec, settings, torch.device("cpu"), 0, False))
        learners[-1].collector.rollout_size = options.decisions or learners[-1].collector.rollout_size
        return learners[-1].collector

    collector = Collector(palaestra.make(f"builtin:{options.env}", areas=16), join, seed=0)
    rollouts = {}
    while not rollouts:
        rollouts = collector.collect(1_000_000, lambda: False)
    trainer = learners[0].trainer
    assert isinstance(trainer, POCA)
    rollout, coefficients = rollouts[options.env], trainer.schedule(0)
    walls, processors = [], []
    for _ in range(options.times):
        trainer.metrics = Metrics()
        wall, processor = time.perf_counter(), time.process_time()
        trainer.learn(rollout, coefficients)
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    decisions = len(rollout.completed(rollout.reward))
    steps = trainer.hyper.num_epoch * max(decisions // trainer.batch_size, 1)
    weights = b"".join(p.detach().numpy().tobytes() for p in trainer.network.parameters())
    print(
        f"{options.env}, {decisions:,} decisions, {steps} steps, {options.threads} thread(s): "
        f"{steps / min(walls):.2f} steps/s, {steps / min(processors):.2f} steps/s of processor time, "
        f"digest {hashlib.sha256(weights).hexdigest()[:12]}"
    )


if __name__ == "__main__":
    main()
