"""Runs whose bottleneck is made: what they say about it at their end, in `metrics.jsonl` and in `timers.json`."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pool_games
import pytest
import yaml
from small_runs import settings

import palaestra
from palaestra.runtime.monitor.bounded_reading import ResultsFiles
from palaestra.runtime.monitor.run_facts import time_shares
from palaestra.runtime.monitor.run_status import read_status

SLOW = "python:pool_games:make"
NETWORK = {"hidden_units": 256, "num_layers": 3}
LARGE = {"network_settings": NETWORK, "hyperparameters": {"batch_size": 32, "buffer_size": 200, "num_epoch": 20}}


def block(steps: int, **more: Any) -> dict[str, Any]:
    """Settings of any behavior."""
    return {"default_settings": settings("x", steps, **more)["behaviors"]["x"]}


def train(tmp_path: Path, config: dict[str, Any], **more: Any) -> Path:
    """Trains, and returns the run's folder."""
    return palaestra.train(config, results_dir=str(tmp_path), run_id="run", seed=3, **more).folder


def timers(folder: Path) -> Any:
    """Returns the tree of times."""
    return json.loads((folder / "run_logs/timers.json").read_text())


def last_times(folder: Path) -> Any:
    """Returns what the last summary says about times."""
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["times"]


def test_of_a_slow_environment_the_run_says_so(tmp_path, capsys):
    folder = train(tmp_path, block(1000), env=SLOW, num_areas=2, env_options={"ms": 1.5})
    speed = "speed        the environment is the bottleneck"
    assert speed not in capsys.readouterr().out
    assert speed in (folder / "run_logs/console.log").read_text()
    tree = timers(folder)
    assert tree["metadata"]["bottleneck"].startswith("the environment is the bottleneck")
    assert "--num-envs" in tree["metadata"]["bottleneck"]
    collect = tree["children"]["collect"]
    assert collect["children"]["env_step"]["total"] >= 1000 * 0.0015
    assert sum(child["total"] for child in collect["children"].values()) <= collect["total"] * 1.01
    times = last_times(folder)
    assert times["ranks"][0]["environment"] > times["ranks"][0]["total"] / 2
    assert times["bottleneck"].startswith("the environment is the bottleneck")


def test_of_a_large_network_the_run_says_that_learning_is_slow(tmp_path):
    times = last_times(train(tmp_path, block(400, **LARGE), env="3DBall", quiet=True))
    assert times["bottleneck"].startswith("learning is the bottleneck")
    assert times["ranks"][0]["learning"] > times["ranks"][0]["total"] / 2


def test_the_page_shows_the_parts_of_its_sentence_also_if_nothing_was_learned_since_the_last_summary(tmp_path):
    config = block(1400, summary_freq=300, hyperparameters={"batch_size": 32, "buffer_size": 1000, "num_epoch": 20})
    # the only update is before the last summary but one
    train(tmp_path, config, env="3DBall", num_areas=10, quiet=True)
    files = ResultsFiles(tmp_path)
    found = time_shares(files, read_status(files, "run"))
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=0.01)
    assert f"({100 * max(found.shares.values()):.0f} % of the time" in found.bottleneck
    assert found.shares["learning"] > 0.1
    assert timers(tmp_path / "run")["metadata"]["bottleneck"] == found.bottleneck
    assert f"speed        {found.bottleneck}\n" in (tmp_path / "run/run_logs/console.log").read_text()


@pytest.mark.slow
def test_of_a_trainer_beside_the_run_it_says_how_long_it_learned_and_was_waited_for(tmp_path):
    folder = train(tmp_path, block(800, threaded=True, **LARGE), env="3DBall", quiet=True)
    tree = timers(folder)["children"]
    (learned,) = tree["trainer_threads"]["children"].values()
    assert learned["is_parallel"]
    assert 0 < tree["update"]["children"]["waiting for the trainer"]["total"] <= learned["total"]
    assert "collecting waits for the trainer's process" in last_times(folder)["bottleneck"]


@pytest.mark.slow
def test_of_copies_it_says_how_busy_each_was(tmp_path, capsys):
    folder = train(tmp_path, block(800), env=SLOW, num_envs=2, num_areas=4, env_options={"ms": 4.0})
    assert "busy" not in capsys.readouterr().out
    log = (folder / "run_logs/console.log").read_text()
    assert re.search(r"environment  2 copies, busy \d+ % of the time", log), log
    workers = timers(folder)["children"]["collect"]["children"]["env_step"]["children"]["workers"]["children"]
    assert len(workers) == 2
    # of 800 decisions a copy makes about 400
    assert all(copy["is_parallel"] and copy["total"] >= 150 * 0.008 for copy in workers.values())


@pytest.mark.slow
def test_of_several_ranks_it_names_the_slow_one_and_each_ones_times(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(block(1200, hyperparameters={"batch_size": 50, "buffer_size": 200})))
    shutil.copy(pool_games.__file__, tmp_path)
    sleeps = "import os, pool_games\ndef make():\n    return pool_games.make(ms=2.0 * (os.environ['RANK'] == '1'))\n"
    (tmp_path / "uneven.py").write_text(sleeps)
    more = ["--env=python:uneven:make", "--num-areas=4", "--processes=2"]
    command = [sys.executable, "-m", "palaestra", "learn", str(file), *more]
    ended = subprocess.run([*command, "--run-id=run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    folder = tmp_path / "results" / "run"
    assert "rank 1 is the bottleneck: the other waits for it" in timers(folder)["metadata"]["bottleneck"]
    assert "of its own in its environment" in timers(folder)["metadata"]["bottleneck"]
    fast, slow = last_times(folder)["ranks"]
    assert fast["waiting for other ranks"] > slow["waiting for other ranks"]
    assert slow["environment"] > fast["environment"]
    assert timers(folder)["children"]["ranks"]["children"]["rank 1"]["children"]["environment"]["total"] > 0
    assert re.search(r"rank 1 +environment \d+ %", (folder / "run_logs/console.log").read_text())
