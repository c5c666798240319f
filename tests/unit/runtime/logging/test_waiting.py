import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_runs import settings, write

import palaestra
from palaestra.cli.commands import LIBRARIES
from palaestra.cli.main import main
from palaestra.runtime.logging.waiting import FIRST, LONGEST, WaitingNotice

SLOW = """
import time
from tiny_envs import Bandit

def make():
    time.sleep(0.5)
    return Bandit(4, branches=(2,))
"""


def test_what_takes_long_is_told_ever_less_often(monkeypatch):
    assert FIRST < 2
    pauses: list[float] = []

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return len(pauses) > 7

    parts = SimpleNamespace(Event=Over, Thread=threading.Thread)
    monkeypatch.setattr("palaestra.runtime.logging.waiting.threading", parts)
    message: list[str] = []
    with WaitingNotice("opening it", message.append):
        pass
    assert pauses == [FIRST * factor for factor in (1, 2, 4, 8, 16)] + [LONGEST] * 3
    assert len(message) == 7
    assert re.fullmatch(r"opening it: \d+ s so far", message[0])


def test_what_is_short_is_not_told():
    message: list[str] = []
    with WaitingNotice("opening it", message.append):
        pass
    with pytest.raises(ValueError, match="wrong"), WaitingNotice("opening it", message.append):
        raise ValueError("wrong")
    assert message == []


def test_learn_and_evaluate_say_what_they_open(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("palaestra.runtime.logging.waiting.FIRST", 0.1)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    Path("slow_game.py").write_text(SLOW)
    palaestra.train(write("x.yaml", settings("Bandit", 100)), env="python:slow_game:make", run_id="ppo")
    assert "[INFO] opening python:slow_game:make: 0 s so far" in capsys.readouterr().out
    assert main(["evaluate", "ppo", "--episodes=2"]) == 0
    message = capsys.readouterr()
    assert "palaestra: opening python:slow_game:make: 0 s so far" in message.err
    assert "so far" not in message.out


def test_the_libraries_of_each_command_are_there():
    for module in LIBRARIES.values():
        assert __import__(module)
