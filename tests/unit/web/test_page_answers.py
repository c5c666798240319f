"""Pages that answer before they have read any file, runs that are just starting, and the token that stays."""

import inspect
import math
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nicegui")

from palaestra.runtime.monitor.run_list import with_models
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.web.access import KEY, user_token
from palaestra.web.layout import within
from palaestra.web.page_socket import listen
from palaestra.web.people.invitation import Invitation
from palaestra.web.recorded.demo_files import DemoFacts, training_settings
from palaestra.web.scene.stream import SceneStreams
from palaestra.web.serving import add_pages
from palaestra.web.site import Site
from palaestra.web.starting import started_runs
from palaestra.web.starting.started_runs import FOLDER, start_run, started_run


def test_the_token_is_the_same_after_the_command_was_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    first = listen()
    again = listen()
    public = listen("0.0.0.0")
    for each in (first, again, public):
        each.socket.close()
    assert first.token == again.token == user_token()
    assert len(first.token) >= 32
    assert public.token != first.token  # what went over a network ends with the command
    assert f"token={first.token}" in first.address()
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "palaestra" / KEY).stat().st_mode) == 0o600


def test_no_page_waits_for_files_before_it_is_sent(tmp_path: Path):
    """NiceGUI answers 500 for a page whose builder waits for longer than three seconds."""
    from nicegui import Client

    add_pages(Site(tmp_path), SceneStreams(), lambda path: Invitation(path, True))
    builders = {at: make for make, at in Client.page_routes.items() if make.__module__.startswith("palaestra.")}
    assert {"/", "/run", "/new", "/watch", "/play", "/demos"} <= set(builders)
    assert [path for path, builder in builders.items() if inspect.iscoroutinefunction(builder)] == []


def started(results: Path, code: str) -> None:
    """Starts a process as `start_run` does."""
    log = results / FOLDER / "a-b.log"
    log.parent.mkdir()
    with log.open("wb") as output:
        started_runs._processes[log] = subprocess.Popen(
            [sys.executable, "-Sc", code], stdin=subprocess.PIPE, stdout=output
        )


def test_a_run_that_is_starting_is_known_and_one_that_died_shows_what_it_printed(tmp_path: Path):
    started(tmp_path, "input(); print('no such thing')")
    found = started_run(tmp_path, "a/b")
    assert not found.ended
    process = started_runs._processes.pop(tmp_path / FOLDER / "a-b.log")
    process.communicate(b"\n")
    started_runs._processes[tmp_path / FOLDER / "a-b.log"] = process
    found = started_run(tmp_path, "a/b")
    assert found.ended
    assert "no such thing" in found.log


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_run_that_is_started_writes_its_log_through_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(started_runs, "own_python", lambda *words: [sys.executable, "-Sc", "print('began')"])
    log = tmp_path / FOLDER / "first.log"
    log.parent.mkdir()
    (tmp_path / "precious").write_text("mine")
    log.symlink_to(tmp_path / "precious")
    start_run(tmp_path, "first", {})
    started_runs._processes.pop(log).wait()
    assert (tmp_path / "precious").read_text() == "mine"
    assert log.read_text().strip() == "began"


@pytest.mark.parametrize("name", ["unknown", "../secret", "\0", "x" * 5000])
def test_other_names_are_no_starting_runs(tmp_path: Path, name: str):
    (tmp_path / "secret.log").touch()
    assert started_run(tmp_path / "results", name) is None


RUNS = {
    "metrics": ({}, "only metrics"),
    "fresh": ({"configuration.yaml": "behaviors: {Basic: {trainer_type: ppo}}"}, "no model yet .* and no checkpoint"),
    "gone": (
        {"configuration.yaml": "env_settings: {env_path: ./Gone.x86_64}\nbehaviors: {A: {}}", "A.onnx": ""},
        r"Gone\.x86_64|run code",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_cannot_be_watched_says_why(tmp_path: Path, name: str):
    files, why = RUNS[name]
    (tmp_path / name).mkdir()
    for file, text in files.items():
        (tmp_path / name / file).write_text(text)
    found = PlaybackSource(tmp_path, run=name).obstacle()
    assert found is not None
    assert re.search(why, found)


def test_a_run_with_a_model_of_a_built_in_environment_may_be_watched(tmp_path: Path):
    run = tmp_path / "first"
    (run / "Basic").mkdir(parents=True)
    (run / "configuration.yaml").write_text("env_settings: {env_path: Basic}\nbehaviors: {Basic: {trainer_type: ppo}}")
    (run / "Basic.onnx").touch()
    assert PlaybackSource(tmp_path, run="first").obstacle() is None
    assert with_models(tmp_path, ["first", "second"]) == ["first"]


NO_NUMBERS = [(sent, None) for sent in (None, "7", [1], {"a": 1}, True, math.nan)]


@pytest.mark.parametrize(("sent", "taken"), [*NO_NUMBERS, (1, 1.0), (1e308, 2.0), (-math.inf, 0.0), (10**400, 2.0)])
def test_a_slider_takes_numbers_of_its_range_only(sent: object, taken: float | None):
    assert within(sent, 0.0, 2.0) == taken


@pytest.mark.parametrize(
    ("env", "recorded", "learned"),
    [
        ("Basic", "BasicLearning", "Basic"),
        ("3DBall", "3DBall", "3DBall"),
        ("WallJump", "SmallWallJump", "SmallWallJump"),
        ("StrikersVsGoalie", "Goalie", "Goalie"),
        ("python:mine:Game", "Mine", "Mine"),
    ],
)
@pytest.mark.parametrize("method", ["bc", "gail"])
def test_a_run_learns_the_environments_behavior_whatever_its_demonstration_calls_it(env, recorded, learned, method):
    settings = training_settings([DemoFacts(Path("one.demo"), recorded, 10, 70, 0.9)], env, method, 10_000)
    assert list(settings["behaviors"]) == [learned]
