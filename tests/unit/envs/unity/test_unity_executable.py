from pathlib import Path

import pytest

from palaestra.envs.unity.executable import explain_missing, find, looks_like_build

SYSTEMS = ["linux", "darwin", "win32"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lay(*names: str, mode: int = 0o755, content: str = "") -> None:
    for name in names:
        file = Path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(mode)


def found(name: str, platform: str) -> str | None:
    build = find(name, platform)
    return None if build is None else str(build.relative_to(Path.cwd()))  # absolute: no search path comes into play


@pytest.mark.parametrize(
    "typed", ["Game", "Game.x86_64", "Game.exe", "Game.app", "./Game", "  Game ", "../{here}/Game"]
)
@pytest.mark.parametrize(
    ("platform", "file"),
    [
        ("linux", "Game.x86_64"),
        ("linux", "Game.x86"),
        ("darwin", "Game.app/Contents/MacOS/Game"),
        ("win32", "Game.exe"),
    ],
)
def test_a_build_is_found_with_and_without_its_suffix(typed: str, platform: str, file: str):
    lay(file)
    assert found(typed.format(here=Path.cwd().name), platform) == file


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(Path.cwd() / "home"))
    lay("home/Game.x86_64")
    assert found("~/Game", "linux") == "home/Game.x86_64"


@pytest.mark.parametrize("platform", SYSTEMS)
def test_a_suffix_in_a_folder_name_is_left_alone(platform: str):
    lay("old.exe.builds/Game.x86_64", "old.exe.builds/Game.exe", "old.exe.builds/Game.app/Contents/MacOS/Game")
    build = found("old.exe.builds/Game", platform)
    assert build is not None
    assert build.startswith("old.exe.builds/Game.")


def test_the_64_bit_build_goes_first_unless_the_other_was_typed():
    lay("Game.x86_64", "Game.x86", "Game")
    files = ["Game.x86_64", "Game.x86_64", "Game.x86"]
    assert [found(name, "linux") for name in ("Game", "Game.x86_64", "Game.x86")] == files


def test_a_program_of_any_name_is_found_as_typed():
    lay("start.sh", "Server")
    lay("unmarked", content="#!/bin/sh\n", mode=0o644)
    assert [found(name, "linux") for name in ("start.sh", "Server", "unmarked")] == ["start.sh", "Server", "unmarked"]
    assert found("Server", "darwin") == "Server"


def test_a_file_that_is_no_program_is_not_a_build():
    lay("config.yaml", content="behaviors:", mode=0o644)
    assert find("config.yaml", "linux") is None
    assert "but none that can be started" in explain_missing("config.yaml", "linux")


def test_a_build_that_lacks_the_permission_is_found_all_the_same():
    lay("Game.x86_64", "Other.app/Contents/MacOS/Other", mode=0o644)
    assert found("Game", "linux") == "Game.x86_64"
    assert found("Other", "darwin") == "Other.app/Contents/MacOS/Other"


def test_a_bundle_whose_program_has_another_name_gives_its_first_program():
    lay("Game.app/Contents/MacOS/a.txt", mode=0o644)
    lay("Game.app/Contents/MacOS/Player", "Game.app/Contents/MacOS/Tool")
    assert found("Game.app", "darwin") == "Game.app/Contents/MacOS/Player"
    assert found("Game.app/Contents/MacOS/Tool", "darwin") == "Game.app/Contents/MacOS/Tool"


@pytest.mark.parametrize(
    ("platform", "file"),
    [
        ("linux", "folder/Game.x86_64"),
        ("linux", "folder/Game.x86"),
        ("linux", "folder/Game"),
        ("darwin", "folder/Game.app/Contents/MacOS/Game"),
        ("win32", "folder/Game.exe"),
    ],
)
@pytest.mark.parametrize("typed", ["folder", "folder/", "folder.exe"])
def test_a_folder_with_one_build_gives_it(platform: str, file: str, typed: str):
    lay(file, "folder/UnityCrashHandler64.exe", "folder/UnityPlayer.so", "folder/Game_Data/boot.config")
    assert found(typed, platform) == file


@pytest.mark.parametrize(("platform", "suffix"), [("linux", ".x86_64"), ("win32", ".exe")])
def test_among_several_builds_of_a_folder_the_one_with_data_or_the_name_of_the_folder_is_meant(
    platform: str, suffix: str
):
    lay(f"folder/Game{suffix}", f"folder/Tool{suffix}")
    assert find("folder", platform) is None
    message = explain_missing("folder", platform)
    assert "several, so name one" in message
    assert f"Game{suffix}" in message
    assert f"Tool{suffix}" in message
    lay(f"folder/folder{suffix}")
    assert found("folder", platform) == f"folder/folder{suffix}"
    lay("folder/Tool_Data/boot.config")
    assert found("folder", platform) == f"folder/Tool{suffix}"


@pytest.mark.parametrize("platform", SYSTEMS)
@pytest.mark.parametrize("typed", ["", "   ", "Game", "no/such/Game.exe", "/", "~nobody-here/Game", "a\0b", "x" * 5000])
def test_nothing_is_found_where_nothing_is_and_the_explanation_says_so(platform: str, typed: str):
    assert find(typed, platform) is None
    assert explain_missing(typed, platform)


def test_the_explanation_names_what_was_looked_for_and_the_nearest_name():
    lay("Gameplay.x86_64")
    message = explain_missing("Gameplya.x86_64", "linux")
    assert "(looked for Gameplya.x86_64, Gameplya.x86, Gameplya)" in message
    assert message.endswith("did you mean Gameplay.x86_64?")
    assert "there is no folder" in explain_missing("builds/Game", "linux")
    Path("builds").mkdir()
    assert "holds no build" in explain_missing("builds", "linux")


@pytest.mark.parametrize("typed", ["Game", "Game.{}", ""])
@pytest.mark.parametrize(
    ("here", "file", "suffix", "title"),
    [
        ("linux", "Game.exe", "exe", "Windows"),
        ("linux", "Game.app/Contents/MacOS/Game", "app", "macOS"),
        ("darwin", "Game.x86_64", "x86_64", "Linux"),
        ("darwin", "Game.exe", "exe", "Windows"),
        ("win32", "Game.x86_64", "x86_64", "Linux"),
        ("win32", "Game.app/Contents/MacOS/Game", "app", "macOS"),
    ],
)
def test_a_build_of_another_system_is_called_that(typed: str, here: str, file: str, suffix: str, title: str):
    lay(f"builds/{file}", mode=0o644)
    name = f"builds/{typed.format(suffix)}"
    assert find(name, here) is None
    message = explain_missing(name, here)
    assert f"Game.{suffix} is a {title} build" in message
    assert "build the game for" in message


@pytest.mark.parametrize(
    ("names", "looks"),
    [
        ("Game.exe Game.X86_64 Game.app builds/Game builds\\Game ./Game ~/Game C:/Game envs/a/Game-v1", True),
        ("3DBall CartPole-v1 ALE/Pong-v5 gymnasium:my_module:ALE/Pong-v5", False),
    ],
)
def test_what_can_only_be_a_file_looks_like_a_build(names: str, looks: bool):
    assert [name for name in names.split() if looks_like_build(name) is not looks] == []
