from pathlib import Path

import pytest
from small_runs import settings

from palaestra.core.errors import ConfigError, RunError
from palaestra.runtime.settings import load
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder, check_run_id
from palaestra.runtime.storage.trust import SIGNATURE
from palaestra.runtime.storage.writer_lock import LOCK

LOADED = load(settings("Basic")).settings


@pytest.mark.parametrize("run_id", ["first", "ball/first", "3DBall_v2.1", "läuft", "a b"])
def test_ordinary_names_are_taken(run_id):
    check_run_id(run_id)


@pytest.mark.parametrize("run_id", ["", ".", "..", "a/../b", "/a", "a/", "-x", ".x", "a\\b", "a:b", "con", "a\0"])
def test_names_that_are_no_folder_everywhere_are_refused(run_id):
    with pytest.raises(ConfigError, match="cannot name a folder"):
        check_run_id(run_id)


@pytest.mark.parametrize("run_id", ["x" * 300, f"a/{'x' * 121}", "字" * 100])
def test_names_that_are_too_long_are_refused(run_id):
    with pytest.raises(ConfigError, match=r"--run-id: '.*' is too long for the name of a folder; expected at most 120"):
        check_run_id(run_id)


def test_a_folder_is_made_with_its_settings_in_it(tmp_path):
    folder = RunFolder(tmp_path / "results", "ball/first")
    folder.create(LOADED)
    assert load(folder.path / CONFIGURATION).settings == LOADED
    assert {path.name for path in folder.path.rglob("*") if path.is_file()} == {CONFIGURATION, SIGNATURE.name}
    assert [path.name for path in folder.path.parent.iterdir()] == ["first"]


def test_a_new_run_may_not_write_over_another_unless_forced(tmp_path):
    folder = RunFolder(tmp_path, "first")
    folder.create(LOADED)
    folder.must_be_free(force=True)
    with pytest.raises(RunError, match=r"exists already .*--resume.*--force.*--run-id"):
        folder.must_be_free(force=False)


def test_a_forced_run_keeps_what_does_not_mix_with_its_own(tmp_path):
    folder = RunFolder(tmp_path, "first")
    folder.create(LOADED)
    for name in (
        "checkpoints/10/manifest.json",
        "metrics.jsonl",
        "run_logs/training_status.json",
        "Basic/Basic-10.onnx",
        "Basic-best.onnx",
        *(kept := ("Basic.onnx", "Basic/mine-10.onnx", "Basic/Basic-10/Basic-10.onnx", "notes.txt")),
    ):
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).touch()
    folder.create(LOADED)
    there = {path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*") if path.is_file()}
    assert there == {CONFIGURATION, SIGNATURE.as_posix(), *kept}


def test_a_run_that_is_missing_is_told_from_its_neighbors(tmp_path):
    for name in ("ball-1", "ball-2", "walker", ".ball-3.new", "seeds/first"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / CONFIGURATION).touch()
    (tmp_path / "never-began" / "run_logs").mkdir(parents=True)
    (tmp_path / "never-began" / ".lock").touch()
    with pytest.raises(RunError, match=r"cannot play: there is no run 'ball-3' in .*; did you mean 'ball-2'"):
        RunFolder(tmp_path, "ball-3").must_exist("play")
    with pytest.raises(RunError, match=r"runs there: ball-1, ball-2, seeds/first, walker\) \(leave out --resume"):
        RunFolder(tmp_path, "zzz").must_exist("resume")
    with pytest.raises(
        RunError, match=r"^there is no run 'bask' in .* \(runs there: ball-1, ball-2, seeds/first, walker\)$"
    ):
        RunFolder(tmp_path, "bask").must_exist("open")
    with pytest.raises(RunError, match="which has none"):
        RunFolder(tmp_path / "nowhere", "zzz").must_exist("play")
    for name in map(str, range(8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / CONFIGURATION).touch()
    with pytest.raises(RunError, match=r"ball-2 and 2 more\)$"):
        RunFolder(tmp_path, "zzz").must_exist("open")


def test_a_run_in_the_folders_of_old_ml_agents_is_recognized(tmp_path, monkeypatch):
    (tmp_path / "models" / "first" / "Ball").mkdir(parents=True)
    for here, results in ((tmp_path, Path("results")), (Path.cwd(), tmp_path / "results")):
        monkeypatch.chdir(here)
        with pytest.raises(RunError, match=r"resume: .*first is a run of ML-Agents before release 3.* \(leave out"):
            RunFolder(results, "first").must_exist("resume")
        with pytest.raises(RunError, match="there is no run 'second'"):
            RunFolder(results, "second").must_exist("resume")


@pytest.mark.parametrize("half", [".writer.json.tmp-4194305", ".configuration.yaml.tmp-4194305"])
def test_a_start_that_was_killed_before_its_first_file_can_be_started_again(tmp_path, half):
    folder = RunFolder(tmp_path, "first")
    folder.path.mkdir()
    (folder.path / half).write_text("beh")
    with pytest.raises(RunError, match="the run stopped before it began: leave out --resume to start it"):
        folder.must_exist("resume")
    folder.must_be_free(force=False)
    folder.create(LOADED)
    folder.sweep()
    assert load(folder.path / CONFIGURATION).settings == LOADED
    assert not (folder.path / half).exists()


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("notes.txt", r"other files, such as notes\.txt"),
        ("drafts/notes.txt", r"other files, such as drafts/notes\.txt"),
        ("q/configuration.yaml", "other runs, such as 'p/q'"),
        ("q/r/configuration.yaml", "other runs, such as 'p/q/r'"),
    ],
)
def test_a_folder_of_something_else_is_no_run(tmp_path, file, named):
    folder = RunFolder(tmp_path, "p")
    (folder.path / file).parent.mkdir(parents=True)
    (folder.path / file).touch()
    (folder.path / LOCK).touch()
    assert not folder.exists
    refused = rf"cannot resume: .*is not a run's folder: it holds {named}; leave out --resume, and choose another"
    with pytest.raises(RunError, match=refused):
        folder.must_exist("resume")
    with pytest.raises(RunError, match=f"it holds {named}; choose another --run-id$"):
        folder.must_be_free(force=False)


@pytest.mark.parametrize(
    "file",
    [
        CONFIGURATION,
        "checkpoints/10/manifest.json",
        "run_logs/timers.json",
        "metrics.jsonl",
        "Ball.onnx",
        "Ball.nn",
        "events.out.tfevents.1.box",
        "Ball/events.out.tfevents.1.box",
        "Ball/checkpoint.pt",
    ],
)
def test_any_file_of_a_run_makes_its_folder_one(tmp_path, file):
    folder = RunFolder(tmp_path, "p")
    (folder.path / file).parent.mkdir(parents=True)
    (folder.path / file).touch()
    assert folder.exists
    with pytest.raises(RunError, match="exists already"):
        folder.must_be_free(force=False)


def test_halves_of_files_are_swept_away(tmp_path):
    folder = RunFolder(tmp_path, "first")
    folder.create(LOADED)
    (folder.logs / ".timers.json.tmp-4194305").touch()
    (folder.logs / "timers.json").touch()
    folder.sweep()
    assert {path.name for path in folder.logs.iterdir()} == {"timers.json", SIGNATURE.name}
