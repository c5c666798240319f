"""Models that a run writes while someone watches it learn."""

import os
import time
from pathlib import Path

import pytest
from small_runs import settings

import palaestra
from palaestra.runtime.play.run_models import find_models, newest_live, run_folder
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.runtime.showing import live_models
from palaestra.runtime.showing.live_models import LiveModels


def test_who_watches_is_known_for_some_seconds(tmp_path: Path):
    live = LiveModels(tmp_path)
    assert not live.watched
    live.watch()
    assert live.watched
    then = time.time() - 60
    os.utime(tmp_path / "run_logs/live/watched", (then, then))
    assert not live.watched


def test_of_too_many_models_those_between_close_neighbours_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_models, "MOST", 4)
    live = LiveModels(tmp_path)
    for step in (0, 10, 20, 40, 80):
        live.add("A/b", step, lambda path: path.write_bytes(b"x"))
    assert live.steps() == [0, 20, 40, 80]
    assert list(live.files("A/b")) == [0, 20, 40, 80]
    live.drop_after(40)
    assert live.steps() == [0, 20, 40]
    monkeypatch.setattr(live_models, "MOST_BYTES", 30)  # large ones: the first, one more, and the newest
    live.add("A/b", 50, lambda path: path.write_bytes(b"x" * 20))
    assert live.steps() == [0, 20, 50]


@pytest.mark.parametrize("watched", [True, False])
def test_a_run_writes_models_only_while_someone_watches(tmp_path: Path, watched: bool):
    live = LiveModels(tmp_path / "run")
    tree = settings("Basic", 600, checkpoint_interval=100_000)
    if watched:
        palaestra.train(tree, env="Basic", run_id="run", results_dir=str(tmp_path), max_steps=1, quiet=True)
        live.watch()
    palaestra.train(
        tree, env="Basic", run_id="run", results_dir=str(tmp_path), quiet=True, **({"resume": True} if watched else {})
    )
    assert bool(live.steps()) == watched
    if watched:
        step = live.steps()[0]
        (file,) = find_models("run", tmp_path, step=step).files.values()
        assert file.name == f"Basic-{step}.onnx"
        assert newest_live(run_folder("run", tmp_path), False) is None  # the final model is newer


def test_a_run_that_has_just_begun_is_watched_by_its_first_checkpoint_and_then_by_its_newest_model(tmp_path: Path):
    palaestra.train(settings("Basic", 200), env="Basic", run_id="run", results_dir=str(tmp_path), quiet=True)
    run = tmp_path / "run"
    final = next((run / "Basic").glob("*.onnx"))
    model = final.read_bytes()
    for file in (final, run / "Basic.onnx", *(run / "run_logs").glob("training_status.json")):
        file.unlink()
    source = PlaybackSource(tmp_path, run="run")
    (first,) = source.models().files.values()
    assert first.stem.startswith("Basic-")
    LiveModels(run).add("Basic", 900, lambda path: path.write_bytes(model))
    (newest,) = source.models().files.values()
    assert newest.name == "Basic-900.onnx"
