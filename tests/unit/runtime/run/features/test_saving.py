import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from small_runs import differences, settings, state, write

import palaestra
from palaestra.cli.main import main
from palaestra.core.errors import FolderLost, RunError
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run import loop
from palaestra.runtime.run.features import saving
from palaestra.runtime.run.result import Result
from palaestra.runtime.storage import run_folder as run_folder
from palaestra.runtime.storage.writer_lock import WRITER

CONFIG = settings("Basic", 900, summary_freq=100, checkpoint_interval=150)


def train(results: Path, act: Callable[[Path], object] | None = None, **more: Any) -> Result:
    """Trains, and once it is under way does something to the run's folder."""

    def once(summary: Summary) -> None:
        if act is not None and summary.step == 300:
            act(results / more.get("run_id", "run"))

    given = {"env": "Basic", "num_areas": 3, "seed": 7, "run_id": "run", "quiet": True, **more}
    given.setdefault("results_dir", str(results))
    return palaestra.train(given.pop("config", CONFIG), callbacks=[once], **given)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run knows at its end that was left alone."""
    return state(train(tmp_path_factory.mktemp("whole")).folder)


def replace_by_a_file(run: Path) -> None:
    shutil.rmtree(run)
    run.write_text("in the way")


def empty(run: Path) -> None:
    for path in run.iterdir():
        if not path.name.startswith("."):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def take_over(run: Path) -> None:
    writer = json.loads((run / WRITER).read_text())
    (run / WRITER).write_text(json.dumps({**writer, "token": "another", "host": "elsewhere"}))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("act", "message"),
    [
        (shutil.rmtree, "was deleted or renamed"),
        (lambda run: run.rename(run.with_name("elsewhere")), "was deleted or renamed"),
        (replace_by_a_file, "was replaced by a file"),
        (empty, "was emptied"),
        (take_over, "was taken over by process .* on elsewhere .*"),
    ],
)
def test_a_run_whose_folder_goes_is_saved_beside_it_and_resumes_exactly(act, message, whole, tmp_path):
    lost = rf"the folder of the run 'run' \(.*\) {message} while the run was training\. The training"
    with pytest.raises(FolderLost, match=lost) as caught:
        train(tmp_path, act)
    saved = caught.value.saved
    assert saved.parent == tmp_path
    assert f'is saved in {saved}; to continue from there: palaestra.train(run_id="{saved.name}"' in str(caught.value)
    resumed = palaestra.train(run_id=saved.name, results_dir=str(tmp_path), resume=True, quiet=True)
    assert resumed.finished
    assert differences(state(resumed.folder), whole) == []


def test_a_checkpoint_waits_for_the_end_of_a_large_rollout(whole, tmp_path, monkeypatch):
    config = settings("Basic", 900, summary_freq=100, checkpoint_interval=150, keep_checkpoints=-1)

    def open_rows() -> list[int]:
        """Rows of the rollout under way, in each checkpoint but the last, which is saved at once."""
        run = train(tmp_path, config=config, run_id=f"{saving.MUCH}").folder
        steps = sorted(int(path.name) for path in (run / "checkpoints").iterdir() if path.name.isdigit())
        return [step % 129 for step in steps[:-1]]  # 3 areas: a rollout of 128 decisions is full at 129

    assert any(open_rows())
    monkeypatch.setattr(saving, "MUCH", 0)
    assert not any(open_rows())
    assert differences(state(tmp_path / "0"), whole) == []
    monkeypatch.setattr(saving, "PATIENCE", 0.0)
    monkeypatch.setattr(saving, "MUCH", 1)
    assert any(open_rows())


def test_a_folder_that_went_is_noticed_before_the_next_summary(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "CHECK_EVERY", 0.0)
    monkeypatch.setattr(loop, "PAUSE", 0.0)
    config = settings("Basic", 100_000, summary_freq=300)
    with pytest.raises(FolderLost) as caught:
        train(tmp_path, shutil.rmtree, config=config)
    match = re.search(r"up to step ([\d,]+)", str(caught.value))
    assert int(match[1].replace(",", "")) < 600


def test_a_command_whose_folder_is_deleted_says_so_once_and_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "game.py").write_text(
        "import shutil\nfrom palaestra.envs.builtin.basic.env import Basic\n\nclass Game(Basic):\n    ticks = 0\n    "
        "def step(self, actions):\n        self.ticks += 1\n        if self.ticks == 100:\n            "
        "shutil.rmtree('results/first')\n        return super().step(actions)\n"
    )
    file = write(str(tmp_path / "settings.yaml"), CONFIG)
    assert main(["learn", file, "--env=python:game:Game", "--num-areas=3", "--run-id=first"]) == 1
    message = capsys.readouterr()
    assert message.err.count("error:") == 1
    assert "WARNING" not in message.out
    match = re.search(r"to continue from there: palaestra (.*)$", message.err, re.MULTILINE)
    assert main([*match[1].split(), "--env=Basic"]) == 0
    assert not (tmp_path / "results" / "first").exists()


def forbid(results: Path) -> None:
    """Makes a folder read-only, as far as root minds that."""
    if os.geteuid():
        for path in (results, *results.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
    else:
        subprocess.run(["mount", "--bind", results, results], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", results], check=True)


def fill(results: Path) -> None:
    """Uses up what is left of a disk."""
    with (results / "large").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    results = tmp_path / "results"
    results.mkdir()
    if (
        os.name == "nt"
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9m", "none", results], capture_output=True).returncode
    ):
        pytest.skip("needs to mount a file system")
    try:
        yield results
    finally:
        while subprocess.run(["umount", "-l", results], capture_output=True).returncode == 0:
            pass


@pytest.mark.parametrize(("act", "message"), [(forbid, r"the file system is read-only"), (fill, "the disk is full")])
def test_a_run_that_cannot_be_written_is_saved_among_temporary_files(act, message, disk, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(FolderLost, match=rf"can no longer be written to \({message}\).* is saved in") as caught:
        train(disk, lambda _: act(disk))
    saved = caught.value.saved
    assert saved.parent.parent == tmp_path
    resumed = palaestra.train(run_id=saved.name, results_dir=str(saved.parent), resume=True, quiet=True)
    assert differences(state(resumed.folder), whole) == []


@pytest.mark.skipif(os.name == "nt" or not os.geteuid(), reason="needs permissions that are minded")
def test_a_run_whose_folder_becomes_read_only_is_saved_among_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        with pytest.raises(FolderLost, match=r"written to \(there is no permission to write there\)") as caught:
            train(tmp_path / "results", lambda _: forbid(tmp_path / "results"))
    finally:
        for path in (tmp_path / "results").rglob("*"):
            path.chmod(0o755)
    assert caught.value.saved is not None


def test_where_nothing_can_be_written_anywhere_both_reasons_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    (tmp_path / "results").mkdir()

    def replace_results(run: Path) -> None:
        shutil.rmtree(run.parent)
        run.parent.write_text("in the way")

    with pytest.raises(RunError, match=r"deleted or renamed.*not be saved in another place either \(.*run-saved-"):
        train(tmp_path / "results", replace_results)


def test_checkpoints_that_would_take_too_much_of_the_time_are_left_out(tmp_path, monkeypatch, capsys):
    """As on a GPU that makes more decisions in the time of one checkpoint than checkpoint_interval says."""
    monkeypatch.setattr(saving, "FREE_SECONDS", 0.0)
    monkeypatch.setattr(saving, "MOST_SHARE", 0.0)
    result = train(tmp_path, quiet=False)
    assert capsys.readouterr().out.count("Checkpoints come less often than every checkpoint_interval") == 1
    models = {int(path.stem.rpartition("-")[2]) // 150 for path in (result.folder / "Basic").glob("*.onnx")}
    assert models == {6}  # the last; the run's first checkpoint, at step 0, has taken more than none of the time
    assert result.finished


def test_a_run_that_leaves_out_checkpoints_is_still_saved_once_a_minute(tmp_path, monkeypatch):
    for name, value in (("FREE_SECONDS", 0.0), ("MOST_SHARE", 0.0), ("SAFETY_SECONDS", 0.0)):
        monkeypatch.setattr(saving, name, value)
    saved: list[int] = []
    save = saving.Saving.save
    monkeypatch.setattr(saving.Saving, "save", lambda self: (saved.append(self._run.step), save(self)))
    train(tmp_path)
    assert len(saved) > 6


def test_checkpoints_spread_evenly_are_all_written(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "FREE_SECONDS", 0.0)
    monkeypatch.setattr(saving, "MOST_SHARE", 0.0)
    result = train(tmp_path, config=settings("Basic", 900, summary_freq=100, even_checkpoints=True, keep_checkpoints=3))
    assert {int(path.stem.rpartition("-")[2]) // 300 for path in (result.folder / "Basic").glob("*.onnx")} == {1, 2, 3}
