"""Every command that starts a Unity game passes on the same flags."""

import json
import shlex
import struct
from pathlib import Path

import pytest
import torch
from unity_games import make_build

from palaestra.cli.main import main
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import read_demo
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.onnx_export.onnx import export

pytestmark = pytest.mark.usefixtures("patient_games")

GRAPHICS = ["--no-graphics", "--width=96", "--height=97", "--quality-level=1"]
FLAGS = [*GRAPHICS, "--time-scale=7", "--target-frame-rate=30", "--timeout-wait=30"]
COMMANDS = {
    "record": ["record", "--demo", "--env=BUILD", "--brain=random", "--episodes=2", "--demo-out=OUT"],
    "record a model": ["record", "MODEL", "--demo", "--env=BUILD", "--episodes=2", "--demo-out=OUT"],
    "evaluate": ["evaluate", "MODEL", "--env=BUILD", "--episodes=2"],
    "run": ["run", "BUILD", "--brain=random", "--episodes=2"],
    "doctor": ["doctor", "BUILD", "--ticks=30"],
    "envs": ["envs", "BUILD"],
}


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A game that writes down its command line (typed) and what it received (notes)."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    game = make_build(tmp_path, "Ball", name="Real.x86_64", notes=tmp_path / "notes")
    noting = tmp_path / "Game.x86_64"
    noting.write_text(
        f'#!/bin/sh\necho "$@" > {shlex.quote(str(tmp_path / "typed"))}\nexec {shlex.quote(str(game))} "$@"\n'
    )
    noting.chmod(0o755)
    torch.manual_seed(0)
    spec = BehaviorSpec((ObsSpec("number", (1,)),), ActionSpec(1))
    export(ActorCritic(spec, NetworkSettings(hidden_units=4, num_layers=1)), spec, tmp_path / "Ball.onnx")
    return noting


def words(command: str, build: Path) -> list[str]:
    here = {"BUILD": build, "OUT": build.parent / "demos", "MODEL": build.parent / "Ball.onnx"}
    arguments = COMMANDS[command]
    for name, path in here.items():
        arguments = [word.replace(name, str(path)) for word in arguments]
    return arguments


@pytest.mark.few(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_flags_about_unity_games_reach_the_game(command: str, build: Path):
    assert main([*words(command, build), *FLAGS, "--env-args", "--level", "3"]) == 0
    typed = (build.parent / "typed").read_text().split()
    assert {"-batchmode", "-nographics"} <= set(typed)
    assert typed[-2:] == ["--level", "3"]
    (end,) = (build.parent / "notes").glob("*.end.json")
    received = json.loads(end.read_text())["side_channel"]
    for value in (struct.pack("<if", 2, 7.0), struct.pack("<iii", 0, 96, 97), struct.pack("<ii", 1, 1)):
        assert value.hex() in received


@pytest.mark.parametrize("command", ["record", "doctor"])
def test_what_follows_env_args_is_the_builds_even_where_it_looks_like_a_flag_of_ours(command: str, build: Path):
    theirs = ["--n", "3", "--height=20", "--help", "--env-args", "x", "--no"]
    assert main([*words(command, build), "--no-graphics", "--env-args", *theirs]) == 0
    assert (build.parent / "typed").read_text().split()[-len(theirs) :] == theirs


@pytest.mark.slow
def test_a_recording_of_a_game_with_flags_is_whole(build: Path):
    assert main([*words("record", build), *FLAGS]) == 0
    (file,) = (build.parent / "demos").glob("*.demo")
    assert read_demo(file).meta.episodes == 2 + 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["record", "--demo", "--env=Basic", "--brain=random", "--no-graphics"],
        ["run", "Basic", "--brain=random", "--quality-level=3"],
        ["envs", "Basic", "--env-args", "--level"],
        ["envs", "--no-graphics"],
    ],
)
def test_flags_about_unity_games_are_refused_for_what_is_none(arguments: list[str], terminal):
    assert " is only for Unity games, and " in terminal.fails(*arguments)


@pytest.mark.parametrize("flag", ["--height=0", "--time-scale=-1", "--num-envs=0", "--timeout-wait=0"])
def test_a_value_that_no_game_could_have_is_refused_by_the_flags_name(flag, build, terminal):
    message = terminal.fails(*words("record", build), flag).replace("-", "_")
    assert flag.partition("=")[0].strip("-").replace("-", "_") in message
    assert not (build.parent / "typed").exists()


@pytest.mark.slow
def test_the_width_of_a_recording_is_that_of_the_game_with_a_demonstration_and_of_the_picture_without(build, terminal):
    assert "--width is 8; expected 32 to 4096" in terminal.fails("record first --width=8")
    terminal(f"record --demo --env=Basic --brain=random --width=480 --episodes=1 --demo-out={build.parent}")
