"""Measures gradient steps of SAC with plain layers of 256 and with residual bodies, by turns, on random decisions.

usage: python benchmarks/sac_steps.py [--numbers 17] [--actions 6] [--units 96] [--batch 256] [--rounds 150]
    [--threads 1]

Prints milliseconds of a step, the least of all rounds: of processor time with one thread, else of the clock; the mean
over steps with and without the policy's. A digest says what was learned. Compare code before and after by turns
(PYTHONPATH=OTHER/src).
"""

from __future__ import annotations

import argparse
import hashlib
import time
from typing import Any

import torch

from palaestra.core.metrics import Metrics
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.data.steady_buffer import SteadyBuffer
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.sac import SAC

SLOTS, TICKS, STEPS = 8, 500, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in {"numbers": 17, "actions": 6, "units": 96, "batch": 256, "rounds": 150, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    spec = BehaviorSpec((ObsSpec("o", (options.numbers,)),), ActionSpec(options.actions, ()), steady=True)
    modern = {"critic_bins": 101, "policy_delay": 2, "target_deviation": 0.15, "init_entcoef": 0.01, "tau": 0.01}
    body = {"body": "residual", "hidden_units": options.units, "num_layers": 1}
    trainers = {
        "classic": made(spec, options.batch, {}, {"hidden_units": 256, "num_layers": 2}),
        "residual": made(spec, options.batch, modern, body, normalize=True),
    }
    clock = time.process_time if options.threads == 1 else time.perf_counter
    best = dict.fromkeys(trainers, float("inf"))
    for _ in range(options.rounds):
        for name, trainer in trainers.items():
            began = clock()
            trainer._learn(STEPS, 0)
            best[name] = min(best[name], (clock() - began) / STEPS)
    for name, trainer in trainers.items():
        weights = b"".join(p.detach().numpy().tobytes() for p in trainer.network.parameters())
        print(f"{name}: {1000 * best[name]:.2f} ms, digest {hashlib.sha256(weights).hexdigest()[:12]}")


def made(spec: BehaviorSpec, batch: int, hyper: dict[str, Any], network: dict[str, Any], **reward: bool) -> SAC:
    """Returns a trainer with some thousand decisions in its replay."""
    usual = {"batch_size": batch, "buffer_size": 10_000, "buffer_init_steps": 0, "steps_per_update": 1}
    settings = {"trainer_type": "sac", "hyperparameters": {**usual, **hyper}, "network_settings": network}
    settings["reward_signals"] = {"extrinsic": {"gamma": 0.99, **reward}}
    sac = SAC(spec, BehaviorSettings.model_validate(settings), torch.device("cpu"), 0)
    chance, none = torch.Generator().manual_seed(0), torch.zeros(SLOTS, dtype=torch.int64)
    no, nobody = none.bool(), FinalObs(none[:0], (torch.zeros(0, *spec.obs[0].shape),))

    def tick() -> TimeStep:
        seen, reward = torch.randn(SLOTS, *spec.obs[0].shape, generator=chance), torch.randn(SLOTS, generator=chance)
        return TimeStep((seen,), ~no, reward, torch.zeros(SLOTS), no, no, nobody, None, none, none, none - 1)

    step = tick()
    with torch.no_grad():
        buffer = SteadyBuffer(step, sac.policy.act(step), TICKS)
        for _ in range(TICKS):
            buffer.open(step, sac.policy.act(step))
            step = tick()
            buffer.complete(step)
        rollout = buffer.take(step)
        sac.replay.add(rollout, sac.network.for_environment(rollout.sample), rollout.reward)
        sac.signals.of_rollout(rollout, rollout.reward, None)
    sac.metrics = Metrics()
    sac._learn(batch, 0)  # decisions before the first step
    return sac


if __name__ == "__main__":
    main()
