import os
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.core.errors import EnvError
from palaestra.envs.unity import executable
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.process import needs_display
from palaestra.runtime.environments.make import is_game
from palaestra.sdk.__main__ import pack


@pytest.fixture
def game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my game.py"
    file.write_text("import sys\nprint(sys.executable, sys.argv[1:])\n")
    return file


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's script")
def test_a_launcher_runs_the_game_with_this_python(game: Path):
    launcher = pack(game)
    assert launcher.name == "my game.x86_64" if sys.platform == "linux" else launcher.exists()
    printed = subprocess.run([launcher, "--mlagents-port", "5 5"], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == f"{sys.executable} ['--mlagents-port', '5 5']"


def test_a_launcher_is_found_as_a_build(game: Path):
    assert executable.find("my game", "linux") is None
    assert executable.find("my game", "darwin") is None
    linux = pack(game, platform="linux")
    mac = pack(game, platform="darwin")
    assert executable.find("my game", "linux") == linux
    assert executable.find("my game", "darwin") == mac


def test_windows_has_no_launcher_for_the_original(game: Path):
    assert pack(game, platform="win32").read_text().startswith(f'@"{sys.executable}" "{game}" %*')
    with pytest.raises(EnvError, match="a script cannot be an"):
        pack(game, Path("Game.exe"), "win32")


def test_a_launcher_does_not_take_the_place_of_its_game(game: Path):
    with pytest.raises(EnvError, match="is the game itself"):
        pack(game, game)
    with pytest.raises(EnvError, match=r"there is no file missing\.py"):
        pack(Path("missing.py"))


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_a_python_file_is_a_game_without_being_marked_as_a_program(game: Path, platform: str):
    found = executable.find("my game.py", platform)
    assert found == game
    assert not os.access(game, os.X_OK)
    assert executable.command(found) == [sys.executable, str(game)]
    assert is_game("my game.py")
    assert not needs_display(UnityOptions(executable="my game.py"), {}, platform)


def test_a_python_file_that_is_not_there_is_named(game: Path):
    assert is_game("my_game.py")
    assert executable.explain_missing("my_game.py").endswith("did you mean my game.py?")
    assert "found no game 'my_game.py' (looked for " in executable.explain_missing("my_game.py")
