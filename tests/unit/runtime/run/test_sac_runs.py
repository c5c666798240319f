"""Runs of soft actor-critic: stopped and resumed, with and without their replay."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import differences, settings, state

import palaestra
from palaestra.core.errors import ConfigError
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run.result import Result

HYPER = {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 50, "steps_per_update": 6}


def tree(env: str, steps: int, hyper: dict[str, Any] | None = None, **network: Any) -> dict[str, Any]:
    made = settings(env, steps, trainer_type="sac", hyperparameters={**HYPER, **(hyper or {})}, summary_freq=100)
    made["behaviors"][env]["network_settings"] |= network
    return made


def train(config: dict[str, Any], env: str, results: Path, until: int | None = None, **more: Any) -> Result:
    callbacks: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    given = {"config": config, "num_areas": 3, "seed": 7, "env": env, "results_dir": str(results), "run_id": "run"}
    return palaestra.train(callbacks=callbacks, **{**given, **more})


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("env", "network"),
    [
        ("3DBall", {"normalize": True}),
        ("Basic", {"memory": {"sequence_length": 4, "memory_size": 8}}),
        ("PushBlock", {}),
    ],
)
def test_an_interrupted_run_ends_as_one_that_never_stopped(env, network, tmp_path):
    config = tree(env, 800, **network)
    whole = train(config, env, tmp_path / "whole", quiet=True)
    stopped = train(config, env, tmp_path / "parts", until=400, quiet=True)
    assert 400 <= stopped.steps[env] < 800
    resumed = train(config, env, tmp_path / "parts", resume=True, quiet=True)
    assert resumed.finished
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_a_run_says_what_its_replay_takes_and_that_it_was_not_saved(tmp_path, capsys):
    config = tree("Basic", 400, {"save_replay_buffer": False})
    train(config, "Basic", tmp_path, until=200)
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"Basic: Its replay of 500 decisions takes up to [\d.]+ KiB and is not saved in checkpoints "
        r"\(save_replay_buffer\)",
        told,
    )
    train(config, "Basic", tmp_path, resume=True)
    told = " ".join(capsys.readouterr().out.split())
    warning = (
        "[WARNING] Basic: It continues without its replay buffer: the checkpoint has no fitting one, since its "
        "settings "
        "keep none there"
    )
    assert f"{warning} (save_replay_buffer: true does); 50 new decisions are collected before it learns again" in told


def test_a_replay_that_cannot_fit_is_refused_before_the_start(tmp_path):
    refused = r"behavior 'Basic': hyperparameters.buffer_size: a replay of 1,000,000,000,000 decisions takes"
    with pytest.raises(ConfigError, match=refused):
        train(tree("Basic", 400, {"buffer_size": 10**12}), "Basic", tmp_path, quiet=True)


def test_playing_needs_no_replay(tmp_path):
    config = tree("Basic", 200)
    train(config, "Basic", tmp_path, quiet=True)
    large = tree("Basic", 200, {"buffer_size": 10**12})
    with pytest.raises(ConfigError, match="buffer_size"):
        train(large, "Basic", tmp_path, resume=True, quiet=True)
    assert not train(large, "Basic", tmp_path, inference=True, resume=True, until=0, quiet=True).finished
