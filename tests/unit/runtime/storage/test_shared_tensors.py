import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_runs import differences, settings, state

import palaestra
from palaestra.core.errors import CheckpointError
from palaestra.runtime.run.result import Result
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.shared_tensors import Shared
from palaestra.runtime.storage.snapshots import SnapshotFiles


def snapshot(number: float) -> Shared:
    return Shared({"w": torch.full((3000,), number), "b": torch.tensor(number)})


def files(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "shared").glob("*")) if (folder / "shared").exists() else []


def test_what_checkpoints_share_is_stored_once_and_goes_with_the_last_that_has_it(tmp_path):
    one, two, three = (snapshot(number) for number in (1.0, 2.0, 3.0))
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(10, {"run": {"pool": [one, two]}})
    written = (tmp_path / "shared" / f"{one.digest}.safetensors").stat().st_mtime_ns
    checkpoints.save(20, {"run": {"pool": [two, three]}})
    assert files(tmp_path) == sorted((one.digest, two.digest, three.digest))
    checkpoints.save(30, {"run": {"pool": [one, three]}})
    checkpoints.save(40, {"run": {"pool": [three]}})
    assert files(tmp_path) == sorted((one.digest, three.digest))
    assert (tmp_path / "shared" / f"{one.digest}.safetensors").stat().st_mtime_ns == written
    for step, numbers in ((30, (1.0, 3.0)), (40, (3.0,))):
        pool: Any = checkpoints.load(step).state["run"]["pool"]
        assert [weights["b"].item() for weights in pool] == list(numbers)
        assert all((weights["w"] == weights["b"]).all() for weights in pool)
    checkpoints.save(50, {"run": {}})
    checkpoints.save(60, {"run": {}})
    assert not (tmp_path / "shared").exists()


def test_another_process_that_goes_on_writes_the_same_files_and_knows_which_are_needed(tmp_path):
    one = snapshot(1.0)
    two = snapshot(2.0)
    Checkpoints(tmp_path, keep=2).save(10, {"run": [one, two]})
    loaded: Any = Checkpoints(tmp_path, keep=2).load().state["run"]
    before = files(tmp_path)
    Checkpoints(tmp_path, keep=2).save(20, {"run": [Shared(loaded[0])]})
    assert files(tmp_path) == before
    Checkpoints(tmp_path, keep=2).save(30, {"run": [Shared(loaded[0])]})
    assert files(tmp_path) == [one.digest]


def test_a_shared_file_that_is_damaged_is_noticed_and_written_anew(tmp_path):
    one = snapshot(1.0)
    two = snapshot(2.0)
    checkpoints = Checkpoints(tmp_path, keep=5)
    checkpoints.save(10, {"run": [one]})
    checkpoints.save(20, {"run": [one, two]})
    file = tmp_path / "shared" / f"{two.digest}.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    loaded = checkpoints.load()
    assert loaded.step == 10
    assert f"shared/{two.digest}.safetensors was changed after it was written" in loaded.warnings[0]
    file.unlink()
    assert f"{two.digest}.safetensors is missing" in checkpoints.load().warnings[0]
    file.write_bytes(b"damaged")
    Checkpoints(tmp_path, keep=5).save(30, {"run": [snapshot(2.0)]})
    assert Checkpoints(tmp_path, keep=5).load().step == 30


def test_a_killed_writers_half_of_a_shared_file_goes(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=5)
    checkpoints.save(10, {"run": [snapshot(1.0)]})
    half = tmp_path / "shared" / f".new.tmp-{os.getppid()}"
    half.write_bytes(b"half")
    checkpoints.sweep(alone=True)
    assert not half.exists()


def test_a_snapshot_that_a_checkpoint_has_takes_no_further_room(tmp_path):
    one = snapshot(1.0)
    loose = snapshot(2.0)
    (tmp_path / "checkpoints").mkdir()
    Checkpoints(tmp_path / "checkpoints", keep=1).save(10, {"run": [one]})
    snapshots = SnapshotFiles(tmp_path)
    for _ in range(2):
        snapshots.add("B", 10, one)
        snapshots.add("B", 20, loose)
    assert os.stat(tmp_path / "checkpoints" / "shared" / f"{one.digest}.safetensors").st_nlink == 2
    assert snapshots.load("B", 10)["b"].item() == 1.0
    assert snapshots.load("B", 20)["b"].item() == 2.0


def tennis(results: Path, **more: Any) -> Result:
    play = {"save_steps": 200, "swap_steps": 100, "team_change": 500, "window": 6}
    config = settings("Tennis", 2400, self_play=play, checkpoint_interval=400, keep_checkpoints=4)
    return palaestra.train(
        config, env="Tennis", num_areas=3, seed=7, results_dir=str(results), run_id="run", quiet=True, **more
    )


def test_a_run_stores_each_snapshot_once_and_resumes_exactly(tmp_path):
    whole = tennis(tmp_path / "whole")
    tennis(tmp_path / "parts", callbacks=[lambda summary: summary.step >= 1200])
    resumed = tennis(tmp_path / "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    there = {path.name for path in (resumed.folder / "checkpoints" / "shared").iterdir()}
    assert there == {path.name for path in (whole.folder / "checkpoints" / "shared").iterdir()}
    players = state(whole.folder)["run"]["parts"]["self_play"]["behaviors"]["Tennis"]
    size = sum(len(weights) for weights in players["snapshots"].values())
    tensors = load_file(resumed.folder / "checkpoints" / str(resumed.steps["Tennis"]) / "run.safetensors")
    assert size > 40
    assert not [name for name in tensors if "snapshots" in name]


def test_a_checkpoint_that_lost_what_it_shares_is_refused(tmp_path):
    run = tennis(tmp_path, callbacks=[lambda summary: summary.step >= 400]).folder
    for file in (run / "checkpoints" / "shared").iterdir():
        file.unlink()
    with pytest.raises(CheckpointError, match=r"no usable checkpoint[\s\S]*safetensors is missing"):
        tennis(tmp_path, resume=True)
