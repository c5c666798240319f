"""Layout of `--help`: each paragraph is wrapped, flags stand in groups, and some groups are listed by name only."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from shutil import get_terminal_size
from textwrap import dedent, wrap
from typing import Any

WIDEST = 120
"""Width of the widest lines in characters: longer ones are hard to read."""
ENTRY = re.compile(r" +\S+ {2,}")
"""Pattern of the begin of a line that explains a name."""


def columns() -> int:
    """Returns the width of help text: the terminal's width minus 1, and at most WIDEST."""
    return min(get_terminal_size().columns, WIDEST) - 2


def formatter() -> Callable[..., argparse.HelpFormatter]:
    """Returns the formatter class for argparse: with colors if they are installed and a terminal shows the help."""
    width = columns()
    layout = {"width": width, "max_help_position": max(24, min(34, width // 3))}
    try:
        from rich_argparse import RawDescriptionRichHelpFormatter
    except ImportError:
        return partial(argparse.RawDescriptionHelpFormatter, **layout)

    class Colored(RawDescriptionRichHelpFormatter):
        """Formatter in which titles of groups are sentences, and help texts are shown without markup."""

        group_name_formatter = staticmethod(_sentence)
        text_markup = False
        help_markup = False

    return partial(Colored, **layout)


def _sentence(title: str) -> str:
    return title[:1].upper() + title[1:]


def fitted(text: str, width: int) -> str:
    """Wraps a text: each paragraph once, entries of a list with their indent, a command with backslashes."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(
        "\n".join(part for line in _whole_lines(paragraph) for part in _wrapped(line, width))
        for paragraph in paragraphs
    )


def _whole_lines(paragraph: str) -> Iterator[str]:
    """Yields a paragraph, entry or command as one line, however it is wrapped in the source."""
    line = ""
    for more in paragraph.splitlines():
        begins = not line or _is_command(more) or (more.startswith(" ") and ENTRY.match(more)) or _is_command(line)
        if begins and line:
            yield line
        line = more if begins else f"{line} {more.strip()}"
    if line:
        yield line


def _is_command(line: str) -> bool:
    return line.lstrip().startswith(("palaestra ", "# "))


def _wrapped(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    command = line.lstrip().startswith("palaestra ")
    entry = ENTRY.match(line)
    own = " " * (len(line) - len(line.lstrip()))
    comment = line.lstrip().startswith("# ")
    indent = f"{own}    " if command else f"{own}# " if comment else " " * entry.end() if entry else own
    room = width - 2 if command else width
    parts = wrap(line, room, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return [f"{part} \\" for part in parts[:-1]] + parts[-1:] if command else parts


@dataclass(frozen=True, slots=True)
class HelpPart:
    """A titled part of a help: a text, arguments, or both."""

    title: str
    text: str = ""
    actions: Sequence[argparse.Action] = ()

    def add_to(self, to: argparse.HelpFormatter) -> None:
        """Adds this part to a help text."""
        shown = [action for action in self.actions if action.help != argparse.SUPPRESS]
        if not self.text and not shown:
            return
        to.start_section(self.title)
        if self.text:
            to.add_text(fitted(self.text, columns() - 2))
        to.add_arguments(shown)
        to.end_section()


def examples(text: str) -> HelpPart:
    """Returns the section with a command's examples."""
    return HelpPart("Examples", dedent(text).strip("\n"))


def by_name(group: argparse._ArgumentGroup, where: str) -> HelpPart:
    """Returns a group that lists its flags by name; `where` says how to see their whole help."""
    flags = [action.option_strings[0] for action in group._group_actions if action.help != argparse.SUPPRESS]
    return HelpPart(str(group.title), f"{', '.join(flags)}\n\n{where}" if flags else "")


def usage(prog: str, actions: Iterable[argparse.Action], *, commands: bool) -> str:
    """Returns a line with the positional arguments; flags are not listed."""
    if commands:
        return f"{prog} COMMAND [flags]"
    words = [_word(action) for action in actions if not action.option_strings]
    return " ".join([prog, *words, "[flags]"])


def _word(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest)
    forms: dict[Any, str] = {"?": f"[{name}]", "+": f"{name} [{name} ...]", "*": f"[{name} ...]"}
    return forms.get(action.nargs, name)
