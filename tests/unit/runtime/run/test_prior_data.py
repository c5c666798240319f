"""Runs of soft actor-critic whose minibatches have a share of recordings and of an earlier run's replay."""

from pathlib import Path
from typing import Any

import pytest
from small_runs import differences, settings, state

import palaestra
from palaestra.cli.main import main
from palaestra.core.errors import ConfigError, DemoError, PalaestraError, RunError
from palaestra.runtime.run.result import Result

HYPER = {"batch_size": 16, "buffer_size": 200, "buffer_init_steps": 50, "steps_per_update": 6}


def train(
    results: Path, prior: dict[str, Any] | None, *, until: int | None = None, run_id: str = "run", **more: Any
) -> Result:
    hyper = {**HYPER, **more.pop("hyper", {}), **({} if prior is None else {"prior_data": prior})}
    behavior = {"trainer_type": "sac", "hyperparameters": hyper, "summary_freq": 100, **more.pop("behavior", {})}
    callbacks = [] if until is None else [lambda summary: summary.step >= until]
    return palaestra.train(
        settings("Basic", 300, **behavior),
        env="Basic",
        num_areas=3,
        seed=7,
        results_dir=str(results),
        run_id=run_id,
        callbacks=callbacks,
        **{"quiet": True, **more},
    )


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("demos") / "Basic.demo"
    assert main(["record", "--demo", "--env=Basic", "--brain=heuristic", "--episodes=4", f"--demo-out={path}"]) == 0
    return str(path)


@pytest.mark.few(1)
@pytest.mark.parametrize("memory", [{"sequence_length": 4, "memory_size": 8}, None])
@pytest.mark.parametrize("threaded", [False, True])
def test_an_interrupted_run_with_prior_data_ends_as_one_that_never_stopped(memory, threaded, recording, tmp_path):
    more: dict[str, Any] = {
        "behavior": {"threaded": threaded, "network_settings": {"hidden_units": 8, "memory": memory}},
        "hyper": {"backup_entropy": False, "n_step": 1 if memory else 3},
    }
    earlier = train(tmp_path, None, run_id="earlier", **more)
    prior = {"demo_path": recording, "run": str(earlier.folder), "share": 0.75}
    whole = train(tmp_path / "whole", prior, **more)
    train(tmp_path / "parts", prior, until=150, **more)
    resumed = train(tmp_path / "parts", prior, resume=True, **more)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    without = train(tmp_path / "without", None, **more)
    assert differences(state(whole.folder), state(without.folder)) != []


@pytest.mark.parametrize("threaded", [False, True])
def test_a_run_says_once_what_its_prior_data_are(threaded, recording, tmp_path, capsys):
    train(tmp_path, None, run_id="earlier")
    train(tmp_path, {"demo_path": recording, "run": "earlier"}, quiet=False, behavior={"threaded": threaded})
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("Its replay of 200 decisions takes up to") == 1
    read = f"28 recorded decisions of 4 episodes and 200 decisions of {tmp_path / 'earlier'}"
    assert told.count(f"Basic: 50% of each minibatch are prior data: {read}") == 1


@pytest.mark.parametrize(
    ("prior", "error", "says"),
    [
        ({}, PalaestraError, "expected `demo_path`, `minari` or `run`"),
        ({"run": "nowhere"}, RunError, "cannot take its replay"),
        (
            {"run": "bare"},
            ConfigError,
            "has no replay: a run of the trainer sac saves one with save_replay_buffer: true",
        ),
        ({"run": "empty"}, RunError, "prior_data.run: no checkpoint in"),
        ({"run": "other"}, RunError, "has no such behavior, only GridWorld"),
        (
            {"run": "run"},
            ConfigError,
            "prior_data.run: run is this run itself, which learns from its own",
        ),
        ({"demo_path": "nowhere.demo"}, DemoError, "nowhere.demo: there is no such file"),
        ({"run": "earlier", "share": 1.0}, PalaestraError, "share"),
    ],
)
def test_what_cannot_be_had_is_refused_before_the_start(prior, error, says, tmp_path):
    name = prior.get("run")
    if name == "empty":
        (tmp_path / name).mkdir()
        (tmp_path / name / "configuration.yaml").write_text("behaviors: {}")
    if name == "bare":
        train(tmp_path, None, run_id=name, behavior={"hyperparameters": {**HYPER, "save_replay_buffer": False}})
    if name == "other":
        config = settings("GridWorld", 20, trainer_type="sac", hyperparameters=HYPER)
        palaestra.train(config, env="GridWorld", results_dir=str(tmp_path), run_id=name, quiet=True)
    with pytest.raises(error) as caught:
        train(tmp_path, prior)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("behavior", "says"),
    [
        ({"network_settings": {"memory": {"sequence_length": 4, "memory_size": 8}}}, "takes decisions one by one"),
        ({"reward_signals": {"extrinsic": {}, "rnd": {}}}, "sums rewards of the environment, and rnd is learned"),
    ],
)
def test_where_rewards_cannot_be_summed_is_said_before_the_start(behavior, says, tmp_path):
    with pytest.raises(PalaestraError, match=f"n_step: 3 {says}"):
        train(tmp_path, None, hyper={"n_step": 3}, behavior=behavior)
