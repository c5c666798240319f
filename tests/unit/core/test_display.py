import math

import pytest

from palaestra.core.display import (
    decimals_of,
    duration,
    escaped,
    escaped_lines,
    indented,
    readable,
    shortened,
    shown_path,
)
from palaestra.core.errors import ConfigError, EnvError, exception_summary


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("3DBall", "3DBall"),
        ("Größe 😀 'x'", "Größe 😀 'x'"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("a\u2028b\u202ec", r"a\u2028b\u202ec"),
    ],
)
def test_control_characters_of_a_name_are_escaped(text: str, shown: str):
    assert escaped(text) == shown


def test_only_indented_line_breaks_are_kept():
    assert escaped_lines("2 problems:\n  first\n\tsecond") == "2 problems:\n  first\n    second"
    assert escaped_lines("'a\n[INFO] b' is unknown") == r"'a\n[INFO] b' is unknown"
    assert escaped_lines(indented("its log:\n[INFO] b\n\n  c")) == "its log:\n  [INFO] b\n  \n  c"


def test_a_long_text_loses_its_middle():
    assert shortened("x" * 80) == "x" * 80
    assert shortened("a" * 500 + "b" * 500) == "a" * 40 + "..." + "b" * 20 + " (1,000 characters)"


def test_errors_hold_no_control_characters():
    assert str(EnvError("behavior 'a\x1b[2J\nb'")) == r"behavior 'a\x1b[2J\nb'"
    assert str(ConfigError("the key 'a\x07' is unknown", "x.yaml", 3)) == r"x.yaml:3: the key 'a\x07' is unknown"
    assert (
        str(EnvError("it broke off: " + exception_summary(ValueError("two\nlines"))))
        == "it broke off: ValueError: two\n  lines"
    )


def test_a_duration_is_never_0_seconds():
    times = (math.inf, 0.0002, 0.03456, 0.5, 12.34, 200, 20_000)
    shown = ["never", "under 1 ms", "0.035 s", "0.5 s", "12.3 s", "3.3 min", "5.6 h"]
    assert [duration(seconds) for seconds in times] == shown


def test_a_path_in_the_current_folder_is_shown_as_people_type_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = (tmp_path / "results" / "first", "results/first", tmp_path.parent, tmp_path)
    assert [shown_path(path) for path in paths] == ["results/first", "results/first", str(tmp_path.parent), "."]


def test_numbers_that_people_read_have_no_exponent_and_those_of_a_column_the_same_decimals():
    assert [readable(value) for value in (120_000.4, 1200.5, 98.734, 0.02512, 500.0)] == [
        "120,000",
        "1,200",
        "98.73",
        "0.02512",
        "500",
    ]
    scores = [475.0, 1.25, -98.73, float("nan")]
    assert [readable(value, decimals_of(scores)) for value in scores] == ["475.00", "1.25", "-98.73", "nan"]
    assert [decimals_of(values) for values in ([500, 475], [0.5, 9.35], [1234.5], [1e6, 0.5], [])] == [0, 3, 1, 0, 0]
