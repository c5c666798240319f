"""The original's UnityEnvironment and ours, with the same random actions in the same game, report the same.

Needs PALAESTRA_ORIGINAL: the folder of a virtual environment in which mlagents_envs 1.1.0 is installed.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import sdk_games
from unity_games import make_build
from unity_play import free_port

DRIVE = Path(__file__).with_name("drive_unity_api.py")
EXAMPLES = Path(__file__).parents[2] / "examples"
PEER = os.environ.get("PALAESTRA_ORIGINAL", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PEER, reason="PALAESTRA_ORIGINAL names no environment with the original"),
]


def sdk_build(folder: Path, *game: str) -> Path:
    """A game in Python as a process of its own."""
    build = folder / "Sdk.x86_64"
    build.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", "palaestra.sdk", *game])} "$@"\n')
    build.chmod(0o755)
    return build


def played(python: str, package: str, build: Path, ticks: int, file: Path, *flags: str) -> list[str]:
    """What that package reported, a line a tick; every 97th tick is a reset."""
    words = [
        python,
        str(DRIVE),
        package,
        str(build),
        str(ticks),
        str(file),
        "--port",
        str(free_port()),
        "--resets",
        "97",
        *flags,
    ]
    subprocess.run(words, check=True, timeout=900, capture_output=True, text=True)
    return file.read_text("utf-8").splitlines()


def compare(build: Path, ticks: int, folder: Path, *flags: str) -> None:
    ours = played(sys.executable, "palaestra.unity", build, ticks, folder / "ours.jsonl", *flags)
    theirs = played(str(Path(PEER, "bin", "python")), "mlagents_envs", build, ticks, folder / "theirs.jsonl", *flags)
    assert len(ours) == ticks
    different = [tick for tick, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    assert not different, f"{len(different)} ticks differ, first:\n{ours[different[0]]}\n{theirs[different[0]]}"


def test_ten_thousand_ticks_of_agents_that_do_all_they_may(tmp_path: Path):
    compare(make_build(tmp_path, "Crowd", messages=12_000, agents=16, seed=5), 10_000, tmp_path)


@pytest.mark.parametrize("game", ["sdk_roll.py", "sdk_tag.py"])
def test_ten_thousand_ticks_of_a_game_in_python(game: str, tmp_path: Path):
    compare(sdk_build(tmp_path, str(EXAMPLES / game)), 10_000, tmp_path, "--obey")


@pytest.mark.parametrize("kind", list(sdk_games.GAMES))
def test_a_thousand_ticks_of_every_kind_of_game_in_python(kind: str, tmp_path: Path):
    compare(sdk_build(tmp_path, f"{sdk_games.__file__}:any_kind", "--kind", kind), 1000, tmp_path, "--obey")
