import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_runs import contents, differences, settings, state, write

from palaestra.runtime.control.os_signals import Stopper, stop_on_signals
from palaestra.runtime.storage.checkpoints import Checkpoints

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")


@dataclass
class Playing:
    stopped: bool = False
    inference: bool = False
    waits_for: str = ""

    def wait_message(self) -> str:
        return self.waits_for

    def stop(self) -> None:
        self.stopped = True

    def abandon(self) -> None:
        raise AssertionError("one signal only asks")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_the_run_to_stop_and_the_handlers_go_back(number, capfd):
    run = Playing()
    outside = signal.getsignal(number)
    before = signal.default_int_handler  # whatever the tests were started with: under nohup a SIGHUP is ignored
    signal.signal(number, before)
    try:
        with stop_on_signals(run):
            os.kill(os.getpid(), number)
            assert run.stopped
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, outside)
    again = "once more" if number == signal.SIGINT else "Ctrl-C"
    assert (
        capfd.readouterr().err
        == f"\npalaestra: stopping and saving what was learned ({again} ends at once, without saving)\n"
    )


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_only_ctrl_c_ends_the_process_before_it_has_saved(first, monkeypatch):
    """Job systems send SIGTERM again and again, `timeout` twice, systemd with SendSIGHUP two signals, and some also
    SIGINT at once.
    """
    left = list[int]()
    monkeypatch.setattr("palaestra.runtime.control.os_signals.leave", lambda number, quietly: left.append(number))
    now = [100.0]
    monkeypatch.setattr("palaestra.runtime.control.os_signals.time.monotonic", lambda: now[0])
    run = Playing()
    monkeypatch.setattr(run, "abandon", lambda: None)
    hear = Stopper(run)
    hear(first, None)
    assert run.stopped
    for _ in range(2):
        for number in (signal.SIGTERM, signal.SIGHUP):
            hear(number, None)
        now[0] += 0.4
    assert not left
    hear(signal.SIGINT, None)
    # twice does not wait; after another signal it may be of the same wish
    assert left == ([signal.SIGINT] if first == signal.SIGINT else [])
    now[0] += 0.4
    hear(signal.SIGINT, None)
    assert left[-1:] == [signal.SIGINT]


def test_a_signal_in_a_long_update_says_how_long_it_will_take(capfd):
    with stop_on_signals(Playing(waits_for="an update is under way, about 12 s left")):
        os.kill(os.getpid(), signal.SIGTERM)
    message = capfd.readouterr().err
    assert message == (
        "\npalaestra: stopping: an update is under way, about 12 s left; then what was learned is saved (Ctrl-C "
        "ends at once, without saving)\n"
    )


def test_a_closed_terminal_is_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals(run := Playing()):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not run.stopped
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_nothing_is_heard_and_nothing_breaks():
    heard = []

    def play() -> None:
        with stop_on_signals(Playing()):
            heard.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert heard == [before]


def learn(place: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "palaestra", "learn", f"--results-dir={place}", *more]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    """Until it says so."""
    assert process.stdout is not None
    assert any(words in line for line in process.stdout)


@pytest.fixture
def begun(tmp_path: Path) -> list[str]:
    """What begins the run 'first'."""
    file = write(str(tmp_path / "settings.yaml"), settings("Basic", 4000, summary_freq=1000))
    return [file, "--env=Basic", "--seed=3", "--num-areas=4"]


def test_an_interrupted_command_saves_ends_well_and_resumes_to_the_same_end(tmp_path, begun):
    whole = learn(tmp_path, *begun, "--run-id=whole")
    assert whole.communicate()[1] == ""
    process = learn(tmp_path, *begun, "--run-id=first")
    wait_for(process, "Step: 2000")
    process.send_signal(signal.SIGINT)
    message, complaint = process.communicate(timeout=180)
    assert process.returncode == 0, complaint
    assert "[INFO] Stopped at step " in message
    assert f"  next    palaestra learn --run-id=first --results-dir={tmp_path} --resume" in message
    assert complaint == "\npalaestra: stopping and saving what was learned (once more ends at once, without saving)\n"
    assert (tmp_path / "first" / "Basic.onnx").is_file()
    resumed = learn(tmp_path, "--run-id=first", "--resume")
    message, complaint = resumed.communicate(timeout=180)
    assert resumed.returncode == 0, complaint
    assert differences(state(tmp_path / "first"), state(tmp_path / "whole")) == []

    before = contents(tmp_path / "first")
    playing = learn(tmp_path, "--run-id=first", "--inference")
    wait_for(playing, "Not Training.")
    playing.send_signal(signal.SIGINT)
    message, complaint = playing.communicate(timeout=180)
    assert playing.returncode == 0, complaint
    assert complaint == "\npalaestra: stopping (once more ends at once)\n"
    assert contents(tmp_path / "first") == before


REPEATED = """
import os, signal
from palaestra.envs.builtin.basic.env import Basic

class Repeated(Basic):
    ticks = 0
    def step(self, actions):
        self.ticks += 1
        if self.ticks == 50:
            os.kill(os.getpid(), NUMBER)
            os.kill(os.getpid(), NUMBER)
        return super().step(actions)
    def state_dict(self):  # while it is saved
        if self.ticks >= 50:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().state_dict()
"""


def repeated(place: Path, begun: list[str], number: int) -> subprocess.Popen[str]:
    """Begins the run 'first', which sends itself a signal twice when it has trained for a while."""
    (place / "repeated.py").write_text(f"NUMBER = {number:d}\n{REPEATED}")
    return learn(place, *begun, "--env=python:repeated:Repeated", "--run-id=first")


@pytest.mark.slow
def test_sigterm_that_is_repeated_does_not_cost_the_save(tmp_path, begun, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = repeated(tmp_path, begun, signal.SIGTERM)
    message, complaint = process.communicate(timeout=180)
    assert process.returncode == 0, complaint
    assert "[INFO] Stopped at step " in message
    assert complaint == "\npalaestra: stopping and saving what was learned (Ctrl-C ends at once, without saving)\n"
    assert max(Checkpoints(tmp_path / "first" / "checkpoints", 1).steps()) == 200


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once_and_the_run_resumes(tmp_path, begun, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = repeated(tmp_path, begun, signal.SIGINT)
    process.communicate(timeout=180)
    assert process.returncode == 128 + signal.SIGINT
    resumed = learn(tmp_path, "--run-id=first", "--resume", "--env=Basic")
    assert "Resuming 'first' from step 0" in resumed.communicate(timeout=180)[0]
    assert resumed.returncode == 0


SLOW_TO_END = """
import os, signal, time
from palaestra.runtime.control.os_signals import break_on_signals, stop_on_signals

class Run:
    inference = False
    def wait_message(self): return ""
    def stop(self): pass
    def abandon(self): pass

with break_on_signals(process=True):
    with stop_on_signals(Run()):
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(2.0)  # the page beside it is closed
print("ended well")
"""


@pytest.mark.slow
def test_a_command_that_goes_on_after_its_run_has_answered_a_signal_is_not_ended_by_it():
    done = subprocess.run([sys.executable, "-c", SLOW_TO_END], capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout) == (0, "ended well\n"), done.stderr
