import os
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from hub_runs import trained
from hub_server import Hub
from small_runs import contents, settings

import palaestra
from palaestra.cli.main import main
from palaestra.core.errors import ConfigError, HubError, RunError, RunInUse
from palaestra.runtime.sharing.pulling import pull
from palaestra.runtime.sharing.pushing import push
from palaestra.runtime.storage.writer_lock import sole_writer

GOLDEN = Path(__file__).parents[3] / "golden" / "data"
MODEL = (GOLDEN / "onnx/unity_examples/3DBallHard.onnx").read_bytes()
THEIRS = {  # as ML-Agents' tool leaves a repository
    "README.md": b"---\nlibrary_name: ml-agents\ntags: 3DBallHard, ML-Agents-3DBallHard\n---\n# ppo\n",
    "config.json": b'{"behaviors": {"3DBallHard": {"trainer_type": "ppo"}}}',
    "configuration.yaml": b"default_settings: null\nbehaviors:\n  3DBallHard:\n    trainer_type: ppo\n    max_steps: "
    b"500000\n",
    "3DBallHard.onnx": MODEL,
    "3DBallHard/3DBallHard-499.onnx": MODEL,
    "3DBallHard/checkpoint.pt": b"\x80\x02ccos\nsystem\n",
    "run_logs/Player-0.log": b"C:\\Users\\ann",
    "run_logs/training_status.json": b'{"3DBallHard": {"checkpoints": []}, "metadata": {}}',
}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("results"))


def test_a_repository_of_ml_agents_is_pulled_and_played(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    hub.add("ann/hard", THEIRS)
    done = pull("ann/hard", results_dir=tmp_path)
    assert done.folder == tmp_path / "hard"
    assert (done.folder / "3DBallHard.onnx").read_bytes() == MODEL
    assert "run_logs/Player-0.log" in done.left_out
    assert not (done.folder / "run_logs/Player-0.log").exists()
    assert main(["evaluate", str(done.folder), "--env=3DBallHard", "--episodes=2", "--num-areas=2"]) == 0
    assert "3DBallHard: mean reward" in capsys.readouterr().out
    policy = palaestra.load_policy(done.folder / "3DBallHard.onnx")
    assert policy.act(np.zeros((1, 45))).continuous is not None


def test_a_run_that_is_there_is_kept_unless_it_is_to_be_replaced(hub: Hub, tmp_path: Path):
    hub.add("ann/hard", THEIRS)
    (tmp_path / "hard").mkdir()
    (tmp_path / "hard/mine.txt").write_text("mine")
    with pytest.raises(RunError, match="hard exists already: pull under another name with --run-id=ID, or replace"):
        pull("ann/hard", results_dir=tmp_path)
    assert os.listdir(tmp_path / "hard") == ["mine.txt"]
    assert hub.requests == []
    pull("ann/hard", results_dir=tmp_path, force=True)
    assert not (tmp_path / "hard/mine.txt").exists()
    assert os.listdir(tmp_path) == ["hard"]


def test_a_run_that_trains_is_not_replaced(hub: Hub, tmp_path: Path):
    hub.add("ann/hard", THEIRS)
    pull("ann/hard", results_dir=tmp_path)
    before = contents(tmp_path / "hard")
    with sole_writer(tmp_path / "hard", print), pytest.raises(RunInUse):
        pull("ann/hard", results_dir=tmp_path, force=True)
    assert contents(tmp_path / "hard") == before


@pytest.mark.parametrize(
    "path", ["../evil.onnx", "../../evil.yaml", "/tmp/evil.onnx", "a\\..\\..\\evil.onnx", "C:evil.onnx"]
)
def test_a_hostile_name_writes_nothing(hub: Hub, tmp_path: Path, path: str):
    hub.add("eve/run", {**THEIRS, path: b"evil"})
    with pytest.raises(HubError, match="unsafe name"):
        pull("eve/run", results_dir=tmp_path / "results")
    assert sorted(os.listdir(tmp_path)) == []


def test_files_that_would_be_believed_are_not_taken(hub: Hub, tmp_path: Path):
    forged = (".writer.json", ".lock", "run_logs/signature", "run_logs/requests/1.json", "game.py")
    hub.add("eve/run", {**THEIRS, **dict.fromkeys(forged, b"x")})
    done = pull("eve/run", results_dir=tmp_path)
    assert set(forged) <= set(done.left_out)
    assert not [path for path in forged if (done.folder / path).exists()]


def test_settings_of_a_pulled_run_that_name_code_need_trust(hub, tmp_path, capsys):
    code = b"env_settings:\n  env_path: python:os:getcwd\nbehaviors:\n  3DBallHard:\n    trainer_type: ppo\n"
    hub.add("eve/run", {**THEIRS, "configuration.yaml": code})
    done = pull("eve/run", results_dir=tmp_path)
    assert main(["evaluate", str(done.folder)]) == 1
    assert main(["evaluate", "hub:eve/run"]) == 1
    assert capsys.readouterr().err.count("env_settings.env_path = python:os:getcwd") == 2


def test_a_download_that_breaks_off_is_completed(hub, first, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the library waits before it goes on
    push(str(first), "ann/ppo")
    hub.break_once.add("3DBall.onnx")
    done = pull("ann/ppo", results_dir=tmp_path)
    assert (done.folder / "3DBall.onnx").read_bytes() == (first / "3DBall.onnx").read_bytes()


def test_an_interrupted_pull_goes_on_where_it_was(hub: Hub, tmp_path: Path):
    hub.add("ann/hard", THEIRS)
    hub.damaged.add("run_logs/training_status.json")
    with pytest.raises(HubError, match=r"training_status.json of ann/hard was damaged"):
        pull("ann/hard", results_dir=tmp_path)
    assert os.listdir(tmp_path) == [".hard.pull"]
    hub.damaged.clear()
    hub.requests.clear()
    done = pull("ann/hard", results_dir=tmp_path)
    assert (done.folder / "3DBallHard.onnx").read_bytes() == MODEL
    assert not [line for line in hub.requests if line.startswith("GET") and line.endswith("/3DBallHard.onnx")]
    assert os.listdir(tmp_path) == ["hard"]
    assert not (done.folder / ".cache").exists()


def test_a_pull_after_a_new_commit_mixes_nothing(hub: Hub, tmp_path: Path):
    repo = hub.add("ann/hard", {**THEIRS, "old.onnx": MODEL})
    hub.damaged.add("run_logs/training_status.json")
    with pytest.raises(HubError, match="was damaged"):
        pull("ann/hard", results_dir=tmp_path)
    repo.commit({**THEIRS, "3DBallHard.onnx": b"new"})
    hub.damaged.clear()
    done = pull("ann/hard", results_dir=tmp_path)
    assert (done.folder / "3DBallHard.onnx").read_bytes() == b"new"
    assert not (done.folder / "old.onnx").exists()


def test_two_pulls_of_one_run_do_not_mix(hub: Hub, tmp_path: Path):
    hub.add("ann/hard", THEIRS)
    with FileLock(tmp_path / ".hard.pull.lock"), pytest.raises(RunInUse, match="another pull is writing"):
        pull("ann/hard", results_dir=tmp_path)


def test_models_alone_can_be_pulled(hub: Hub, first: Path, tmp_path: Path):
    push(str(first), "ann/ppo")
    done = pull("ann/ppo", results_dir=tmp_path, models_only=True)
    there = {path.relative_to(done.folder).parts[0] for path in done.folder.rglob("*") if path.is_file()}
    assert {"3DBall.onnx", "configuration.yaml", "3DBall"} <= there
    assert "checkpoints" not in there


def test_a_run_larger_than_the_disk_is_refused_before_it_is_downloaded(hub, tmp_path, monkeypatch):
    hub.add("ann/hard", THEIRS)
    monkeypatch.setattr("palaestra.hub.fetching.RESERVE", 10**18)
    with pytest.raises(HubError, match=r"ann/hard \(--models-only needs less\) needs"):
        pull("ann/hard", results_dir=tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_repository_that_is_no_run_is_refused(hub: Hub, tmp_path: Path):
    hub.add("ann/bert", {"config.json": b"{}", "model.safetensors": b"x"})
    with pytest.raises(HubError, match="ann/bert is no run of Palaestra or ML-Agents"):
        pull("ann/bert", results_dir=tmp_path)
    assert os.listdir(tmp_path) == []


def test_models_without_settings_are_pulled_as_no_run(hub: Hub, tmp_path: Path):
    hub.add("ann/bare", {"3DBallHard.onnx": MODEL})
    assert not pull("ann/bare", results_dir=tmp_path).is_run


def test_the_run_is_named_by_the_repository_or_by_the_user(hub: Hub, tmp_path: Path):
    hub.add("ann/hard", THEIRS)
    assert pull("hub:ann/hard", run_id="a/b", results_dir=tmp_path).folder == tmp_path / "a" / "b"
    with pytest.raises(ConfigError, match="cannot name a folder"):
        pull("ann/hard", run_id="../x", results_dir=tmp_path)


def test_a_new_run_starts_from_the_networks_of_one_on_the_hub(hub, first, tmp_path, capsys):
    push(str(first), "ann/ppo")
    given = {"env": "3DBall", "results_dir": str(tmp_path), "num_areas": 2}
    palaestra.train(settings("3DBall", 64), run_id="one", initialize_from="hub:ann/ppo", **given)
    assert "Initialized '3DBall' from" in capsys.readouterr().out
    palaestra.train(settings("3DBall", 64, init_path="hub:ann/ppo@300"), run_id="two", **given)
    assert "Initialized '3DBall' from" in capsys.readouterr().out
    with pytest.raises(HubError, match="there is no repository ann/nothing"):
        palaestra.train(settings("3DBall", 64), run_id="three", initialize_from="hub:ann/nothing", quiet=True, **given)


def test_a_brain_is_a_model_of_the_hub(hub: Hub, first: Path, capsys: pytest.CaptureFixture[str]):
    push(str(first), "ann/ppo")
    assert main(["run", "3DBall", "--brain", "model:hub:ann/ppo", "--episodes=2", "--num-areas=2"]) == 0
    assert "model:hub:ann/ppo" in capsys.readouterr().out


def test_what_needs_a_folder_says_that_the_run_is_to_be_pulled(hub: Hub, capsys: pytest.CaptureFixture[str]):
    for command in ("export", "plot", "league"):
        assert main([command, "hub:ann/ppo"]) == 1
        assert "'palaestra pull ann/ppo' brings the run's folder here" in capsys.readouterr().err
