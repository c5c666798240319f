import os
import subprocess
from pathlib import Path

import pytest

from palaestra.cli.alias import install, remove
from palaestra.cli.main import main
from palaestra.core.errors import RunError


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the first in PATH."""
    folder = tmp_path / "my commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def theirs(folder: Path) -> Path:
    """Writes a command of ML-Agents."""
    folder.mkdir(exist_ok=True)
    file = folder / "mlagents-learn"
    file.write_text("#!/bin/sh\necho theirs\n")
    file.chmod(0o755)
    return file


@pytest.mark.skipif(os.name == "nt", reason="commands are scripts of another kind there")
def test_mlagents_learn_runs_learn_with_its_arguments_and_exit_status(commands: Path):
    assert main(["alias", "--dir", str(commands)]) == 0
    done = subprocess.run(["mlagents-learn", "--lesson=a b"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "palaestra learn: error: --lesson: expected a whole number, got 'a b'" in done.stderr


def test_a_command_of_ml_agents_is_not_replaced_unasked(commands: Path):
    file = theirs(commands)
    with pytest.raises(RunError, match="mlagents-learn exists and was not written by this command"):
        install(commands)
    assert [path.name for path in commands.iterdir()] == ["mlagents-learn"]
    assert "theirs" in file.read_text()


def test_a_command_that_path_finds_is_not_hidden_unasked(commands, tmp_path, monkeypatch):
    theirs(tmp_path / "theirs")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (commands, tmp_path / "theirs"))))
    with pytest.raises(RunError, match="--force installs ours anyway"):
        install(commands)
    assert not list(commands.iterdir())
    install(commands, force=True)
    assert len(list(commands.iterdir())) == 2


def test_what_was_set_aside_by_force_comes_back(commands: Path):
    file = theirs(commands)
    install(commands, force=True)
    install(commands, force=True)  # again: ours must not be set aside
    assert "theirs" not in file.read_text()
    assert remove(commands) == {file: True, commands / "mlagents-run-experiment": False}
    assert "theirs" in file.read_text()
    assert [path.name for path in commands.iterdir()] == ["mlagents-learn"]


def test_nothing_is_removed_but_our_own(commands: Path):
    theirs(commands)
    with pytest.raises(RunError, match="there is nothing to remove"):
        remove(commands)
    assert list(commands.iterdir())


def test_a_folder_outside_path_is_told(tmp_path: Path, terminal):
    assert "is not in PATH" in terminal("alias", "--dir", str(tmp_path / "new"))
    (tmp_path / "file").touch()
    assert "a file stands where a folder is needed; --dir names another folder" in terminal.fails(
        "alias", "--dir", str(tmp_path / "file")
    )
