"""Lines with a label in front, and commands worded for the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from textwrap import wrap

from palaestra.core.wording.voice import voiced

LABELS = 8
"""Width of the labels in characters."""
COLUMNS = 100
"""Width of a line in characters if there is no terminal."""


def labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    """Yields the lines, with a label in front of the first line."""
    for number, line in enumerate(lines):
        yield f"{'' if number else label:<{LABELS}}{line}"


def folded(sentence: str) -> list[str]:
    """Returns the lines of a sentence that fit behind a label. Flags and names stay whole."""
    room = max(get_terminal_size((COLUMNS, 24)).columns - LABELS - 2, 20)
    return wrap(sentence, room, break_on_hyphens=False, break_long_words=False)


def wrapped(commands: Sequence[str], indent: int = 2) -> list[str]:
    """Returns commands, with as many in a line as fit behind a label. In Python, lines that only concern the command
    line are left out."""
    in_python = voiced("--resume") != "--resume"
    room = get_terminal_size((COLUMNS, 24)).columns - LABELS - indent
    lines: list[str] = []
    for command in commands:
        said = voiced(command)
        if in_python and command == said:
            continue
        if lines and len(lines[-1]) + 3 + len(said) <= room:
            lines[-1] += f" · {said}"
        else:
            lines.append(said)
    return lines
