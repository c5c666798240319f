"""Output: prints to terminals and notebooks, and makes text from outside, such as names in a game's messages, safe to
print: without control characters and endless lines.
"""

from __future__ import annotations

import html
import math
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

LETTERS = "font-family:monospace;font-size:13px;line-height:1.3;padding-left:8px"
"""Characters in a line that a notebook prints."""
PAUSE = 0.5
"""Least seconds between two changes of a line: each change is a message to the browser."""
_OTHERS = "\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[\n{_OTHERS}]")
_CONTROL_WITHIN_LINES = re.compile(f"\n(?!  )|[{_OTHERS}]")


def escaped(text: str) -> str:
    r"""Returns the text with control characters as escape sequences: a line break is `\n`, an escape `\x1b`.

    Also escapes the characters that reverse the direction of text, which could make a line read as another one, and
    half surrogate pairs, which no stream can write.
    """
    return _CONTROL.sub(_escape, text)


def escaped_lines(text: str) -> str:
    """Escapes a text of several lines, of which all but the first are indented by two spaces or more.

    A line break that is not followed by an indent is escaped, so that a name cannot pass for a separate line.
    """
    return _CONTROL_WITHIN_LINES.sub(_escape, text.replace("\n\t", "\n    ").replace("\t", "  "))


def indented(text: str) -> str:
    """Indents all lines but the first by at least two spaces, as `escaped_lines` expects."""
    return re.sub("\n *", lambda found: found.group() + "  " if len(found.group()) < 3 else found.group(), text)


def shortened(text: str, most: int = 80) -> str:
    """Returns the text without its middle if it has more than `most` characters."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 4) :]} ({len(text):,} characters)"


def shown_path(path: object) -> str:
    """Returns a path as people type it: relative if it is in the current folder."""
    with suppress(ValueError, OSError):
        return str(Path(str(path)).relative_to(Path.cwd()))
    return str(path)


def listed(names: Sequence[object], most: int = 5) -> str:
    """Returns the first names with commas, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def readable(value: float, decimals: int | None = None) -> str:
    """Returns a number as people read it: 120,000, 98.73, 3e-05. `decimals`: the column's number of decimals; None:
    the number stands alone."""
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def decimals_of(values: Iterable[float]) -> int:
    """Returns the number of decimals for all numbers of a column: 0 if all are whole, else fewer if one is large."""
    finite = [abs(float(value)) for value in values if math.isfinite(value)]
    if all(value.is_integer() for value in finite):
        return 0
    return min(3, max(0, 5 - len(str(int(max(finite))))))


def duration(seconds: float) -> str:
    """Returns a time in the unit that suits it; 'never' for infinity."""
    if seconds == math.inf:
        return "never"
    if seconds < 180:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s" if seconds > 0.001 else "under 1 ms"
    return f"{seconds / 60:.1f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.1f} h"


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False if it is missing or closed, or an object with only `write`."""
    try:
        return bool(stream.isatty())
    except Exception:  # an object of the program that trains may raise anything
        return False


def flush(stream: Any) -> None:
    """Flushes a stream, if that is possible. Raises OSError."""
    if (flushes := getattr(stream, "flush", None)) is not None:
        flushes()


def print_now(text: str, stream: Any = None, end: str = "\n") -> None:
    """Prints a line at once, by default to standard output; the stream needs only `write`. Raises OSError."""
    print(text, end=end, file=stream)
    flush(sys.stdout if stream is None else stream)


def in_notebook() -> bool:
    """Whether this program's output appears in a notebook's cell."""
    ipython = sys.modules.get("IPython")
    if ipython is None or type(sys.stdout).__module__.partition(".")[0] not in ("ipykernel", "google"):
        return False
    with suppress(Exception):  # what another program has put into its place
        return ipython.get_ipython() is not None
    return False


class NotebookLines:
    """Lines below a cell, some with a bar in front, that change in place; the last lines stay."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, lines: Sequence[tuple[float | None, str]]) -> None:
        """Replaces the lines shown before (none: removes them); a line has the finished share, as a bar, and a text."""
        if not lines and self._handle is None:
            return
        from IPython.display import HTML, display

        rows = []
        for share, text in lines:
            done = "" if share is None else f'<progress value="{share:.4f}" max="1" style="width:180px"></progress> '
            faint = ";opacity:.75" if share is None else ""
            rows.append(f'<div style="{LETTERS}{faint}">{done}{html.escape(text)}</div>')
        if self._handle is None:
            self._handle = display(HTML("".join(rows)), display_id=True)
        else:
            self._handle.update(HTML("".join(rows)))
