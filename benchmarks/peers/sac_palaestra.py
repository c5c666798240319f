"""Palaestra's SAC gradient steps on decisions of its built-in games. usage: sac_palaestra.py GAME THREADS"""

from __future__ import annotations

import sys

from updates import GAMMA, SOFT, STORED, TAU, report

from palaestra.core.thread_waits import shorten_thread_waits

shorten_thread_waits()  # before torch is imported

import torch

import palaestra
from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.settings import load
from palaestra.trainers.sac import SAC


def main(game: str, threads: int) -> None:
    torch.set_num_threads(threads)
    shape = SOFT[game]
    hyper = {"batch_size": shape.batch, "buffer_size": 200_000 if game == "3DBall" else STORED, "tau": TAU}
    hyper |= {"learning_rate": shape.rate, "learning_rate_schedule": "constant", "init_entcoef": shape.entropy_coef}
    network = {"normalize": game == "3DBall", "hidden_units": shape.units, "num_layers": shape.layers}
    behavior = {
        "trainer_type": "sac",
        "hyperparameters": {**hyper, "steps_per_update": 10},
        "network_settings": network,
    }
    behavior["reward_signals"] = {"extrinsic": {"gamma": GAMMA}}
    learners = []

    def join(name: str, spec: BehaviorSpec) -> BehaviorCollector:
        settings = load({"behaviors": {name: behavior}}).settings.behaviors[name]
        learners.append(Learner(name, spec, settings, torch.device("cpu"), 0, False))
        return learners[0].collector

    collector = Collector(palaestra.make(f"builtin:{game}", areas=12 if game == "3DBall" else 4), join, seed=0)
    stored = 0
    while stored < STORED - 100:
        collector.advance(1000, lambda: False)
        (name,) = collector.collectors
        rollout, trainer = collector.take(name), learners[0].trainer
        trainer.replay.add(rollout, trainer.network.for_environment(rollout.sample), rollout.reward)
        stored = len(trainer.replay)
    trainer = learners[0].trainer
    assert isinstance(trainer, SAC)

    def learn() -> None:
        trainer.metrics = Metrics()
        trainer._learn(10 * shape.steps, 10_000)
        trainer.metrics.read()

    trainer._learn(shape.batch, 0)  # decisions before the first step
    report("palaestra", learn, shape.steps, rounds=9, game=game, threads=threads)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
