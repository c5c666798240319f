import signal
from pathlib import Path

import pytest
from small_runs import settings, write
from written_runs import written

from palaestra.cli.main import main
from palaestra.runtime.seeds import seed_launch
from palaestra.runtime.seeds.seed_launch import own_arguments, state_of
from palaestra.runtime.seeds.seed_plan import SeedRun
from palaestra.runtime.seeds.side_by_side import run_all, threads_each
from palaestra.runtime.storage.run_folder import RunFolder


class Planned:
    """A process that ends with a code after being looked at some times, or with another once it has a signal."""

    def __init__(self, log, name, looks, code=0):
        self.log = log
        self.name = name
        self.left = looks
        self.code = code
        self.signals = []
        log.append(f"start {name}")

    def poll(self):
        self.left -= 1
        return self.code if self.left < 0 or self.signals else None

    def send_signal(self, number):
        self.signals.append(number)
        self.log.append(f"{signal.Signals(number).name} {self.name}")

    def close(self):
        self.log.append(f"close {self.name}")


def starts(log, *looks):
    return [lambda name=name, looks=looks: Planned(log, name, looks) for name, looks in enumerate(looks)]


def test_as_many_run_at_once_as_are_asked_for():
    log = []
    assert run_all(starts(log, 3, 1, 1), 2, lambda number, code, stopped: True) == ([0, 0, 0], None)
    assert log == ["start 0", "start 1", "close 1", "start 2", "close 0", "close 2"]


def test_no_more_are_started_once_one_says_so():
    log = []
    assert run_all(starts(log, 0, 0, 0), 1, lambda number, code, stopped: number == 0) == ([0, 0, None], None)


def test_a_signal_reaches_all_that_run_and_keeps_the_others_from_starting():
    log = []
    before = signal.getsignal(signal.SIGINT)

    def ended(number, code, stopped):
        assert stopped == (number == 1)
        if number == 0:
            signal.raise_signal(signal.SIGINT)
        return True

    assert run_all(starts(log, 0, 10**6, 0), 2, ended) == ([0, 0, None], signal.SIGINT)
    assert log == ["start 0", "start 1", "close 0", "SIGINT 1", "close 1"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("code", "stopped", "state"),
    [
        (0, False, ""),
        (0, True, "stopped"),
        (3, False, "no progress"),
        (1, True, "failed (exit status 1)"),
        (143, True, "interrupted"),
        (-2, True, "interrupted"),
        (-9, False, "killed by signal 9"),
    ],
)
def test_a_seeds_state_is_told_by_its_exit_code(code, stopped, state):
    assert state_of(code, stopped=stopped) == state


def test_cores_are_shared_out():
    assert threads_each(10**6) == 1
    assert threads_each(1) >= threads_each(2) >= 1


def test_a_seed_has_the_command_line_of_all_with_its_own_run_before_what_is_for_the_game(tmp_path):
    run = SeedRun(4, RunFolder(tmp_path, "x-seed-4"), False, Path("a.yaml"))
    words = own_arguments(["learn", "a.yaml", "--seeds", "5", "--env-args", "--seed", "9"], run)
    assert words[:5] == ["learn", "a.yaml", "--seeds", "5", "--one-seed"]
    assert words[5] == "--run-id=x-seed-4"
    assert "--set=env_settings.seed=4" in words[:-3]
    assert words[-3:] == ["--env-args", "--seed", "9"]
    sibling = SeedRun(4, RunFolder(tmp_path, "x-seed-4"), False, tmp_path / "x-seed-1" / "configuration.yaml")
    assert own_arguments(["learn", "--resume"], sibling)[1] == str(tmp_path / "x-seed-1" / "configuration.yaml")


def test_seeds_without_summaries_are_not_offered_for_a_comparison(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(seed_launch, "launch_seeds", lambda plan, arguments: ({1: "", 2: ""}, 0))
    words = ["learn", write("basic.yaml", settings("Basic")), "--env=Basic", "--run-id=x", "--seeds=2"]
    assert main(words) == 0
    assert "palaestra compare" not in capsys.readouterr().out
    for seed in (1, 2):
        written(tmp_path / "results" / f"x-seed-{seed}", [1.0, 2.0], seed=seed)
    assert main([*words, "--force"]) == 0
    assert "\n\nnext    palaestra compare 'x-seed-*'" in capsys.readouterr().out


@pytest.mark.slow
def test_seeds_are_trained_resumed_and_summed_up(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    file = write("basic.yaml", settings("Basic"))
    assert main(["learn", file, "--env=Basic", "--run-id=x", "--seeds=2", "--side-by-side=2"]) == 0
    out = capfd.readouterr().out
    assert "seed 1 | [INFO]" in out
    assert "x-seed-2" in out
    assert "95 % interval" in out
    assert out.count("[INFO] Finished: ") == 2
    assert (out.count("  next "), out.count("next    palaestra compare 'x-seed-*'")) == (0, 1)  # one end for all
    assert main(["learn", "--run-id=x", "--seeds=3", "--resume"]) == 0
    out = capfd.readouterr().out
    assert out.count("is finished: it has reached its max_steps") == 2
    assert "Starting 'x-seed-3' from step 0" in out
    assert main(["learn", file, "--env=nothing-such", "--run-id=y", "--seeds=3"]) == 1
    out, error = capfd.readouterr()
    assert error.count("palaestra: error:") == 1
    assert "reward" not in out  # no table of runs that do not exist
