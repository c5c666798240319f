"""What only a device can show. `make test-gpu` runs these and writes a report; without a device they run on the CPU,
smaller.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import differences, settings, state

import palaestra
from palaestra.core.plugins import registry
from palaestra.core.timestep import Action
from palaestra.runtime.collect.collector import Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.doctor.examination import random_action
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.settings import load
from palaestra.testing import check_env
from waits import counted

pytestmark = pytest.mark.gpu

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if ON_GPU else torch.device("cpu")
AREAS, TICKS = (64, 60) if ON_GPU else (3, 12)

PPO = {"hyperparameters": {"batch_size": 32, "buffer_size": 128}}
LSTM = {
    **PPO,
    "network_settings": {"hidden_units": 16, "num_layers": 1, "memory": {"memory_size": 8, "sequence_length": 4}},
}
SAC = {
    "trainer_type": "sac",
    "hyperparameters": {"batch_size": 16, "buffer_size": 512, "buffer_init_steps": 64, "steps_per_update": 16},
}
POCA = {"trainer_type": "poca", "hyperparameters": {"batch_size": 32, "buffer_size": 128}}
SELF_PLAY = {**PPO, "self_play": {"save_steps": 64, "team_change": 128, "swap_steps": 32}}
KINDS = {
    "PPO": ("3DBall", PPO),
    "PPO with an LSTM": ("Basic", LSTM),
    "PPO with images": ("GridWorld", PPO),
    "SAC": ("3DBall", SAC),
    "MA-POCA": ("DungeonEscape", POCA),
    "self-play": ("RingOut", SELF_PLAY),
}


@pytest.mark.parametrize("name", registry("envs").names())
def test_a_built_in_environment_keeps_the_contract_on_the_device(name: str):
    env = make_env(f"builtin:{name}", areas=AREAS if ON_GPU else 2, device=str(DEVICE))
    assert env.device.type == DEVICE.type
    check_env(env, ticks=TICKS)


@pytest.mark.parametrize("kind", KINDS)
def test_three_updates_give_finite_losses_and_move_the_weights(kind: str, tmp_path: Path):
    env, block = KINDS[kind]
    losses: list[dict[str, float]] = []

    def note(summary: Summary) -> None:
        losses.append({tag: value for tag, value in summary.values.items() if tag.startswith("Losses/")})

    result = train(env, block, 3 * 128 + 64, tmp_path, callbacks=[note])
    updates = [found for found in losses if found]
    assert len(updates) >= 3
    assert all(math.isfinite(value) for found in updates for value in found.values())
    assert result.finished


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "PPO with images"])
def test_a_run_that_was_stopped_goes_on_to_the_same_digits(kind: str, tmp_path: Path):
    env, block = KINDS[kind]
    whole = train(env, block, 640, tmp_path / "whole")
    stopped = train(env, block, 640, tmp_path / "parts", callbacks=[lambda summary: summary.step >= 300])
    assert not stopped.finished
    resumed = train(env, block, 640, tmp_path / "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []


@pytest.mark.parametrize("name", registry("envs").names())
def test_a_tick_of_a_built_in_environment_never_waits(name: str):
    env = make_env(f"builtin:{name}", areas=AREAS, device=str(DEVICE))
    steps = env.reset(0)
    chance = torch.Generator().manual_seed(0)
    actions = {
        behavior: on_device(random_action(env.behaviors[behavior].action, step, chance))
        for behavior, step in steps.items()
    }
    for _ in range(3):  # compiles
        env.step(actions)
    with counted(DEVICE) as waits:
        for _ in range(5):
            env.step(actions)
    env.close()
    assert waits == []


@pytest.mark.parametrize("name", ["3DBall", "GridWorld", "FoodCollector"])
def test_a_tick_with_its_decisions_and_its_bookkeeping_never_waits(name: str):
    """Counted over few and over many ticks: what a call of `collect` does once may wait."""
    env = make_env(f"builtin:{name}", areas=AREAS, device=str(DEVICE))
    block = load(settings(name, hyperparameters={"batch_size": 32, "buffer_size": 100_000})).settings.behaviors[name]
    collector = Collector(
        env, lambda behavior, spec: Learner(behavior, spec, block, DEVICE, 0, False).collector, seed=0
    )
    collector.on_host = False  # on the CPU too: what is looked at there on every tick costs nothing there
    collector.collect(4, lambda: False)
    counts = []
    for ticks in (2, 12):
        with counted(DEVICE) as waits:
            collector.collect(ticks, lambda: False)
        counts.append(len(waits))
    env.close()
    assert counts[1] == counts[0], waits


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("PPO", {"num_epoch": 8}),
        ("PPO with an LSTM", {"num_epoch": 8}),
        ("PPO with images", {"num_epoch": 8}),
        ("SAC", {"steps_per_update": 4}),
        ("MA-POCA", {"num_epoch": 8}),
    ],
)
def test_a_minibatch_never_waits(kind: str, more: dict[str, Any]):
    """Counted over updates of few and of many minibatches: what an update does once may wait."""
    few = waits_of_an_update(kind, {})
    many = waits_of_an_update(kind, more)
    assert len(many) <= len(few), many


def waits_of_an_update(kind: str, more: dict[str, Any]) -> list[str]:
    name, block = KINDS[kind]
    tree = settings(name, **{**block, "hyperparameters": {**block["hyperparameters"], "num_epoch": 2, **more}})
    updates = 8
    if block.get("trainer_type") == "sac":
        del tree["behaviors"][name]["hyperparameters"]["num_epoch"]
        updates = 24
    env = make_env(f"builtin:{name}", areas=8, device=str(DEVICE))
    made: dict[str, Learner] = {}

    def join(behavior: str, spec: Any) -> Any:
        made[behavior] = Learner(behavior, spec, load(tree).settings.behaviors[name], DEVICE, 0, False)
        return made[behavior].collector

    collector = Collector(env, join, seed=0)
    counts = list[list[str]]()
    while len(counts) < updates:  # the first compile, and fill a replay
        for behavior, rollout in collector.collect(64, lambda: False).items():
            with counted(DEVICE) as waits:
                made[behavior].trainer.update(rollout, made[behavior].step)
            counts.append(waits)
    env.close()
    return min(counts[-4:], key=len)  # the others also store new episodes


def train(env: str, block: dict[str, Any], steps: int, folder: Path, **more: Any) -> palaestra.Result:
    given = {
        "env": f"builtin:{env}",
        "num_areas": 8,
        "seed": 3,
        "device": str(DEVICE),
        "quiet": True,
        "run_id": "run",
        **more,
    }
    tree = settings(env, steps, **{"summary_freq": 64, **block})
    return palaestra.train(config=tree, results_dir=str(folder), **given)


def on_device(action: Action) -> Action:
    return replace(action, continuous=action.continuous.to(DEVICE), discrete=action.discrete.to(DEVICE))
