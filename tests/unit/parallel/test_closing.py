"""The end of a run, at which everything may fail."""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
import pytest
from small_runs import settings, write

import palaestra
from palaestra.cli.main import end_in_time, main
from palaestra.core.errors import RunError
from palaestra.parallel import closing
from palaestra.parallel.closing import close_safely
from palaestra.runtime.control.os_signals import Breaker, Stopper, numbers
from palaestra.runtime.run import ending
from palaestra.runtime.run.features import saving
from palaestra.runtime.storage.checkpoints import Checkpoints

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")


def never() -> None:
    while True:
        time.sleep(60)


def breaks() -> NoReturn:
    raise ValueError("no window")


def interrupted() -> NoReturn:
    raise KeyboardInterrupt


def leaves() -> NoReturn:
    sys.exit(7)


class Stubborn(gymnasium.Env[Any, Any]):
    """Episodes of ten steps; closing does what the test wants."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    closes: Callable[[], object] = staticmethod(breaks)
    steps = 0

    def reset(self, **_: Any) -> Any:
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 10, False, {}

    def close(self) -> None:
        self.closes()


@pytest.mark.parametrize(
    ("close", "warning"),
    [
        (breaks, "the environment could not be closed: .*ValueError: no window .*test_closing.py, line"),
        (interrupted, "the environment was interrupted while it was closed"),
        (leaves, "the environment could not be closed: .*SystemExit: 7"),
        pytest.param(never, "the environment did not close within 0.05 s, and is left as it is", marks=POSIX),
    ],
)
def test_a_finished_run_stays_finished_whatever_closing_its_environment_does(
    close: Callable[[], object],
    warning: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(Stubborn, "closes", staticmethod(close))
    monkeypatch.setattr(closing, "PATIENCE", 0.05)
    result = palaestra.train(settings("Stubborn"), env=Stubborn, num_areas=1, results_dir=str(tmp_path), run_id="end")
    assert result.finished
    assert result.models["Stubborn"].is_file()
    assert re.search(warning, capsys.readouterr().out)


@POSIX
def test_what_cannot_be_interrupted_ends_the_process_if_that_is_the_runs_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(closing, "PAUSE", 0.01)
    over = threading.Event()
    warnings = list[str]()

    def stubborn() -> None:
        while not over.is_set():
            try:
                over.wait(5)
            except BaseException:
                continue

    close_safely(stubborn, "it", warnings.append, patience=0.01, leave=over.set)
    assert warnings[0] == "it does not close and cannot be interrupted: the process ends without waiting for it"


def test_the_files_of_a_run_are_written_whatever_fails_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A checkpoint that cannot be written is an error, once everything else is done."""
    save = Checkpoints.save
    steps = list[int]()

    def full(self: Checkpoints, step: int, state: dict[str, Any]) -> object:
        steps.append(step)
        if step:
            raise RunError("no space left")
        return save(self, step, state)

    monkeypatch.setattr(Checkpoints, "save", full)
    monkeypatch.setattr(saving, "_add_times", breaks_with)
    with pytest.raises(RunError, match="no space left"):
        palaestra.train(settings("Basic"), env="Basic", results_dir=str(tmp_path), run_id="full")
    assert steps[-1] >= 300
    assert (tmp_path / "full" / "Basic.onnx").is_file()
    assert "writing timers.json failed at the end of the run: ValueError: no window" in capsys.readouterr().out


def breaks_with(*_: object) -> NoReturn:
    breaks()


def test_a_report_that_fails_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(ending, "_report", breaks_with)
    assert palaestra.train(settings("Basic"), env="Basic", results_dir=str(tmp_path), run_id="reported").finished
    assert "the report failed at the end of the run: ValueError: no window" in capsys.readouterr().out


def test_a_final_model_that_cannot_be_written_is_the_commands_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("palaestra.onnx_export.onnx.export", breaks_with)
    file = write(str(tmp_path / "settings.yaml"), settings("Basic"))
    assert main(["learn", file, "--env=Basic", f"--results-dir={tmp_path}", "--run-id=bare"]) == 1
    assert list((tmp_path / "bare" / "checkpoints").iterdir())


class Ended:
    """A run whose processes are ended."""

    inference, abandoned = False, False

    def stop(self) -> NoReturn:
        raise AssertionError("it has ended")

    def wait(self) -> str:
        return ""

    def abandon(self) -> None:
        self.abandoned = True


def test_signals_while_a_run_closes_do_not_cost_its_exit_status(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """As of a job system that sends SIGTERM to a run that is just ending: it is noted, and Ctrl-C ends the process as
    the run ended.
    """
    left = list[int]()
    monkeypatch.setattr("palaestra.runtime.control.os_signals.os._exit", left.append)
    monkeypatch.setattr("palaestra.runtime.control.os_signals.leave", lambda number, quietly: left.append(128 + number))
    run = Ended()
    hear = Stopper(run)
    hear.outer = Breaker(process=True)
    hear.status = 3
    hear(signal.SIGTERM, None)
    said = "\npalaestra: the run has ended and closes what it has open (Ctrl-C ends at once)\n"
    assert capfd.readouterr().err == said
    hear(signal.SIGTERM, None)
    assert not left
    monkeypatch.setattr("palaestra.runtime.control.os_signals.SAME_WISH", 0.0)
    hear(signal.SIGINT, None)
    assert left[0] == 3
    assert run.abandoned


@POSIX
def test_an_environment_closes_while_the_run_still_hears_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def told_to_end() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        closed.append(True)

    closed = list[bool]()
    signals = list[int]()
    monkeypatch.setattr(Stubborn, "closes", staticmethod(told_to_end))
    monkeypatch.setattr("palaestra.api.train.pass_on", signals.append)
    result = palaestra.train(
        settings("Stubborn"), env=Stubborn, num_areas=1, results_dir=str(tmp_path), run_id="end", quiet=True
    )
    assert result.finished
    assert closed == [True]
    assert signals == [signal.SIGTERM]


@POSIX
def test_a_process_ends_with_its_status_whatever_comes_after_its_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """A signal, and threads and exit hooks of other code that do not end."""
    left = list[int]()
    over = threading.Event()
    before = {number: signal.getsignal(number) for number in numbers()}

    def end(status: int) -> None:
        left.append(status)
        over.set()

    monkeypatch.setattr("palaestra.cli.main.os._exit", end)
    try:
        end_in_time(3, patience=1e6)
        os.kill(os.getpid(), signal.SIGTERM)
        assert left == [3]
        over.clear()
        other = threading.Thread(target=over.wait, args=(20,), name="of a simulator")
        other.start()
        end_in_time(0, patience=0.01)
        other.join()
        assert left == [3, 0]
        assert (
            "threads of other code (of a simulator) do not end: the process ends without them" in capfd.readouterr().err
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(
    "words",
    [["evaluate", "{run}", "--episodes=2"], ["run", "{env}", "--brain=random", "--episodes=2"], ["doctor", "{env}"]],
)
def test_commands_that_play_give_their_results_whatever_closing_does(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    env = "python:test_closing:Stubborn"
    monkeypatch.setattr(Stubborn, "closes", staticmethod(lambda: None))
    if "{run}" in words:
        palaestra.train(settings("Stubborn"), env=env, num_areas=1, results_dir=str(tmp_path), run_id="end", quiet=True)
    monkeypatch.setattr(Stubborn, "closes", staticmethod(breaks))
    given = [word.format(run=tmp_path / "end", env=env) for word in words]
    assert main(given) == 0
    printed = capsys.readouterr()
    assert "the environment could not be closed: " in printed.out + printed.err
