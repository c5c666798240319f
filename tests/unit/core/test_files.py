import errno
import os
from pathlib import Path

import pytest

from palaestra.core.files import explain, file_name, near_files, write_whole


@pytest.mark.parametrize("name", ["3DBall", "My Behavior", "Wall-Jump_2.0", "日本", "a(b)"])
def test_a_name_that_any_system_takes_is_its_own_file_name(name: str):
    assert file_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../up", "a/b", "a\\b", "C:", "NUL", "com1.txt", "tail ", "tail.", "a\nb", "x" * 300, "字" * 100],
)
def test_any_other_gets_a_likeness_that_is_one_safe_part_of_a_path(name: str):
    safe = file_name(name)
    assert safe != name
    assert not set(safe) & set('<>:"/\\|?*\n')
    assert safe.strip(" .") == safe
    assert len(safe) <= 100


def test_files_near_a_missing_one_have_its_kind_of_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("results/first").mkdir(parents=True)
    for name in ("Ball.onnx", "Ball.txt", "results/first/Ball3.onnx", "other.yaml"):
        Path(name).touch()
    meant = "; did you mean 'Ball.onnx' or 'results/first/Ball3.onnx'?"
    assert near_files(Path("ball.nn"), [".onnx"]) == meant
    assert near_files(Path("gone/Bal.onnx"), [".onnx"]) == meant
    assert near_files(Path("othe"), [".yaml"]) == "; did you mean 'other.yaml'?"
    assert near_files(Path("x.onnx"), [".onnx"]) == ""


def test_likenesses_differ_where_names_do():
    assert len({file_name(name) for name in ("a/b", "a\\b", "a?b", "a_b")}) == 4


def test_a_file_is_replaced_in_one_move_and_nothing_stays_beside_it(tmp_path: Path):
    file = tmp_path / "a.json"
    write_whole(file, b"old")
    write_whole(file, b"new")
    assert file.read_bytes() == b"new"
    assert [*tmp_path.iterdir()] == [file]


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "a.json"
    write_whole(file, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "no permission"),
        (errno.EIO, "in the words of the system"),
    ],
)
def test_a_reason_is_told_in_words(number: int, message: str):
    assert message in explain(OSError(number, "in the words of the system"))
