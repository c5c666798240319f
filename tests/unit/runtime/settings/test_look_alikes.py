import pytest

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import load
from palaestra.runtime.settings.look_alikes import odd_character

SETTINGS = """behaviors:
  Ball:
    trainer_type: ppo
    hyperparameters:
      batch_size: 64
      buffer_size: 640
    max_steps: 500000
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "      batch_size",
            "\u00a0     batch_size",
            5,
            r"column 1 has the character U\+00A0 \(no-break space\); replace it with a space",
        ),
        ("batch_size: 64", "batch_size:\u00a064", 5, r"column 18 has the character U\+00A0"),
        ("      batch_size", "\u3000\u3000\u3000batch_size", 5, r"U\+3000 \(ideographic space\)"),
        (
            "batch_size:",
            "batch_size\uff1a",
            5,
            r"column 17 has the character U\+FF1A \(fullwidth colon\); write ':' instead",
        ),
        ("hyperparameters:", "hyperparameters\uff1a", 4, r"U\+FF1A"),
        (
            "batch_size: 64",
            "batch_size:\t64",
            5,
            r"column 18 has the character U\+0009 \(tab\); replace it with a space",
        ),
        ("batch_size: 64", "batch_size: 64\t", 5, r"U\+0009"),
        ("      batch_size", "    \tbatch_size", 5, "indent with spaces, not tabs"),
        (
            "batch_size",
            "\u200bbatch_size",
            5,
            r"hyperparameters.\u200bbatch_size: unknown key.* U\+200B \(zero width space\); remove it",
        ),
        ("batch_size", "\ufeffbatch_size", 5, r"U\+FEFF \(byte order mark\); remove it"),
        (
            "batch_size",
            "b\u0430tch_size",
            5,
            r"U\+0430 \(cyrillic small letter a\); write the Latin letter 'a' instead",
        ),
        ("ppo", "\u201cppo\u201d", 3, r"U\+201C \(left double quotation mark\); write the straight quote '\"' instead"),
        ("64", "6e\u22124", 5, r"U\+2212 \(minus sign\); write '-' instead"),
        ("batch_size: 64", "batch_size:64", 5, "a space is missing after the colon"),
        ("batch_size: 64", "batch_size = 64", 5, "expected 'key: value' with a colon, not '='"),
        ("behaviors:", "```yaml\nbehaviors:", 1, "marks code in Markdown"),
        ("    max_steps", "<<<<<<< HEAD\n    max_steps", 7, "'<<<<<<<' is a mark of an unfinished merge"),
        ("      buffer_size", "       buffer_size", 6, r"indented by 7 spaces, more than the line above \(6\)"),
        ("      buffer_size", "     buffer_size", 6, "indented by 5 spaces, .* expected 0 or 2 or 4 or 6"),
    ],
    ids=range(19),
)
def test_a_mistake_that_the_eye_does_not_see_is_named_with_its_line(tmp_path, old, new, line, message):
    (tmp_path / "x.yaml").write_text(SETTINGS.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"^.*x.yaml:{line}: .*{message}"):
        load(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    "data",
    [
        SETTINGS.replace("\n", "\r\n").encode(),
        SETTINGS.replace("\n", "\r").encode(),
        SETTINGS.encode("utf-8-sig"),
        SETTINGS.encode("utf-16"),
        SETTINGS.encode("utf-16-le"),
        SETTINGS.encode("utf-32"),
        (SETTINGS + "# später\n").encode("cp1252"),
    ],
    ids=["crlf", "cr", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252"],
)
def test_files_are_read_in_the_encodings_and_line_ends_of_any_system(tmp_path, data):
    (tmp_path / "x.yaml").write_bytes(data)
    assert load(tmp_path / "x.yaml").settings.behaviors["Ball"].hyperparameters.model_dump()["batch_size"] == 64


def test_an_invisible_character_in_a_behaviors_name_is_a_warning(tmp_path):
    (tmp_path / "x.yaml").write_text(SETTINGS.replace("Ball", "Ball\u200b"), encoding="utf-8")
    (told,) = load(tmp_path / "x.yaml").warnings
    assert "the behavior's name has the character U+200B (zero width space); remove it" in told


@pytest.mark.parametrize("text", ["3DBall", "Köln", "мяч", "球", "a-b_c.d", ""])
def test_ordinary_text_of_any_language_has_no_odd_character(text):
    assert not odd_character(text)
