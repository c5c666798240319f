"""Algorithms that Palaestra lacks or names differently, each with the nearest trainer of Palaestra."""

from __future__ import annotations

import re


def name_table(text: str) -> list[tuple[str, str, str]]:
    """Returns the rows `OURS: NAMES | REMARK` of a table as three texts: the part of Palaestra, the names of algorithms
    that it stands for, and the remark or ''. Indented lines continue a row."""
    rows = []
    for row in re.sub(r"\n +", " ", text.strip()).splitlines():
        answered, _, remark = row.partition(" | ")
        ours, _, names = answered.rpartition(": ")
        rows.append((ours, names, remark))
    return rows


NEAREST = name_table("""
examples/dqn.py of the repository is a DQN in one file, run there with --trainer=examples.dqn:DQN: dqn ddqn doubledqn
    duelingdqn qrdqn c51 iqn rainbow nfq qlearning bdq
examples/a2c.py of the repository is an A2C in one file, run there with --trainer=examples.a2c:A2C: a2c a3c ac
    actorcritic acktr
sac is nearest: off-policy as well, with two critics: td3 ddpg td7 tqc redq droq crossq apexddpg d4pg naf sql
sac takes discrete actions too: sacd discretesac sacdiscrete
ppo is nearest: trpo npg ppg ppo2 ppoclip ppopenalty
ppo applies action masks automatically: maskableppo ppomask
ppo has a memory with --set 'network_settings.memory={memory_size: 128}': recurrentppo ppolstm ppornn r2d2 r2d3
ppo is nearest; --processes, --gpus and --set threaded=true make it faster: impala appo vtrace dppo ddppo apex
poca is nearest: groups of agents share a reward: mappo maddpg qmix vdn coma matd3 masac hatrpo happo mat
ppo is nearest; the guide 'Write a trainer, step by step: REINFORCE' writes one: reinforce vpg pg policygradient
gail is a reward signal here, for any trainer: see the guide 'Imitation learning': gail airl
amp is a reward signal here, for any trainer: see the guide 'Motion priors': amp deepmimic ase
curiosity and rnd are reward signals here, for any trainer: icm curiosity rnd
bc with a teacher is DAgger: see the guide 'Imitation learning': dagger
bc is nearest: it learns from demonstrations: bcq cql iql awac td3bc crr marwil decisiontransformer dt
the guide 'Write a trainer' shows how to add one: dreamer dreamerv3 muzero alphazero mbpo planet es ars cmaes her
""")
"""For each trainer of other libraries: a sentence about the nearest one here, and its names without case and
punctuation."""


def nearest_trainer(name: str) -> str:
    """Returns advice on what to use in place of an algorithm that Palaestra lacks; '' for an unknown name."""
    wanted = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((sentence for sentence, names, _ in NEAREST if wanted in names.split()), "")
