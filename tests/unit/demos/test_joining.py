from pathlib import Path

import pytest
from demo_files import HYBRID, episodes, record, write

from palaestra.core.errors import DemoError
from palaestra.datasets import read_demo
from palaestra.demos.joining import write_demo

ODD = [
    record(1, first=True, id=4),
    record(2, id=4),
    record(3, id=4, done=True),
    record(4, first=True, id=4),
    record(5, id=4),  # without an end, then another agent
    record(6, first=True, id=9),
    record(300, id=9),  # an action that is no number of -1 to 1
    record(8, id=9, done=True, truncated=True),
]


def test_a_file_alone_becomes_the_same_bytes(tmp_path: Path):
    source = write(tmp_path / "x.demo", ODD, HYBRID)
    assert write_demo([read_demo(source)], tmp_path / "y.demo").path.read_bytes() == source.read_bytes()


def test_files_are_joined_and_their_episodes_stay_apart(tmp_path: Path):
    demos = [read_demo(write(tmp_path / f"{i}.demo", episodes(2, open_last=True))) for i in range(2)]
    write_demo(demos, tmp_path / "both.demo")
    assert [len(one.pairs) for one in read_demo(tmp_path / "both.demo").episodes()] == [2, 2]
    other = write(tmp_path / "other.demo", episodes(2), key="Other?team=0")
    with pytest.raises(DemoError, match=r"is of the behavior 'Other\?team=0', and .* of 'Thing\?team=2'"):
        write_demo([*demos, read_demo(other)], tmp_path / "all.demo")


def test_a_source_that_is_damaged_leaves_the_old_file(tmp_path: Path):
    path = write(tmp_path / "x.demo", episodes(2))
    before = path.read_bytes()
    damaged = tmp_path / "damaged.demo"
    damaged.write_bytes(before)
    demo = read_demo(damaged)
    damaged.write_bytes(before[: len(before) // 2] + b"\xff" * 99)
    with pytest.raises(DemoError):
        write_demo([demo], path, force=True)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["damaged.demo", "x.demo"]
