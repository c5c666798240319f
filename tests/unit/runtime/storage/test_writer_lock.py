import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from small_runs import contents, settings

import palaestra
from palaestra.cli.main import main
from palaestra.core.errors import RunError, RunInUse
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run.result import Result
from palaestra.runtime.storage.writer_lock import (
    FRESH,
    LOCK,
    WRITER,
    LockHolder,
    WriterLock,
    network_file_system,
    sole_writer,
)

HERE = Path(__file__).parents[2]


def ignore(_: str) -> None:
    """A warning that the test is not about."""


@contextmanager
def hold(folder: Path, more: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that writes to the folder until it is ended."""
    program = (
        "import os, sys, time; from pathlib import Path; from palaestra.runtime.storage.writer_lock import WriterLock\n"
        f"lock = WriterLock(Path(sys.argv[1])); lock.acquire()\n{more}\nprint('holds', flush=True); time.sleep(100)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "holds\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def train(results: Path, **more: Any) -> Result:
    config = settings("Basic", 600, summary_freq=200)
    given = {"env": "Basic", "num_areas": 3, "seed": 7, "run_id": "run", "quiet": True, **more}
    return palaestra.train(config, results_dir=str(results), **given)


def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path):
    with hold(tmp_path / "run") as holder:
        since = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
        told = (
            rf"run 'run' is in use: process {holder.pid} on {re.escape(socket.gethostname())} \({since}\) is "
            r"writing to .*--run-id"
        )
        with pytest.raises(RunInUse, match=told):
            WriterLock(tmp_path / "run").acquire()


def test_one_process_cannot_write_to_one_run_twice(tmp_path):
    with sole_writer(tmp_path / "run", ignore):
        with pytest.raises(RunInUse, match=rf"process {os.getpid()} \(this one\) on"):
            WriterLock(tmp_path / "run").acquire()
        (tmp_path / "run" / "file").touch()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["file"]
    with sole_writer(tmp_path / "run", ignore):
        assert (tmp_path / "run" / LOCK).exists()


def test_a_killed_writer_hinders_nobody(tmp_path):
    with hold(tmp_path / "run") as holder:
        holder.kill()
        holder.wait()
    assert (tmp_path / "run" / WRITER).exists()
    said: list[str] = []
    with sole_writer(tmp_path / "run", said.append):
        pass
    assert said == []


def test_a_folder_in_which_nothing_was_written_goes_again(tmp_path):
    with sole_writer(tmp_path / "results" / "ball" / "run", ignore):
        assert (tmp_path / "results" / "ball" / "run").is_dir()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "fork") or int(version("filelock").split(".")[0]) < 4,
    reason="needs fork, and a filelock that minds it",
)
def test_a_child_of_a_killed_writer_does_not_keep_the_lock(tmp_path):
    forks = "child = os.fork()\nif not child:\n    time.sleep(100)\nPath(sys.argv[1], 'child').write_text(str(child))"
    with hold(tmp_path / "run", forks) as holder:
        holder.kill()
        holder.wait()
        child = int((tmp_path / "run" / "child").read_text())
        try:
            with sole_writer(tmp_path / "run", ignore):
                os.kill(child, 0)  # it is alive
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_name_that_is_no_writer_is_nobody(tmp_path):
    file = tmp_path / WRITER
    for text in ("", "[]", "{}", '{"pid": -1}', "[" * 100_000, json.dumps(asdict(replace(LockHolder.this(), pid=-1)))):
        file.write_text(text)
        assert LockHolder.read(file) is None
    with sole_writer(tmp_path, ignore):
        assert LockHolder.read(file) is not None


def without_locks(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    """As on a network file system whose server knows no locks."""
    fcntl = pytest.importorskip("fcntl")
    errno = __import__("errno")

    def flock(*_: object) -> None:
        raise OSError(getattr(errno, number), "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("number", ["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def test_where_there_are_no_locks_a_run_says_so_and_goes_on(number, tmp_path, monkeypatch):
    without_locks(monkeypatch, number)
    for _ in range(2):
        said: list[str] = []
        with sole_writer(tmp_path / "run", said.append):
            (tmp_path / "run" / "file").touch()
        assert len(said) == 1
        assert "locks do not work on the file system of" in said[0]
    assert [path.name for path in (tmp_path / "run").iterdir() if path.name != LOCK] == ["file"]


@pytest.mark.slow
def test_where_there_are_no_locks_a_writer_that_is_alive_is_noticed(tmp_path, monkeypatch):
    with hold(tmp_path / "run") as holder:
        without_locks(monkeypatch, "ENOLCK")
        with pytest.raises(RunInUse, match=rf"process {holder.pid} on .*If that process is gone, remove .*\.json"):
            WriterLock(tmp_path / "run").acquire()
        holder.kill()
        holder.wait()
        with sole_writer(tmp_path / "run", ignore):
            pass


@pytest.mark.parametrize("locks", [True, False])
def test_a_writer_on_another_machine_is_warned_of_where_it_saved_just_now(locks, tmp_path, monkeypatch):
    (tmp_path / LOCK).touch()
    (tmp_path / WRITER).write_text(json.dumps(asdict(replace(LockHolder.this(), host="elsewhere"))))
    if not locks:
        without_locks(monkeypatch, "ENOLCK")
        with pytest.raises(RunInUse, match="on elsewhere"):
            WriterLock(tmp_path).acquire()
        os.utime(tmp_path / WRITER, (0, time.time() - FRESH - 1))
    said: list[str] = []
    with sole_writer(tmp_path, said.append):
        pass
    assert len(said) == 1
    assert ("wrote to" in said[0] and "elsewhere" in said[0]) == locks


def test_a_lock_file_that_was_deleted_does_not_let_another_in(tmp_path):
    with hold(tmp_path / "run") as holder:
        (tmp_path / "run" / LOCK).unlink()
        with pytest.raises(RunInUse, match=f"process {holder.pid}"):
            WriterLock(tmp_path / "run").acquire()


def test_a_local_folder_is_on_no_network(tmp_path):
    assert network_file_system(tmp_path) is None


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(RunError, match=r"cannot write to the run's folder .*: a file stands where a folder is needed"):
        WriterLock(tmp_path / "results" / "run").acquire()


def meanwhile(results: Path, act: Callable[[], object]) -> Result:
    """Trains, and acts while it does."""

    def once(summary: Summary) -> None:
        if summary.step == 200:
            act()

    return train(results, callbacks=[once])


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"force": True}])
def test_no_other_training_touches_a_run_that_goes_on(how, tmp_path):
    def act() -> None:
        before = contents(tmp_path / "run")
        with pytest.raises(RunInUse, match="the run 'run' is in use"):
            train(tmp_path, **how)
        assert contents(tmp_path / "run") == before

    result = meanwhile(tmp_path, act)
    assert result.finished
    assert (result.folder / "Basic.onnx").is_file()
    assert not [*result.folder.rglob(".*")]


def test_commands_that_read_work_while_a_run_goes_on_and_export_does_not_write_over_it(tmp_path, capsys):
    def act() -> None:
        run = str(tmp_path / "run")
        assert main(["plot", run, "--out", str(tmp_path / "curves.png")]) == 0
        assert main(["config", f"{run}/configuration.yaml"]) == 0
        capsys.readouterr()
        assert main(["export", run]) == 1
        assert re.search(r"is in use: .*; --out=FILE\.onnx writes the model to another place", capsys.readouterr().err)
        assert not (tmp_path / "run" / "Basic.onnx").exists()
        assert main(["evaluate", run]) == 1
        err = capsys.readouterr().err
        assert re.search(r"has no model yet .*'palaestra export .*run --out=FILE\.onnx' writes one", err)
        assert main(["export", run, "--out", str(tmp_path / "Basic.onnx")]) == 0
        assert main(["evaluate", str(tmp_path / "Basic.onnx"), "--env=Basic", "--episodes=1"]) == 0

    assert meanwhile(tmp_path, act).finished
    assert main(["export", str(tmp_path / "run")]) == 0


def test_a_start_that_is_refused_leaves_a_finished_run_as_it_was(tmp_path):
    train(tmp_path)
    before = contents(tmp_path / "run")
    with pytest.raises(RunError, match="exists already"):
        train(tmp_path)
    assert contents(tmp_path / "run") == before


def check_pairs(folder: Path, pairs: int, seed: int) -> None:
    """Runs so many pairs of writers: each time one finishes as if it were alone, and the other is refused."""
    command = [sys.executable, str(HERE / "writers.py"), str(folder), str(pairs), str(seed)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == pairs, done.stderr
    for one in told:
        assert sorted(one["codes"]) == [0, 1], one
        assert re.search("is in use: process", "".join(one["said"])), one
        assert one["differs"] == [], one
        assert one["steps"] == [500, 1000, 1500], one
        assert one["hidden"] == [], one


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_of_two_writers_one_refuses_and_nothing_is_lost(tmp_path):
    check_pairs(tmp_path, 1, seed=1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_of_two_writers_at_a_hundred_random_offsets_one_refuses_and_nothing_is_lost(tmp_path):
    check_pairs(tmp_path, 100, seed=2)
