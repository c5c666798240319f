"""Makes text from outside (names, values, messages of others) safe to print: no control characters, no endless lines."""

from __future__ import annotations

import re

_OTHERS = "\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[\n{_OTHERS}]")
_CONTROL_WITHIN_LINES = re.compile(f"\n(?!  )|[{_OTHERS}]")


def escaped(text: str) -> str:
    r"""The text with control characters as escape sequences: a line break is `\n`, an escape `\x1b`.

    Also escapes the characters that reverse the direction of text, which can make a line read as another one.
    """
    return _CONTROL.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """The same for a text of several lines, of which all but the first are indented by two spaces or more.

    A line break before anything else is escaped, so that no name can pretend to be a line of its own.
    """
    return _CONTROL_WITHIN_LINES.sub(_escape, text.replace("\n\t", "\n    ").replace("\t", "  "))


def indented(text: str) -> str:
    """All lines but the first moved to the right, as `escaped_lines` expects them."""
    return re.sub("\n *", lambda found: found.group() + "  " if len(found.group()) < 3 else found.group(), text)


def shortened(text: str, most: int = 80) -> str:
    """The text, without its middle where it has more than `most` characters."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 4) :]} ({len(text):,} characters)"


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()
