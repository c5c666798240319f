"""Palaestra's PPO gradient steps with an LSTM. usage: lstm_palaestra.py MINIBATCH THREADS NETWORKS"""

from __future__ import annotations

import sys
from itertools import chain

from updates import ACTIONS, EPOCHS, NUMBERS, SLOTS, STEPS, UNITS, report

from palaestra.core.thread_waits import shorten_thread_waits

shorten_thread_waits()  # before torch is imported

import torch
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.data.rollout import Minibatch, Rollout
from palaestra.data.sequences import SequenceTable, sequence_passes
from palaestra.runtime.settings import load
from palaestra.trainers.ppo import PPO, Coefficients

COEFFICIENTS = Coefficients(learning_rate=3e-4, clip_range=0.2, entropy_coef=0.01, value_coef=0.5, clip_value=False)


def made(obs: ObsSpec, hyper: dict, network: dict) -> PPO:
    """Returns a trainer for one behavior."""
    behavior = {"trainer_type": "ppo", "hyperparameters": {"max_grad_norm": 0.5, **hyper}, "network_settings": network}
    settings = load({"behaviors": {"Any": behavior}}).settings.behaviors["Any"]
    return PPO(BehaviorSpec((obs,), ActionSpec(ACTIONS)), settings, torch.device("cpu"), 0)


def random_rows(inputs: tuple[Tensor, ...]) -> Minibatch:
    """Returns random decisions for these prepared observations (N, ...)."""
    count = len(inputs[0])
    action, log_prob = torch.randn(count, ACTIONS), torch.full((count, ACTIONS), -1.4)
    numbers = torch.randn(3, count, 1)
    return Minibatch(
        inputs,
        action,
        torch.zeros(count, 0, dtype=torch.int64),
        log_prob,
        numbers[0, :, 0],
        numbers[1],
        numbers[2],
        None,
    )


def endless_rollout(time: int, slots: int) -> Rollout:
    """Returns a rollout in which no episode ends; its values do not matter here."""
    zeros, none = torch.zeros(time, slots), torch.zeros(0, dtype=torch.int64)
    no, nobody, empty = zeros.bool(), torch.zeros(slots, dtype=torch.int64), torch.zeros(time, slots, 0)
    sample = Action(empty, empty.long())
    return Rollout(
        (), sample, empty, None, empty, zeros, zeros, no, no, None, (), None, none, (), nobody, nobody, nobody
    )


def main(minibatch: int, threads: int, networks: int) -> None:
    torch.set_num_threads(threads)
    memory = {"memory_size": 2 * UNITS, "sequence_length": STEPS}
    network = {"hidden_units": UNITS, "num_layers": 1, "memory": memory}
    trainer = made(ObsSpec("numbers", (NUMBERS,)), {"shared_critic": networks == 1}, network)
    rows = random_rows((torch.randn(STEPS * SLOTS, NUMBERS),))
    remembered = torch.zeros(STEPS * SLOTS, 2 * UNITS * networks)
    table = SequenceTable(endless_rollout(STEPS, SLOTS), STEPS, remembered)
    shuffling = torch.Generator().manual_seed(0)

    def learn() -> None:
        passes = sequence_passes(rows, table, size=minibatch, epochs=EPOCHS, generator=shuffling)
        for batch in chain.from_iterable(passes):
            trainer.gradient(batch, COEFFICIENTS)
            torch.nn.utils.clip_grad_norm_(trainer.parameters, 0.5)
            trainer.optimizer.step()

    report("palaestra", learn, EPOCHS * STEPS * SLOTS, minibatch=minibatch, threads=threads, networks=networks)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
