import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from small_runs import contents, differences, settings, state
from tiny_envs import Scripted

import palaestra
from palaestra.core.errors import CheckpointError, ConfigError, RunError
from palaestra.core.metrics import REWARD
from palaestra.runtime.logging.history import read_history
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run import loop
from palaestra.runtime.run.result import Result
from palaestra.runtime.storage.checkpoints import Checkpoints

SMALL = {
    "3DBall": settings(
        "3DBall", 2400, summary_freq=500, network_settings={"hidden_units": 16, "num_layers": 1, "normalize": True}
    ),
    "Basic": settings("Basic", 2400, summary_freq=500),
    "GridWorld": settings("GridWorld", 600, summary_freq=150),
}


def train(name: str, results: Path, until: int | None = None, **more: Any) -> Result:
    """Stops at the first summary from `until` on."""
    callbacks: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    given = {"config": SMALL[name], "num_areas": 3, "seed": 7, "env": name, "quiet": True, **more}
    given.setdefault("callbacks", callbacks)
    return palaestra.train(results_dir=str(results), run_id="run", **given)


@pytest.mark.parametrize("env", SMALL)
def test_an_interrupted_run_that_goes_on_ends_as_one_that_never_stopped(env, tmp_path):
    half = SMALL[env]["behaviors"][env]["max_steps"] // 2
    whole = train(env, tmp_path / "whole")
    stopped = train(env, tmp_path / "parts", until=half)
    assert not stopped.finished
    assert half <= stopped.steps[env] < whole.steps[env]
    resumed = train(env, tmp_path / "parts", resume=True)
    assert resumed.finished
    assert resumed.rewards == whole.rewards
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_a_run_that_was_stopped_between_two_summaries_goes_on_from_there(tmp_path, capsys):
    place = {"env": "CartPole", "run_id": "run", "results_dir": str(tmp_path), "num_areas": 8, "seed": 1}
    stopped = palaestra.train(settings("CartPole", 900), **place, callbacks=[lambda summary: summary.step >= 300])
    saved: Any = Checkpoints(stopped.folder / "checkpoints", 0).load().state["run"]
    assert saved["statistics"]["periods"]["CartPole"]["judged"][1] > 0  # episodes of a summary that is not written yet
    palaestra.train(settings("CartPole", 900), **place, resume=True)
    out = capsys.readouterr().out
    assert f"Resuming 'run' from step {stopped.steps['CartPole']:,}" in out
    assert "damaged" not in out


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("trainer", "env", "more"),
    [
        ("ppo", "3DBall", {}),
        (
            "ppo",
            "Basic",
            {"network_settings": {"hidden_units": 16, "memory": {"memory_size": 8, "sequence_length": 4}}},
        ),
        ("sac", "Basic", {"hyperparameters": {"batch_size": 16, "buffer_size": 150, "steps_per_update": 7.5}}),
        (
            "poca",
            "DungeonEscape",
            {"hyperparameters": {"batch_size": 32, "buffer_size": 128, "learning_rate_schedule": "constant"}},
        ),
        (
            "bc",
            "3DBall",
            {"hyperparameters": {"buffer_size": 128, "learning_rate_schedule": "constant", "teacher": "heuristic"}},
        ),
    ],
)
def test_a_finished_run_that_is_given_more_steps_ends_as_one_that_had_them(trainer, env, more, tmp_path):
    constant = {"batch_size": 32, "buffer_size": 128, "learning_rate_schedule": "constant"} if trainer == "ppo" else {}
    block = {"trainer_type": trainer, **({"hyperparameters": constant} if constant else {}), **more}

    def trained(folder: str, steps: int, **how: Any) -> Result:
        given = {"config": settings(env, steps, **block), "env": env, "num_areas": 3, "seed": 7, "quiet": True, **how}
        return palaestra.train(results_dir=str(tmp_path / folder), run_id="run", **given)

    whole = trained("whole", 400)
    first = trained("parts", 200)  # amid a rollout
    assert first.finished
    resumed = trained("parts", 400, resume=True)
    assert resumed.finished
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_how_often_the_loop_looks_up_changes_nothing(tmp_path, monkeypatch):
    calm = train("3DBall", tmp_path / "calm")
    monkeypatch.setattr(loop, "PAUSE", 0.0)
    hasty = train("3DBall", tmp_path / "hasty")
    assert differences(state(calm.folder), state(hasty.folder)) == []


def test_two_runs_with_one_seed_are_equal_and_with_another_are_not(tmp_path):
    seeds = {"a": 7, "b": 7, "c": 8}
    first, second, other = (state(train("Basic", tmp_path / name, seed=seed).folder) for name, seed in seeds.items())
    assert differences(first, second) == []
    assert differences(first["Basic"], other["Basic"]) != []


def test_a_finished_run_stays_as_it_is(tmp_path, capsys):
    folder = train("Basic", tmp_path).folder
    before = contents(folder)
    result = train("Basic", tmp_path, resume=True, quiet=False)
    after = contents(folder)
    assert result.finished
    assert "is finished: it has reached its max_steps of 2,400" in capsys.readouterr().out
    assert {name for name in before if before[name] != after[name]} <= {"configuration.yaml", "curves.png"}


def test_a_finished_run_trains_further_with_its_own_settings_and_more_steps(tmp_path):
    train("Basic", tmp_path)
    more = {"config": None, "env": None, "num_areas": 3, "max_steps": 3000}
    result = train("Basic", tmp_path, resume=True, **more)
    assert result.finished
    assert result.steps["Basic"] >= 3000
    status = json.loads((result.folder / "run_logs/training_status.json").read_text())
    assert status["Basic"]["final_checkpoint"]["steps"] >= 3000


def test_a_run_that_was_moved_and_renamed_goes_on_where_it_is(tmp_path):
    folder = train("Basic", tmp_path, until=1000).folder
    moved = folder.rename(tmp_path / "elsewhere")
    result = palaestra.train(run_id="elsewhere", results_dir=str(tmp_path), resume=True, quiet=True)
    assert result.folder == moved
    assert result.finished
    assert not folder.exists()


def test_a_run_goes_on_in_another_number_of_areas(tmp_path, capsys):
    stopped = train("Basic", tmp_path, until=1000)
    result = train("Basic", tmp_path, resume=True, num_areas=5, quiet=False)
    out = capsys.readouterr().out
    assert "[WARNING] this run was trained in 3 areas and continues in 5: episodes start again; everything else" in out
    assert "[INFO] Behavior 'Basic': observations" in out
    assert "New behavior" not in out
    assert result.steps["Basic"] > stopped.steps["Basic"]


def test_a_run_in_an_environment_that_cannot_be_saved_goes_on(tmp_path, capsys):
    config = settings("CartPole-v1", 1000, summary_freq=200)
    train("3DBall", tmp_path, until=400, config=config, env="gymnasium:CartPole-v1")
    result = train("3DBall", tmp_path, config=config, env="gymnasium:CartPole-v1", resume=True, quiet=False)
    out = capsys.readouterr().out
    assert "[INFO] Episodes start again, because this environment cannot be saved; weights, optimizer" in out
    assert "WARNING" not in out
    assert result.finished
    train("3DBall", tmp_path, config=config, env="gymnasium:CartPole-v1", resume=True, quiet=False)
    out = capsys.readouterr().out  # it is finished, and plays nothing
    assert "is finished" in out
    assert "Episodes start again" not in out


class Board(gymnasium.Env):
    """Shows a board of bytes; `most` is the highest number that its space says."""

    action_space = spaces.Discrete(2)

    def __init__(self, most: int) -> None:
        self.observation_space = spaces.Box(0, most, (20, 20), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((20, 20), np.uint8), {}

    def step(self, action):
        return np.ones((20, 20), np.uint8), 1.0, bool(self.np_random.random() < 0.2), False, {}


def test_a_run_whose_images_were_scaled_otherwise_goes_on_with_a_warning(tmp_path, capsys):
    place: dict[str, Any] = {"run_id": "run", "results_dir": str(tmp_path), "num_areas": 2, "seed": 1}
    config = settings("Board", 64)
    palaestra.train(config, env=lambda: Board(255), **place)
    config["behaviors"]["Board"]["max_steps"] = 128
    palaestra.train(config, env=lambda: Board(2), resume=True, **place)
    changed = "observation 'observation' was multiplied by 0.00392 when this run was saved and is multiplied by 0.5 now"
    assert changed in capsys.readouterr().out


def test_the_curves_of_an_interrupted_run_have_no_point_twice(tmp_path):
    train("Basic", tmp_path, until=1000)
    folder = train("Basic", tmp_path, resume=True).folder
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == [500, 1000, 1500, 2000]
    (folder / "metrics.jsonl").unlink()
    assert read_history(folder)["Basic"][REWARD].step.tolist() == steps  # from TensorBoard's files


def test_models_and_their_list_are_rotated_together(tmp_path):
    config = settings("Basic", 2400, checkpoint_interval=500, keep_checkpoints=2)
    train("Basic", tmp_path, config=config, until=1300)
    folder = train("Basic", tmp_path, config=config, resume=True).folder
    status = json.loads((folder / "run_logs/training_status.json").read_text())["Basic"]
    there = {path.name for path in (folder / "Basic").glob("*.onnx")}
    assert len(there) == 2
    assert {Path(model["file_path"]).name for model in status["checkpoints"]} == there
    assert len([*(folder / "checkpoints").iterdir()]) == 2


def test_force_begins_anew(tmp_path):
    train("Basic", tmp_path)
    with pytest.raises(RunError, match="exists already"):
        train("Basic", tmp_path)
    result = train("Basic", tmp_path, until=500, force=True)
    assert result.steps["Basic"] < 1000
    assert len((result.folder / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_run_that_was_never_saved_starts_from_step_0(tmp_path, capsys):
    folder = train("Basic", tmp_path, until=1).folder
    shutil.rmtree(folder / "checkpoints")
    shutil.rmtree(folder / "Basic", ignore_errors=True)
    for name in ("Basic.onnx", "run_logs/training_status.json"):
        (folder / name).unlink(missing_ok=True)
    # killed within its first minute
    (folder / "metrics.jsonl").write_text('{"behavior": "Basic", "step": 100, "elapsed": 40.0}\n')
    result = train("Basic", tmp_path, resume=True, quiet=False)
    assert "was not saved before it ended: it starts from step 0" in capsys.readouterr().out
    assert result.finished


@pytest.mark.few(2)
@pytest.mark.parametrize("left", ["Basic.onnx", "Basic/", "metrics.jsonl", "run_logs/training_status.json"])
def test_results_without_a_checkpoint_are_not_overwritten(tmp_path, left):
    folder = train("Basic", tmp_path, until=1000).folder
    shutil.rmtree(folder / "checkpoints")
    for path in [path for path in folder.rglob("*") if path.is_file() and path.name != "configuration.yaml"]:
        if not path.relative_to(folder).as_posix().startswith(left):
            path.unlink()
    if left == "metrics.jsonl":
        lines = ['{"behavior": "Basic", "step": 100, "elapsed": 40.0}', '{"step": 90000, "elapsed": 4000.0}', ""]
        (folder / left).write_text("\n".join(lines))
    before = contents(folder)
    refused = r"no checkpoint to continue from, but it has results, such as .*checkpoints/ back.*run_id.*force=True"
    with pytest.raises(RunError, match=refused):
        train("Basic", tmp_path, resume=True)
    assert contents(folder) == before
    assert train("Basic", tmp_path, force=True).finished


def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path, capsys):
    whole = train("Basic", tmp_path / "whole")
    folder = train("Basic", tmp_path / "parts", until=1000).folder
    newest = max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name))
    (newest / "Basic.safetensors").write_bytes((newest / "Basic.safetensors").read_bytes()[:-50])
    resumed = train("Basic", tmp_path / "parts", resume=True, quiet=False)
    assert "[WARNING] skipped a damaged checkpoint" in capsys.readouterr().out
    assert differences(state(whole.folder), state(resumed.folder)) == []


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("Basic", tmp_path_factory.mktemp("begun"), until=1000).folder


def test_hidden_remnants_of_checkpoints_are_cleared_when_a_run_goes_on(begun, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(begun, run)
    newest = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name))
    newest.rename(newest.with_name(f".{newest.name}.old-4194305"))
    for name in (".7000.tmp-4194305", f".0.gone-{os.getppid()}"):
        (run / "checkpoints" / name).mkdir()
        (run / "checkpoints" / name / "run.safetensors").write_bytes(b"half")
    seen: list[list[str]] = []

    def look(_: Summary) -> bool:
        seen.append(sorted(path.name for path in (run / "checkpoints").glob(".*")))
        return True

    train("Basic", tmp_path, resume=True, callbacks=[look])
    assert seen == [[]]
    assert newest.is_dir()


def test_what_a_behavior_learned_is_kept_until_it_is_seen_again(tmp_path):
    def play(until: int, appears: int, **more: Any) -> Path:
        env = Scripted({"A": {"steady": True}, "B": {"steady": True}}, appears={"B": appears})
        return train("Basic", tmp_path, until, config=config, env=env, num_areas=None, **more).folder

    config = settings("A", 10_000)
    config["behaviors"]["B"] = config["behaviors"]["A"]
    learned = state(play(400, appears=0))
    away = state(play(800, appears=10_000, resume=True))
    assert differences(learned["B"], away["B"]) == []
    assert differences(learned["A"], away["A"]) != []
    back = state(play(1200, appears=5, resume=True))
    decisions = [one["run"]["collector"]["behaviors"]["B"]["decisions"] for one in (back, learned)]
    assert decisions[0] > decisions[1] > 300


def test_another_environment_is_refused(tmp_path):
    train("Basic", tmp_path, until=500)
    with pytest.raises(CheckpointError, match="a run with other behaviors: it has Basic, this environment has 3DBall"):
        train("3DBall", tmp_path, resume=True)


@pytest.mark.parametrize("name", ["run", "Checkpoints", "run_logs"])
def test_a_behavior_may_not_be_named_as_a_file_of_the_run(name, tmp_path):
    with pytest.raises(ConfigError, match=rf"behaviors\.{name}: no behavior can have this name"):
        train("Basic", tmp_path, config=settings(name), env=Scripted({name: {"steady": True}}))
    assert [*tmp_path.iterdir()] == []
