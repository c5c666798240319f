"""What an address of the page may open, and files that a person names there."""

from pathlib import Path

import pytest

pytest.importorskip("nicegui")

from palaestra.web.recorded.demo_files import FOLDER, demo_list, demo_path
from palaestra.web.site import Site


@pytest.mark.parametrize(
    "name",
    ["./evil.x86_64", "/bin/sh", "python:os:getcwd", "gymnasium:evil_module:Id-v0", "pettingzoo:os:getcwd", "editor"],
)
def test_an_address_cannot_name_a_program_or_a_module(tmp_path: Path, name: str):
    assert not Site(tmp_path).allows_env(name)
    assert Site(tmp_path, env=name).allows_env(name)  # named in the terminal


def test_an_address_may_name_what_is_built_in(tmp_path: Path):
    assert Site(tmp_path).allows_env("3DBall")
    assert Site(tmp_path).allows_env("")


def test_typed_brains_are_for_the_typed_environment_alone(tmp_path: Path):
    typed = ("A?team=0=player", "A?team=1=model:first")
    site = Site(tmp_path, env="Tennis", brains=typed)
    assert site.brains_for("Tennis") == typed
    assert site.brains_for("Basic") == ()


def test_typed_options_are_for_what_was_typed_alone(tmp_path: Path):
    assert Site(tmp_path, env="Match3", options={"greedy": False}).options_for("", "Match3") == {"greedy": False}
    assert Site(tmp_path, env="Match3", options={"greedy": False}).options_for("", "Basic") == {}
    assert Site(tmp_path, run="first", options={"greedy": False}).options_for("first", "") == {"greedy": False}
    assert Site(tmp_path, run="first", options={"greedy": False}).options_for("second", "") == {}


@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/passwd", "..", ".", "", "a/b", "...demo", "-rf", "\0", "C:\\x", "<b>x</b>"]
)
def test_a_typed_name_is_a_new_file_in_the_folder_of_demonstrations(tmp_path: Path, name: str):
    path = demo_path(tmp_path, name)
    assert path.resolve().parent == (tmp_path / FOLDER).resolve()
    assert path.suffix == ".demo"
    path.write_bytes(b"")
    assert demo_path(tmp_path, name) != path


def test_links_and_broken_files_do_not_hinder_the_list_of_demonstrations(tmp_path: Path):
    results = tmp_path / "results"
    (results / FOLDER).mkdir(parents=True)
    (results / FOLDER / "broken.demo").write_bytes(b"no demonstration")
    (results / FOLDER / "gone.demo").symlink_to(tmp_path / "nothing")
    (tmp_path / "secret.demo").write_bytes(b"secret")
    (results / FOLDER / "secret.demo").symlink_to(tmp_path / "secret.demo")
    (found,) = demo_list(results)
    assert found.path.name == "broken.demo"
    assert found.problem
