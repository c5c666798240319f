import tracemalloc
from datetime import date
from pathlib import Path

import numpy as np
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
def test_scalars_are_what_they_look_like(text, value):
    assert parse(text).tree == value
    assert type(parse(text).tree) is type(value)


def test_every_key_and_item_has_its_line():
    document = parse("a:\n  b: 1\n  c:\n  - x\n  - d: 2\n")
    lines = {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5, ("a", "c", 1, "d"): 5}
    assert document.lines == lines


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
        ("a: &a\n  b: *a\n", 2, "refers to itself"),
        ("a: \x01\n", 1, "special characters"),
        ("[" * 5000, 1, "nested too deeply"),
        ("a:\n  b: " + "[" * 3000 + "]" * 3000, 2, "nested too deeply"),
        ("a: 1\nb: " + "9" * 5000, 2, "the number has 5,000 characters; expected at most 400"),
        ("a: 0x" + "f" * 5000, 1, "the number has 5,002 characters"),
        ("a: 1" + ":59" * 3000, 1, "the number has 9,001 characters"),
        ("a: 0b_\n", 1, "'0b_' is no whole number"),
        ("a: !!int ''\n", 1, "'' is no whole number"),
        ("a: !!float ten\n", 1, "'ten' is no number"),
        ("a: !!bool maybe\n", 1, "'maybe' is no true or false"),
        ("a: !!binary aGVsbG8=\n", 1, "the tag !!binary has no meaning in settings"),
        ("a: !mine {b: 1}\n", 1, "the tag !mine has no meaning in settings"),
        ("a: !!set {b, c}\n", 1, "the tag !!set has no meaning in settings"),
        ('a: 1\nb: "x\\0y"\n', 2, "a text with a NUL character"),
        ('a: 1\n"x\\0y": 2\n', 2, "a text with a NUL character"),
        ('a: "\\ud800"\n', 1, "a text with half of a surrogate pair"),
        ("a: {<<: 3}\n", 1, r"a merge key \(<<\) takes a map or a list of maps"),
    ],
)
def test_what_is_not_yaml_is_an_error_at_its_line(text, line, what):
    with pytest.raises(ConfigError, match=f"^x.yaml:.*{what}") as caught:
        parse(text, Path("x.yaml"))
    assert caught.value.line == line


def bomb(levels: int, width: int) -> str:
    """Lists of `width` aliases to the list before, so that the last one stands for width**levels values."""
    lists = [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}' if i else 'x'] * width)}]\n" for i in range(levels)]
    return "".join(lists)


@pytest.mark.parametrize(
    "text",
    [
        bomb(9, 9),
        bomb(300, 1),  # as deep as it is long
        "m0: &m0 {a: 1, b: 2}\n"
        + "".join(f"m{i}: &m{i}\n  <<: [{', '.join([f'*m{i - 1}'] * 9)}]\n" for i in range(1, 12)),
        "[" + "1, " * 60_000 + "]",
        "".join(f"k{i}: 1\n" for i in range(30_000)),
    ],
    ids=["lists of aliases", "a chain of aliases", "merge keys", "a long list", "many keys"],
)
def test_a_file_that_stands_for_too_much_is_refused_before_it_is_built(text):
    tracemalloc.start()
    with pytest.raises(ConfigError, match=r"^x.yaml:\d+: (has more than 50,000 keys and values|is nested too deeply)"):
        parse(text, Path("x.yaml"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_aliases_within_reason_are_followed():
    assert parse(bomb(3, 3)).tree["l2"] == [[["x"] * 3] * 3] * 3


def test_a_map_with_a_merge_key_may_be_used_again():
    text = "a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: *b\nd: {<<: &d {<<: *a, x: 3}, y: 4}\ne: *d\n"
    tree = parse(text).tree
    assert tree["c"] == {"x": 2}
    assert tree["d"] == {"x": 3, "y": 4}
    assert tree["e"] == {"x": 3}


def test_of_several_merged_maps_the_first_counts_and_own_keys_before_all():
    text = "a: &a {rate: 1, size: 1}\nb: &b {rate: 2, size: 2, kind: 2}\nc: {size: 3, <<: [*a, *b]}\n"
    assert parse(text).tree["c"] == {"rate": 1, "size": 3, "kind": 2}


def test_plain_symbols_of_yaml_are_text_where_they_are_values():
    assert parse("a: =\nb: <<\n").tree == {"a": "=", "b": "<<"}


def test_large_files_read_as_small_ones_do():
    tree = {"text": ["1e3", "é", "2020-01-01", "😀"], "numbers": [1e-10, 3.0, -4, 1e21], "filler": "x" * 50_000}
    assert parse(dump(tree)).tree == tree
    assert parse("a: 1e3\nb: 2020-01-01\nc: 5E5\n# " + "x" * 50_000).tree == {
        "a": 1000.0,
        "b": "2020-01-01",
        "c": 500000.0,
    }


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a file without end")
def test_a_file_without_end_is_refused():
    with pytest.raises(ConfigError, match=r"^/dev/zero: is larger than 2 MB"):
        read(Path("/dev/zero"))


def test_a_path_that_no_file_can_have_is_refused():
    with pytest.raises(ConfigError, match=r"no file can be named 'a\\x00b.yaml'"):
        read(Path("a\0b.yaml"))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=f"there is no settings file {tmp_path}/none.yaml"):
        read(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read(tmp_path / "latin.yaml")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    (tmp_path / "bom.yaml").write_bytes("a: 1\n".encode("utf-8-sig"))
    assert read(tmp_path / "bom.yaml").tree == {"a": 1}


def test_what_is_dumped_is_read_back():
    texts = ["1e3", "true", "é", "", "null", "2020-01-01", "a: b\nc"]
    tree = {"text": texts, "numbers": [1e-10, 3.0, -4], "none": None, "empty": {}}
    assert parse(dump(tree)).tree == tree
    assert list(parse(dump(tree)).tree) == list(tree)
    given = {"mirror": Path("a") / "b.yaml", "rate": np.float64(0.5), "strength": np.float32(0.5), "steps": np.int64(3)}
    assert parse(dump(given)).tree == {"mirror": str(Path("a", "b.yaml")), "rate": 0.5, "strength": 0.5, "steps": 3}


def test_the_loader_of_others_is_left_as_it_was():
    assert yaml.safe_load("[1e3, 2020-01-01]") == ["1e3", date(2020, 1, 1)]


def test_a_key_given_twice_can_be_noted_instead_and_the_last_one_counts():
    repeats: list[tuple[str, int]] = []
    assert parse("a: 1\nb: 2\na: 3\n", repeats=repeats).tree == {"a": 3, "b": 2}
    assert repeats == [("a", 3)]


def test_json_is_read_with_its_tabs_and_its_lines(tmp_path):
    (tmp_path / "x.json").write_text('{\n\t"a" : [1,\t2],\n\t"b": {"c":3e0}\n}\n')
    document = read(tmp_path / "x.json")
    assert document.tree == {"a": [1, 2], "b": {"c": 3.0}}
    assert document.lines["b", "c"] == 3
