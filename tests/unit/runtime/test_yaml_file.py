from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings.yaml_file import dump, parse, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("5E5", 500000.0),
        ("1.0e-3", 0.001),
        ("-2e+2", -200.0),
        (".5e1", 5.0),
        ("3", 3),
        ("1_000", 1000),
        ("true", True),
        ("yes", True),
        ("~", None),
        ("", None),
        ("e3", "e3"),
        ("1e", "1e"),
        ("'1e3'", "1e3"),
        ("2020-01-01", "2020-01-01"),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: object):
    assert parse(text).tree == value
    assert type(parse(text).tree) is type(value)


def test_every_key_and_item_has_its_line():
    document = parse("a:\n  b: 1\n  c:\n  - x\n  - d: 2\n")
    assert document.lines == {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5, ("a", "c", 1, "d"): 5}


def test_keys_are_text():
    assert parse("1: a\ntrue: b\n").tree == {"1": "a", "true": "b"}


def test_anchors_and_merge_keys_work_and_may_be_overridden():
    assert parse("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n").tree == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 2},
    }


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "key 'a' is given twice .first in line 1"),
        ("a:\n\tb: 1\n", 2, "indent with spaces, not tabs"),
        ("a: [1,\nb: 2", 2, "column 5.*begun in line 1"),
        ("a: 1\n? [x]\n: 2\n", 2, "key must be text"),
        ("a: *nowhere\n", 1, "undefined alias"),
        ("a: !!python/object:os.system x\n", 1, "python/object"),
        ("a: 1\n---\nb: 2\n", 2, "another document"),
        ("a: &a\n  b: *a\n", None, "refers to itself"),
        ("a: \x01\n", None, "special characters"),
        ("[" * 5000, None, "nested too deeply"),
    ],
)
def test_what_is_not_yaml_is_an_error_at_its_line(text: str, line: int | None, what: str):
    with pytest.raises(ConfigError, match=f"^x.yaml:.*{what}") as caught:
        parse(text, Path("x.yaml"))
    assert caught.value.line == line


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path):
    with pytest.raises(ConfigError, match=f"no settings file is at {tmp_path}/none.yaml"):
        read(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read(tmp_path / "latin.yaml")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path):
    (tmp_path / "bom.yaml").write_bytes("a: 1\n".encode("utf-8-sig"))
    assert read(tmp_path / "bom.yaml").tree == {"a": 1}


def test_what_is_dumped_is_read_back():
    tree = {"text": ["1e3", "true", "é", "", "null", "2020-01-01", "a: b\nc"], "numbers": [1e-10, 3.0, -4], "none": None, "empty": {}}
    assert parse(dump(tree)).tree == tree
    assert list(parse(dump(tree)).tree) == list(tree)


def test_the_loader_of_others_is_left_as_it_was():
    assert yaml.safe_load("[1e3, 2020-01-01]") == ["1e3", date(2020, 1, 1)]


def test_a_key_given_twice_can_be_noted_instead_and_the_last_one_counts():
    repeats: list[tuple[str, int]] = []
    assert parse("a: 1\nb: 2\na: 3\n", repeats=repeats).tree == {"a": 3, "b": 2}
    assert repeats == [("a", 3)]


def test_json_is_read_with_its_tabs_and_its_lines(tmp_path: Path):
    (tmp_path / "x.json").write_text('{\n\t"a" : [1,\t2],\n\t"b": {"c":3e0}\n}\n')
    document = read(tmp_path / "x.json")
    assert document.tree == {"a": [1, 2], "b": {"c": 3.0}}
    assert document.lines["b", "c"] == 3
