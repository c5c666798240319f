"""The command line's parser: argparse, but for how it complains and what it takes for an abbreviation."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from palaestra.cli.game_flags import ENV_ARGS
from palaestra.core.display import escaped_lines, shortened

_FLAG = re.compile(r"--?[a-zA-Z][\w-]*=--")


class Parser(argparse.ArgumentParser):
    """An error is one sentence, without the usage: the flag, what came, and where all flags are listed."""

    unabbreviated: Sequence[str] = ()
    """Flags that count as abbreviated only where no other is meant: those that came later than scripts that abbreviate others."""

    def error(self, message: str) -> NoReturn:
        """Exits with status 2."""
        self.exit(2, f"{self.prog}: error: {escaped_lines(shortened(message, 1000))} (see: {self.prog} --help)\n")

    def refuse_unusable(self, arguments: Sequence[str]) -> None:
        """Exits for words that no flag could take, and over which argparse itself would stumble."""
        for word in arguments[: arguments.index(ENV_ARGS) if ENV_ARGS in arguments else None]:
            if _FLAG.fullmatch(word):
                self.error(f"argument {word.partition('=')[0]}: expected a value, got '--'")
            if "\0" in word:
                self.error(f"'{shortened(word)}' holds a NUL character")

    def nearest_flag(self, word: str) -> str:
        """'; did you mean X?', or nothing where no flag is near."""
        near = get_close_matches(shortened(word), self._option_string_actions, n=1) if word.startswith("-") else []
        return f"; did you mean '{near[0]}'?" if near else ""

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        """The flags that an abbreviation may mean."""
        meant = super()._get_option_tuples(option_string)
        older = [found for found in meant if not set(found[0].option_strings) & set(self.unabbreviated)]
        return older if older and len(meant) > 1 else meant
