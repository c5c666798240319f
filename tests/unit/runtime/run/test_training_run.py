from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_runs import differences, settings, state
from tiny_envs import Bandit, Scripted

import palaestra
from palaestra.core.errors import ConfigError, Diverged, EnvError, RunError
from palaestra.core.metrics import Measurement
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import BehaviorFacts, TrainingFacts, hashed
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run.result import Result

resource = pytest.importorskip("resource")  # POSIX


def train(results: Path, **more: Any) -> Result:
    config = settings("Basic", 2000, summary_freq=500, checkpoint_interval=500)
    place = {"results_dir": str(results), "run_id": "run", "quiet": True, **more}
    return palaestra.train(config, env="Basic", num_areas=3, seed=7, **place)


def test_a_disk_that_fills_up_ends_the_run_and_leaves_one_that_resumes(tmp_path):
    def fill(summary: Summary) -> None:
        if summary.step == 1000:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))

    whole = train(tmp_path / "whole")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(RunError, match="would be larger than is allowed here; earlier checkpoints are unchanged"):
            train(tmp_path / "parts", callbacks=[fill])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    run = tmp_path / "parts" / "run"
    assert sorted(int(path.name) for path in (run / "checkpoints").iterdir())[-1] < 1000
    resumed = train(tmp_path / "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []


@pytest.mark.curves
def test_a_run_in_an_environment_of_ones_own_leaves_model_curves_and_settings(tmp_path):
    config = settings("Bandit", 2000, hyperparameters={"batch_size": 32, "buffer_size": 128, "learning_rate": 0.003})
    place = {"results_dir": str(tmp_path), "run_id": "mine", "quiet": True}
    result = palaestra.train(config, env=Bandit(8, branches=(2,)), seed=1, **place)
    assert result.finished
    assert result.models == {"Bandit": tmp_path / "mine" / "Bandit.onnx"}
    there = {path.name for path in result.folder.iterdir()}
    files = "Bandit Bandit.onnx checkpoints configuration.yaml curves.png metrics.jsonl run_logs"
    assert there == {*files.split()}
    logs = {"console.log", "progress.json", "signature", "timers.json", "training_status.json"}
    assert {path.name for path in (result.folder / "run_logs").iterdir()} == logs
    reward = result.rewards["Bandit"]
    assert reward is not None
    assert reward > 0.6


def test_a_callback_that_returns_true_stops_the_run_saved(tmp_path):
    seen: list[int] = []
    callbacks = [lambda summary: seen.append(summary.step), lambda summary: summary.step == 1000]
    result = train(tmp_path, callbacks=callbacks)
    assert seen == [500, 1000]
    assert not result.finished
    assert (result.folder / "checkpoints" / str(result.steps["Basic"])).is_dir()


def test_a_model_that_cannot_be_written_does_not_end_the_training(tmp_path):
    in_the_way = tmp_path / "run" / "Basic" / "Basic-2001.onnx"
    in_the_way.mkdir(parents=True)
    result = train(tmp_path, force=True)
    assert result.finished
    assert result.models == {}
    assert (tmp_path / "run" / "Basic" / "Basic-501.onnx").is_file()


class Rich(Bandit):
    """Every episode earns the same, and so much that a float64 counts in steps of 16."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        steps = super().step(actions)
        return {name: replace(step, reward=torch.full_like(step.reward, 1e17)) for name, step in steps.items()}


def test_returns_that_no_histogram_has_bins_for_do_not_end_a_run(tmp_path):
    config = settings("Bandit", 300, reward_signals={"extrinsic": {"strength": 1e-17}})
    place = {"results_dir": str(tmp_path), "run_id": "run", "quiet": True}
    result = palaestra.train(config, env=Rich(8, branches=(2,)), seed=1, **place)
    assert result.finished
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("e+16") >= 3


class Game(Bandit):
    """Two behaviors; measures its ticks in every way, and hears of the run it is in."""

    def __init__(self) -> None:
        super().__init__(8, branches=(2,))
        self.behaviors = {"Red": self.behaviors["Bandit"], "Blue": self.behaviors["Bandit"]}
        self.ticks = 0
        self.measured = list[Measurement]()
        self.heard = list[Any]()

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.heard.append("reset")
        return dict.fromkeys(self.behaviors, super().reset(seed)["Bandit"])

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        self.ticks += 1
        self.measured += [
            Measurement("Game/Ticks", 1.0, "total"),
            Measurement("Game/Tick", self.ticks, "latest"),
            Measurement("Game/Parity", self.ticks % 2, "mean"),
            Measurement("Game/Spread", self.ticks, "spread"),
        ]
        return dict.fromkeys(self.behaviors, super().step({"Bandit": actions["Red"]})["Bandit"])

    def take_measurements(self) -> list[Measurement]:
        taken = self.measured
        self.measured = []
        return taken

    def training_starts(self, facts: TrainingFacts) -> None:
        self.heard.append(facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        self.heard.append(facts)


def two_behaviors() -> dict[str, Any]:
    red = settings("Red", 400, summary_freq=96)
    return {"behaviors": {**red["behaviors"], "Blue": red["behaviors"]["Red"]}}


def test_what_a_game_measures_is_in_the_summaries_of_each_behavior_once(tmp_path):
    game = Game()
    ticks = dict[str, int]()
    seen = 0

    def check(summary: Summary) -> None:
        nonlocal seen
        seen = seen + 1
        before = ticks.get(summary.behavior, 0)
        period = range(before + 1, game.ticks + 1)
        assert summary.values["Game/Ticks"] == len(period)
        assert summary.values["Game/Tick"] == game.ticks
        assert summary.values["Game/Parity"] == pytest.approx(sum(tick % 2 for tick in period) / len(period))
        assert summary.values["Game/Spread"] == pytest.approx(sum(period) / len(period))
        assert summary.histograms["Game/Spread"].tolist() == list(period)
        ticks[summary.behavior] = game.ticks

    place = {"results_dir": str(tmp_path), "run_id": "run", "quiet": True}
    palaestra.train(two_behaviors(), env=game, seed=1, callbacks=[check], **place)
    assert (sorted(ticks), seen) == (["Blue", "Red"], 8)
    assert "Game/Parity" in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert b"Game/Spread_hist" in next((tmp_path / "run" / "Blue").glob("events.*")).read_bytes()


def test_an_environment_that_listens_hears_of_the_run_and_then_of_its_behaviors(tmp_path):
    game = Game()
    palaestra.train(two_behaviors(), env=game, results_dir=str(tmp_path), run_id="run", seed=1, quiet=True)
    run, reset, red, blue = game.heard
    assert (run.torch_device_type, reset) == ("cpu", "reset")
    assert (red.behavior_name, blue.behavior_name) == (hashed("Red"), hashed("Blue"))


def test_a_behavior_that_has_learned_all_it_will_is_still_counted_and_summarized(tmp_path):
    config = settings("Short", 200, checkpoint_interval=150)
    config["behaviors"] |= settings("Long", 2000, checkpoint_interval=500)["behaviors"]
    behaviors = {"Short": {"slots": 4, "losses": 0.05}, "Long": {"slots": 5, "steady": True}, "Late": {"slots": 2}}
    env = Scripted(behaviors, appears={"Late": 90})
    config["behaviors"] |= settings("Late", 150)["behaviors"]
    seen: dict[str, list[tuple[int, bool]]] = {"Short": [], "Long": [], "Late": []}
    result = palaestra.train(
        config,
        env=env,
        seed=3,
        results_dir=str(tmp_path),
        run_id="three",
        quiet=True,
        callbacks=[lambda summary: seen[summary.behavior].append((summary.step, summary.training))],
    )
    assert result.finished
    assert env.tick == 400  # that is 2,000 decisions of "Long": nobody overshoots
    steps = [step for step, _ in seen["Short"]]
    assert steps == list(range(100, steps[-1] + 1, 100))
    assert steps[-1] > 600
    assert [training for step, training in seen["Short"] if 200 <= step < steps[-1]] == [False] * (len(steps) - 2)
    models = sorted(int(path.stem.split("-")[1]) for path in (result.folder / "Short").glob("*.onnx"))
    # what came later was the same model
    assert [number // 150 for number in models] == [1, 2, result.steps["Short"] // 150]
    assert seen["Late"][0] == (100, True)


def test_staggered_episodes_are_whole_in_summaries_and_only_built_in_ones_can_be_staggered(tmp_path):
    lengths = list[float]()

    def look(summary: Summary) -> None:
        lengths.extend(value for tag, value in summary.values.items() if tag == "Environment/Episode Length")

    hyper = {"batch_size": 100, "buffer_size": 400}
    block = {"trainer_type": "ppo", "max_steps": 4000, "summary_freq": 500, "hyperparameters": hyper}
    config = {"default_settings": block}
    more = {"results_dir": str(tmp_path), "num_areas": 4, "seed": 1, "stagger_episodes": True, "quiet": True}
    palaestra.train(config, env="builtin:Match3", callbacks=[look], run_id="staggered", **more)
    assert len(lengths) > 1
    assert set(lengths) == {499.0}  # as ML-Agents counts
    with pytest.raises(ConfigError, match="stagger_episodes: this environment cannot"):
        palaestra.train(config, env="gymnasium:CartPole-v1", run_id="refused", **more)
    with pytest.raises(EnvError, match="RingOut: episodes have no time limit"):
        palaestra.train(config, env="builtin:RingOut", run_id="uncut", **more)


@pytest.mark.parametrize(
    ("env", "epochs", "sign"),
    [
        ("Basic", 3, r"Losses/[\w ]+ is (nan|inf)"),  # of logits that are no numbers some choice is drawn all the same
        ("3DBall", 1, "weights '.*' hold"),  # an action that is none is refused by the environment first
    ],
)
def test_a_run_that_diverges_says_so_and_saves_none_of_it(env, epochs, sign, tmp_path):
    hyper = {"batch_size": 64, "buffer_size": 64, "num_epoch": epochs, "learning_rate": 1e30}
    tree = settings(env, 4000, hyperparameters=hyper, checkpoint_interval=100)
    with pytest.raises(Diverged, match=rf"behavior '{env}': {sign}.* at step [\d,]+: training has diverged"):
        palaestra.train(config=tree, env=env, num_areas=4, run_id="run", results_dir=str(tmp_path), quiet=True)
    for path in (tmp_path / "run" / "checkpoints").glob("*/*.safetensors"):
        assert all(torch.isfinite(tensor).all() for key, tensor in load_file(path).items() if "network" in key)
    assert not (tmp_path / "run" / f"{env}.onnx").exists()
