"""The files of the package that PPO runs through from the environment to the gradient, as the profiler sees them.

As a program it prints them: a process of its own is free of what other tests imported, patched or left to the garbage
collector.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import torch
from source import PACKAGE

import palaestra
from palaestra.core.specs import BehaviorSpec
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.ppo import PPO

SETTINGS = {
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 64, "buffer_size": 128, "num_epoch": 1},
    "network_settings": {"normalize": True},
}


def files_to_gradient() -> set[str]:
    """Files whose functions are called from the `Env.step` that completes a rollout to the first optimizer step, with
    PPO on 3DBall.
    """
    env = palaestra.make("3DBall", areas=16)
    settings = BehaviorSettings.model_validate(SETTINGS)
    trainers = dict[str, PPO]()

    def join(name: str, spec: BehaviorSpec) -> BehaviorCollector:
        trainer = trainers[name] = PPO(spec, settings, torch.device("cpu"), seed=1)
        return BehaviorCollector(name, spec, trainer.policy, trainer.rollout_size, trainer.needs)

    collector = Collector(env, join, seed=1)
    called = list[tuple[str, str]]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            called.append((Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix(), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for name, rollout in collector.collect(100, lambda: False).items():
            trainers[name].update(rollout, step=0)
    finally:
        sys.setprofile(before)
    env.close()
    end = called.index(("models/optimizer.py", "step"))
    begin = max(i for i, call in enumerate(called[:end]) if call == ("envs/builtin/base/env.py", "step"))
    return {file for file, _ in called[begin : end + 1]}


if __name__ == "__main__":
    print("\n".join(sorted(files_to_gradient())))
