"""Parser of the command line: argparse with other error messages and abbreviations."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches
from textwrap import wrap
from typing import Any, NoReturn

from palaestra.cli.game_flags import ENV_ARGS
from palaestra.core.display import escaped_lines, shortened

_FLAG = re.compile(r"--?[a-zA-Z][\w-]*=--")


def fitted(text: str | None, columns: int) -> str | None:
    """Wraps a text to lines of `columns`: prose with its indent, a command with a backslash."""
    return (
        None if text is None else "\n".join(part for line in text.splitlines() for part in _fitted_line(line, columns))
    )


def _fitted_line(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    command = line.lstrip().startswith("palaestra ")
    entry = re.match(r" +\S+ {2,}", line)  # a name, and what it is
    indent = "      " if command else " " * (entry.end() if entry else len(line) - len(line.lstrip()))
    room = columns - 2 if command else columns
    parts = wrap(line, room, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return [f"{part} \\" for part in parts[:-1]] + parts[-1:] if command else parts


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one sentence, without the usage: the flag, the value, and where all flags are listed."""

    unabbreviated: Sequence[str] = ()
    """Flags that an abbreviation matches only if no other flag does: they are newer than scripts that abbreviate."""

    def error(self, message: str) -> NoReturn:
        """Prints an error and exits with status 2."""
        self.exit(2, f"{self.prog}: error: {escaped_lines(shortened(message, 1000))} (see: {self.prog} --help)\n")

    def refuse_unusable(self, arguments: Sequence[str]) -> None:
        """Exits for arguments that no flag could take, and that argparse cannot handle."""
        for word in arguments[: arguments.index(ENV_ARGS) if ENV_ARGS in arguments else None]:
            if _FLAG.fullmatch(word):
                self.error(f"argument {word.partition('=')[0]}: expected a value, got '--'")
            if "\0" in word:
                self.error(f"'{shortened(word)}' holds a NUL character")

    def nearest_flag(self, word: str) -> str:
        """Returns '; did you mean X?', or nothing if no flag is similar."""
        listed = [flag for flag, action in self._option_string_actions.items() if action.help != argparse.SUPPRESS]
        near = get_close_matches(shortened(word), listed, n=1) if word.startswith("-") else []
        return f"; did you mean '{near[0]}'?" if near else ""

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        """Returns the flags that an abbreviation may mean."""
        meant = super()._get_option_tuples(option_string)
        older = [found for found in meant if not set(found[0].option_strings) & set(self.unabbreviated)]
        return older if older and len(meant) > 1 else meant
