from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
import psutil
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file
from small_runs import differences, settings, state
from tiny_envs import Scripted

import palaestra
from palaestra.core.errors import ConfigError
from palaestra.core.timestep import Action, TimeStep
from palaestra.parallel.worker import WorkerLost
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.collect.trainer_process import STALENESS, TrainerProcess
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run import loop
from palaestra.runtime.run.features import saving
from palaestra.runtime.run.features.saving import Saving
from palaestra.trainers.behavior_settings import BehaviorSettings

MEMORY = {"hidden_units": 16, "num_layers": 1, "memory": {"memory_size": 8, "sequence_length": 4}}
CASES = {
    "ppo": ("3DBall", {}),
    "ppo-lstm": ("Basic", {"network_settings": MEMORY}),
    "sac": (
        "Basic",
        {"trainer_type": "sac", "hyperparameters": {"batch_size": 16, "buffer_size": 150, "steps_per_update": 7.5}},
    ),
    "poca": ("DungeonEscape", {"trainer_type": "poca", "hyperparameters": {"batch_size": 32, "buffer_size": 128}}),
    "poca-lstm": (
        "DungeonEscape",
        {"trainer_type": "poca", "hyperparameters": {"batch_size": 32, "buffer_size": 128}, "network_settings": MEMORY},
    ),
    "bc": ("3DBall", {"trainer_type": "bc", "hyperparameters": {"buffer_size": 128, "teacher": "heuristic"}}),
    "self-play": ("Tennis", {"self_play": {"save_steps": 100, "swap_steps": 50, "team_change": 200}}),
    "curiosity": ("3DBall", {"reward_signals": {"extrinsic": {}, "curiosity": {"strength": 0.1}}}),
}


def train(case: str, folder: Path, steps: int = 700, until: int | None = None, **more: Any) -> palaestra.Result:
    """Stops at the first summary from `until` on."""
    env, block = CASES[case]
    callbacks: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    config = settings(env, steps, **{"threaded": True, **block})
    given = {"config": config, "num_areas": 3, "seed": 7, "env": env, "quiet": True, "callbacks": callbacks, **more}
    return palaestra.train(results_dir=str(folder), run_id="run", **given)


def children() -> list[psutil.Process]:
    """Processes that this one started and that still run."""
    running = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in running if "palaestra.parallel.worker" in child.cmdline()]


FAST = "ppo-lstm"
"""Runs the larger part of what the other cases do."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case == FAST else [pytest.mark.slow]) for case in CASES]
)
def test_an_interrupted_run_that_goes_on_ends_as_one_that_never_stopped(case: str, tmp_path: Path):
    whole = train(case, tmp_path / "whole")
    stopped = train(case, tmp_path / "parts", until=300)
    assert not stopped.finished
    resumed = train(case, tmp_path / "parts", resume=True)
    assert resumed.finished
    assert differences(state(whole.folder), state(resumed.folder)) == []
    assert children() == []


@pytest.mark.slow
@pytest.mark.parametrize("case", ["ppo", pytest.param("sac", marks=pytest.mark.slow)])
def test_a_finished_run_that_is_given_more_steps_ends_as_one_that_had_them(case: str, tmp_path: Path):
    constant = {"learning_rate_schedule": "constant"}
    env, block = CASES[case]
    CASES["constant"] = (
        env,
        {
            **block,
            "hyperparameters": {"batch_size": 16, "buffer_size": 128, **block.get("hyperparameters", {}), **constant},
        },
    )
    whole = train("constant", tmp_path / "whole", 600)
    train("constant", tmp_path / "parts", 300)
    resumed = train("constant", tmp_path / "parts", 600, resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []


@pytest.mark.slow
def test_the_last_models_and_snapshots_are_of_the_last_update(tmp_path: Path):
    run = train("self-play", tmp_path, 300, settings={"checkpoint_interval": 100})
    trainer = state(run.folder)["Tennis"]["trainer"]
    newest = trainer["network"]
    acting = trainer["pipeline"]["network"]
    weights = "action_head.weight"
    assert not torch.equal(newest[weights], acting[weights])
    step = run.steps["Tennis"]
    for model in (run.models["Tennis"], run.folder / "Tennis" / f"Tennis-{step}.onnx"):
        parts = {
            part.name: torch.tensor(numpy_helper.to_array(part)) for part in onnx.load(str(model)).graph.initializer
        }
        assert torch.equal(parts["action.mean.weight"], newest[weights])
    snapshot = load_file(run.folder / "Tennis" / "snapshots" / f"{step}.safetensors")
    assert differences(snapshot, newest) == []


def train_two(folder: Path, steps: int, until: int | None = None, **more: Any) -> dict[str, Any]:
    """Trains 'Pair' for 300 steps in a process, and 'Giant', which makes half as many, beside it."""
    hyper = {"batch_size": 32, "buffer_size": 96, "learning_rate_schedule": "constant"}
    pair = settings("Pair", 300, threaded=True, hyperparameters=hyper)["behaviors"]
    giant = settings("Giant", steps, hyperparameters=hyper)["behaviors"]
    callbacks: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    given = {"env": "python:rumble_env:two_against_one", "seed": 7, "quiet": True, "callbacks": callbacks, **more}
    return state(palaestra.train({"behaviors": pair | giant}, results_dir=str(folder), run_id="run", **given).folder)


def test_the_last_update_of_a_behavior_that_has_finished_takes_effect_while_others_train(tmp_path: Path):
    trainer = train_two(tmp_path, 200)["Pair"]["trainer"]
    assert trainer["pipeline"]["outcome"] is None
    assert differences(trainer["pipeline"]["network"], trainer["network"]) == []


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "until"), [(400, 100), (400, 300), (150, None)])
def test_it_takes_effect_at_the_same_decision_in_a_run_that_was_interrupted_there(
    steps: int, until: int | None, tmp_path: Path
):
    whole = train_two(tmp_path / "whole", 400)
    train_two(tmp_path / "parts", steps, until)
    resumed = train_two(tmp_path / "parts", 400, resume=True)
    if until is None:  # both had finished: the summary of that decision was the last of training
        for one in (whole, resumed):
            one["run"] = one["run"]["collector"]
    assert differences(whole, resumed) == []


@pytest.mark.slow
def test_saving_often_and_looking_up_often_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calm = train("ppo", tmp_path / "calm")
    monkeypatch.setattr(loop, "PAUSE", 0.0)
    monkeypatch.setattr(saving, "SAFETY_SECONDS", 0.0)
    hasty = train("ppo", tmp_path / "hasty")
    assert differences(state(calm.folder), state(hasty.folder)) == []


class Sleepy(Scripted):
    """Two behaviors, and 3 ms a tick."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        time.sleep(0.003)
        return super().step(actions)


@pytest.mark.slow
def test_checkpoints_are_saved_when_no_trainer_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    busy = list[bool]()
    save = Saving.save

    def noted(self: Saving) -> None:
        busy.append(any(learner.process.busy for learner in self._run.learners.values()))
        save(self)

    monkeypatch.setattr(Saving, "save", noted)
    block = settings("A", 1200, threaded=True, hyperparameters={"batch_size": 16, "buffer_size": 160, "num_epoch": 4})[
        "behaviors"
    ]["A"]
    other = {**block, "hyperparameters": {**block["hyperparameters"], "buffer_size": 110}}
    config = {"behaviors": {"A": {**block, "checkpoint_interval": 161}, "B": other}}
    palaestra.train(config, env=Sleepy({"A": {}, "B": {}}), results_dir=str(tmp_path), run_id="run", seed=7, quiet=True)
    while_running = busy[:-1]  # the last one ends the run, and waits
    assert len(while_running) >= 3
    assert not any(while_running)


def learner(trainer: str = "ppo", **block: Any) -> Learner:
    spec = palaestra.make("3DBall", areas=4).behaviors["3DBall"]
    tree = settings("3DBall", trainer_type=trainer, **block)["behaviors"]["3DBall"]
    return Learner("3DBall", spec, BehaviorSettings.model_validate(tree), torch.device("cpu"), 5, inference=False)


def test_an_update_takes_effect_when_the_next_one_begins_and_equals_that_of_a_trainer_here():
    env = palaestra.make("3DBall", areas=4)
    from palaestra.runtime.collect.collector import Collector

    here = learner()
    there = learner(threaded=True)
    rollouts = []
    collector = Collector(env, lambda name, spec: here.collector, seed=3)
    while not rollouts:
        rollouts += collector.collect(100, lambda: False).values()
    trainer = there.trainer
    assert isinstance(trainer, TrainerProcess)
    first = {key: value.clone() for key, value in trainer.network.state_dict().items()}
    assert differences(first, dict(here.trainer.network.state_dict())) == []
    assert trainer.update(rollouts[0], 128).read() == {}
    while trainer.busy:
        time.sleep(0.01)
    assert differences(first, dict(trainer.network.state_dict())) == []
    expected = here.trainer.update(rollouts[0], 128).read()
    found = trainer.update(rollouts[0], 256).read()
    assert found[STALENESS] == 1.0
    same = expected.keys() & found.keys()
    assert "Losses/Value Loss" in same
    # importance weights of a policy that did collect the rollout are 1 but for rounding
    for tag in same:
        assert found[tag] == pytest.approx(expected[tag], rel=1e-3, abs=1e-5)
    for key, value in here.trainer.network.state_dict().items():
        torch.testing.assert_close(trainer.network.state_dict()[key], value, rtol=1e-3, atol=1e-5)
    there.process.close()
    env.close()


@pytest.mark.slow
def test_a_run_can_be_made_threaded_and_back_when_it_is_resumed(tmp_path: Path):
    train("ppo", tmp_path, until=300)
    back = train("ppo", tmp_path, until=500, resume=True, settings={"threaded": False})
    assert not back.finished
    assert train("ppo", tmp_path, resume=True).finished


def test_what_the_trainer_refuses_is_told_as_without_a_process():
    texts = []
    for threaded in (False, True):
        hyper = {"batch_size": 16, "buffer_size": 1 << 45}
        with pytest.raises(ConfigError) as caught:
            learner("sac", threaded=threaded, hyperparameters=hyper).messages.send(print, print)
        texts.append(str(caught.value).partition(" takes ")[0])
    assert texts[0] == texts[1]
    assert children() == []


@pytest.mark.slow
def test_a_killed_trainer_ends_the_run_with_one_sentence_and_the_run_can_be_resumed(tmp_path: Path):
    def kill(summary: Summary) -> None:
        if summary.step >= 300:
            for child in children():
                child.kill()

    with pytest.raises(WorkerLost, match="the trainer of '3DBall' was killed by SIGKILL"):
        train("ppo", tmp_path, callbacks=[kill])
    assert children() == []
    assert train("ppo", tmp_path, resume=True).finished


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_no_process_is_left_by_a_run_that_is_killed_or_interrupted(tmp_path: Path):
    code = (
        "import sys, palaestra; sys.path.insert(0, sys.argv[1]); from small_runs import "
        "settings\npalaestra.train(settings('3DBall', 10**7, threaded=True), env='3DBall', num_areas=3, "
        "results_dir=sys.argv[2], run_id=sys.argv[3],callbacks=[lambda summary: print(summary.step, flush=True)])"
    )
    for number in (signal.SIGKILL, signal.SIGINT):
        command = [sys.executable, "-c", code, str(Path(__file__).parents[2]), str(tmp_path), f"run{number}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
            assert parent.stdout is not None
            next(line for line in parent.stdout if line.strip().isdigit())
            workers = psutil.Process(parent.pid).children(recursive=True)
            assert len(workers) == 1
            os.kill(parent.pid, number)
            parent.stdout.read()
        _, alive = psutil.wait_procs(workers, timeout=180)
        assert alive == []
