"""Finds mistakes in a YAML text that the eye does not see: look-alike characters, tabs, merge marks, indentation."""

from __future__ import annotations

import re
import unicodedata

_MEANT = {
    "\uff1a": "':'",
    "\ufe55": "':'",
    "\u2236": "':'",
    "\uff0c": "','",
    "\uff3b": "'['",
    "\uff3d": "']'",
    "\uff5b": "'{'",
    "\uff5d": "'}'",
    "\uff03": "'#'",
    "\u2212": "'-'",
    "\u2010": "'-'",
    "\u2011": "'-'",
    "\u2013": "'-'",
    "\u2014": "'-'",
    "\uff0d": "'-'",
    "\uff0e": "'.'",
    "\uff3f": "'_'",
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02", "the straight quote '\"'"),
    **dict.fromkeys("\u2018\u2019\u201a\u201b\uff07", 'the straight quote "\'"'),
}
"""Characters that look like others, and the characters that are meant."""
_NAMES = {"\ufeff": "byte order mark", "\t": "tab"}
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|(?:^|\s)#.*")
_MERGE = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?:[ \t].*)?$", re.MULTILINE)
_GLUED = re.compile(r"^\s*(?:- +)?[\w./-]+[:=][^\s:=/\\]")
_EQUALS = re.compile(r"^\s*(?:- +)?[\w.-]+\s*=")


def odd_character(text: str) -> str:
    """Describes the first character that is invisible, looks like a space, or resembles one of YAML's special
    characters; '' if there is none.

    A letter of another alphabet counts if the rest of its word is ASCII.
    """
    for char in text:
        if char != " " and (
            char == "\t" or (not char.isascii() and unicodedata.category(char) in ("Zs", "Cf", "Zl", "Zp"))
        ):
            return f"{_called(char)}; {'replace it with a space' if _is_space(char) else 'remove it'}"
        if char in _MEANT:
            return f"{_called(char)}; write {_MEANT[char]} instead"
    for word in re.findall(r"\w+", text):
        strange = [char for char in word if not char.isascii()]
        if strange and len(strange) * 3 <= len(word) and (like := _letter(strange[0])):
            return f"{_called(strange[0])}; write {like} instead"
    return ""


def syntax_hint(text: str, first: int, last: int) -> tuple[str, int | None]:
    """Returns the most likely mistake in the lines `first` to `last`, and its line (both counted from 1).

    Returns '' and None if nothing is found.
    """
    if mark := _MERGE.search(text):
        line = text.count("\n", 0, mark.start()) + 1
        return (
            f"'{mark[0][:7]}' is a mark of an unfinished merge; choose one of the two versions and remove the marks",
            line,
        )
    lines = text.splitlines()
    for line in [last, *range(max(1, first - 1), last)]:
        if 1 <= line <= len(lines) and (hint := _line_hint(lines[line - 1])):
            return hint, line
    return (_indentation(lines, last), last) if 1 <= last <= len(lines) else ("", None)


def _line_hint(line: str) -> str:
    """Describes a mistake that a line shows by itself."""
    bare = _QUOTED.sub(lambda part: " " * len(part[0]), line).rstrip(" ")
    if "\t" in bare[: len(bare) - len(bare.lstrip())]:
        return "indent with spaces, not tabs"
    for column, char in enumerate(bare, 1):
        if what := odd_character(char):
            return f"column {column} has {what}"
    if bare.startswith("```"):
        return "'```' marks code in Markdown; remove this line"
    if _EQUALS.match(bare):
        return "expected 'key: value' with a colon, not '='"
    return "a space is missing after the colon" if _GLUED.match(bare) else ""


def _indentation(lines: list[str], last: int) -> str:
    """Describes an indentation that fits none of the lines above; '' if it fits."""
    own = _indent(lines[last - 1])
    above = [line for line in lines[: last - 1] if line.strip() and not line.lstrip().startswith("#")]
    if not above:
        return ""
    before = _indent(above[-1])
    if own > before and re.match(r"\s*(?:- +)?[^\s:]+:\s+[^\s#&|>]", above[-1]):
        return (
            f"is indented by {_spaces(own)}, more than the line above ({before}), which has a value: only a key "
            "without one holds others"
        )
    open_: list[int] = []
    for line in above:
        open_ = [indent for indent in open_ if indent < _indent(line)] + [_indent(line)]
    if own < before and own not in open_:
        return f"is indented by {_spaces(own)}, as no line above it that it could belong to: expected {_either(open_)}"
    return ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _spaces(count: int) -> str:
    return f"{count} space{'s' * (count != 1)}"


def _either(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))


def _is_space(char: str) -> bool:
    return char == "\t" or unicodedata.category(char) in ("Zs", "Zl", "Zp")


def _called(char: str) -> str:
    name = _NAMES.get(char) or unicodedata.name(char, "character").lower()
    return f"the character U+{ord(char):04X} ({name})"


def _letter(char: str) -> str:
    """Returns the ASCII letter or digit that a character resembles, by compatibility form or `_LIKE`; '' if none."""
    plain = unicodedata.normalize("NFKC", char)
    if plain.isascii() and plain.isalnum():
        return f"'{plain}'"
    latin = dict(zip(_LIKE, "aceopxyisjABCEHKMOPTX", strict=True)).get(char)
    return f"the Latin letter '{latin}'" if latin else ""


_LIKE = "асеорхуіѕјАВСЕНКМОРТХ"  # Cyrillic letters that look like Latin ones
