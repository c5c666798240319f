from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import differences, settings, state
from tiny_envs import Bandit

import palaestra
from palaestra.core.errors import RunError
from palaestra.runtime.tracker import Summary

resource = pytest.importorskip("resource")  # POSIX


def train(results: Path, **more: Any) -> palaestra.Result:
    config = settings("Basic", 2000, summary_freq=500, checkpoint_interval=500)
    return palaestra.train(config, env="Basic", num_areas=3, seed=7, results_dir=str(results), run_id="run", quiet=True, **more)


def test_a_disk_that_fills_up_ends_the_run_and_leaves_one_that_resumes(tmp_path: Path):
    def fill(summary: Summary) -> None:
        if summary.step == 1000:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))

    whole, limits = train(tmp_path / "whole"), resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(RunError, match="the file would be larger than is allowed here; earlier checkpoints are as they were"):
            train(tmp_path / "parts", callbacks=[fill])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    run = tmp_path / "parts" / "run"
    assert sorted(int(path.name) for path in (run / "checkpoints").iterdir())[-1] < 1000
    resumed = train(tmp_path / "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_a_run_in_an_environment_of_ones_own_leaves_model_curves_and_settings(tmp_path: Path):
    config = settings("Bandit", 2000, hyperparameters={"batch_size": 32, "buffer_size": 128, "learning_rate": 0.003})
    result = palaestra.train(config, env=Bandit(8, branches=(2,)), results_dir=str(tmp_path), run_id="mine", seed=1, quiet=True)
    assert result.finished
    assert result.models == {"Bandit": tmp_path / "mine" / "Bandit.onnx"}
    there = {path.name for path in result.folder.iterdir()}
    assert there == {"Bandit", "Bandit.onnx", "checkpoints", "configuration.yaml", "curves.png", "metrics.jsonl", "run_logs"}
    assert {path.name for path in (result.folder / "run_logs").iterdir()} == {"timers.json", "training_status.json"}
    reward = result.rewards["Bandit"]
    assert reward is not None
    assert reward > 0.6


def test_a_callback_that_returns_true_stops_the_run_saved(tmp_path: Path):
    seen: list[int] = []
    result = train(tmp_path, callbacks=[lambda summary: seen.append(summary.step), lambda summary: summary.step == 1000])
    assert seen == [500, 1000]
    assert not result.finished
    assert (result.folder / "checkpoints" / str(result.steps["Basic"])).is_dir()


def test_a_model_that_cannot_be_written_does_not_end_the_training(tmp_path: Path):
    in_the_way = tmp_path / "run" / "Basic" / "Basic-2001.onnx"
    in_the_way.mkdir(parents=True)
    result = train(tmp_path, force=True)
    assert result.finished
    assert result.models == {}
    assert (tmp_path / "run" / "Basic" / "Basic-501.onnx").is_file()
