"""Every environment of ours passes Gymnasium's and PettingZoo's own tests: built-ins, a game in Python, and games as
processes.
"""

import shlex
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from unity_client import Client
from unity_games import Ball, make_build
from unity_play import free_port

import palaestra.gymnasium  # noqa: F401 - registers its environments
from palaestra.core.errors import EnvError
from palaestra.interop.built_ins import built_in_names
from palaestra.pettingzoo import aec_env, parallel_env

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its tests import deprecated games
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # recommendations of both libraries' tests
TAG = "python:examples.sdk_tag:tag"


def pass_the_tests_of_pettingzoo(name: str, cycles: int = 60) -> None:
    parallel_api_test(parallel_env(name), num_cycles=cycles)
    api_test(aec_env(name), num_cycles=cycles)
    parallel_seed_test(lambda: parallel_env(name), num_cycles=20)
    seed_test(lambda: aec_env(name), num_cycles=20)


@pytest.mark.parametrize("name", [*built_in_names(), TAG])
def test_an_environment_in_this_process_passes_the_tests_of_pettingzoo(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    pass_the_tests_of_pettingzoo(name)
    if name != TAG:
        render_test(lambda render_mode=None: aec_env(name, render_mode=render_mode))


@pytest.mark.parametrize("name", built_in_names())
def test_a_built_in_with_one_agent_passes_the_check_of_gymnasium_and_others_name_what_to_use(name: str):
    if len(parallel_env(name).reset()[0]) > 1:
        with pytest.raises(EnvError, match=rf"palaestra\.pettingzoo\.parallel_env\('{name}'\)"):
            gymnasium.make(f"palaestra/{name}-v0")
    else:
        check_env(gymnasium.make(f"palaestra/{name}-v0", render_mode="rgb_array").unwrapped)


def unity_game(folder: Path) -> str:
    return str(make_build(folder, "Ball", agents=4))


def unity_game_with_coming_and_going(folder: Path) -> str:
    return str(make_build(folder, "Crowd"))


def python_game_as_a_process(folder: Path) -> str:
    build = folder / "tag.x86_64"
    build.write_text(
        f'#!/bin/sh\ncd {shlex.quote(str(ROOT))}\nexec {shlex.quote(sys.executable)} -m examples.sdk_tag "$@"\n'
    )
    build.chmod(0o755)
    return str(build)


@pytest.mark.parametrize("make", [unity_game, unity_game_with_coming_and_going, python_game_as_a_process])
def test_a_game_in_a_process_of_its_own_passes_the_tests_of_pettingzoo(make: Callable[[Path], str], tmp_path: Path):
    pass_the_tests_of_pettingzoo(make(tmp_path))


def test_a_unity_game_with_one_agent_passes_the_check_of_gymnasium(tmp_path: Path):
    check_env(gymnasium.make("palaestra/Game-v0", env=str(make_build(tmp_path, "Ball", agents=1))).unwrapped)


def test_the_editor_is_an_environment_once_play_is_pressed():
    port = free_port()
    game = Ball(agents=4)
    play = threading.Thread(target=lambda: game.run(Client(port, patience=60)), daemon=True)
    play.start()
    env = parallel_env("editor", editor_port=port)
    parallel_api_test(env, num_cycles=60)
    env.close()
    play.join(30)
    assert game.ended == "closed"


@pytest.mark.parametrize(
    "end",
    ["raise SystemError", "", "import signal; signal.raise_signal(signal.SIGINT)", "while True: env.step(actions())"],
)
def test_no_game_is_left_when_a_program_ends(end: str, tmp_path: Path):
    build = make_build(tmp_path, "Ball", notes=tmp_path / "notes")
    notes = tmp_path / "notes"
    code = f"""
from palaestra.pettingzoo import parallel_env
env = parallel_env({str(build)!r})
env.reset()
def actions():
    if not env.agents:
        env.reset()
    return {{agent: env.action_space(agent).sample() for agent in env.agents}}
print("ready", flush=True)
{end}
"""
    program: Any = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert program.stdout.readline() == "ready\n"
    if end.startswith("while"):
        program.send_signal(signal.SIGINT)
    program.wait(60)
    deadline = time.monotonic() + 20
    while len([*notes.glob("*.end.json")]) < 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len([*notes.glob("*.end.json")]) == 1
