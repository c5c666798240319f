"""Algorithms that Palaestra lacks or names differently, each with the nearest trainer of Palaestra."""

from __future__ import annotations

import re

NEAREST = (
    (
        "dqn ddqn doubledqn duelingdqn qrdqn c51 iqn rainbow nfq qlearning bdq",
        "examples/dqn.py of the repository is a DQN in one file, run there with --trainer=examples.dqn:DQN",
    ),
    (
        "a2c a3c ac actorcritic acktr",
        "examples/a2c.py of the repository is an A2C in one file, run there with --trainer=examples.a2c:A2C",
    ),
    ("td3 ddpg td7 tqc redq droq crossq apexddpg d4pg naf sql", "sac is nearest: off-policy as well, with two critics"),
    ("sacd discretesac sacdiscrete", "sac takes discrete actions too"),
    ("trpo npg ppg ppo2 ppoclip ppopenalty", "ppo is nearest"),
    ("maskableppo ppomask", "ppo applies action masks automatically"),
    (
        "recurrentppo ppolstm ppornn r2d2 r2d3",
        "ppo has a memory with --set 'network_settings.memory={memory_size: 128}'",
    ),
    (
        "impala appo vtrace dppo ddppo apex",
        "ppo is nearest; --processes, --gpus and --set threaded=true make it faster",
    ),
    ("mappo maddpg qmix vdn coma matd3 masac hatrpo happo mat", "poca is nearest: groups of agents share a reward"),
    (
        "reinforce vpg pg policygradient",
        "ppo is nearest; the guide 'Write a trainer, step by step: REINFORCE' writes one",
    ),
    ("gail airl", "gail is a reward signal here, for any trainer: see the guide 'Imitation learning'"),
    ("amp deepmimic ase", "amp is a reward signal here, for any trainer: see the guide 'Motion priors'"),
    ("icm curiosity rnd", "curiosity and rnd are reward signals here, for any trainer"),
    ("dagger", "bc with a teacher is DAgger: see the guide 'Imitation learning'"),
    ("bcq cql iql awac td3bc crr marwil decisiontransformer dt", "bc is nearest: it learns from demonstrations"),
    (
        "dreamer dreamerv3 muzero alphazero mbpo planet es ars cmaes her",
        "the guide 'Write a trainer' shows how to add one",
    ),
)
"""Names without case and punctuation, and a sentence about what comes nearest."""


def nearest_trainer(name: str) -> str:
    """Returns advice on what to use in place of an algorithm that Palaestra lacks; '' for an unknown name."""
    wanted = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((sentence for names, sentence in NEAREST if wanted in names.split()), "")
