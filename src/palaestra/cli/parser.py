"""Parser of the command line: argparse with other error messages, abbreviations and help."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from palaestra.cli.game_flags import ENV_ARGS
from palaestra.cli.help_text import HelpPart, by_name, columns, fitted, formatter, usage
from palaestra.core.display import escaped_lines, shortened
from palaestra.core.wording.error_topics import pointed

_FLAG = re.compile(r"--?[a-zA-Z][\w-]*=--")
_NEAR = 0.7
"""Least share of equal characters from which one flag is offered in place of another."""
VALUES = {"N": "4", "S": "60", "ENV": "gymnasium:CartPole-v1", "ID": "first", "DIR": "results", "DEVICE": "cpu"}
"""Examples of values by metavar, for flags without an example in the command's examples or in the help."""


OURS = {
    r"the following arguments are required: (.+)": "expected also {0}{like}",
    r"ambiguous option: (.+) could match (.+)": "'{0}' may mean one of {1}; write out the one that is meant",
    r"argument .+: expected .*one argument": "{flag}: expected a value{such}, got none",
    r"argument .+?: ignored explicit argument (.+)": "{flag}: expected no value, got {0}; write {flag} alone",
    r"argument .+?: invalid choice: (.+?) \(choose from .+": "{flag}: expected {choices}, got {0}",
    r"argument .+?: not allowed with argument (\S+)": "{flag} and {0} exclude each other; leave out one",
    r"argument \S+?: (.+)": "{flag}: {0}{such}",
}
"""Patterns of argparse's messages, and the texts that replace them."""


def example_of(flag: str, action: argparse.Action, examples: str) -> str:
    """Returns an example value for a flag, from the command's examples, its help or its default; '' for none."""
    if found := re.search(rf"(?<!\S){flag}[= ](?!-)(\S+)", examples):
        return found[1]
    if found := re.search(r"such as ([^\s,);]+)|default: (\d[\w.]*)", action.help or ""):
        return found[1] or found[2]
    usual = str(action.default) if isinstance(action.default, (int, float, Path)) else ""
    return usual or ("5005" if flag.endswith("-port") else VALUES.get(str(action.metavar), ""))


def whole_number(text: str) -> int:
    """Reads a whole number, also in a form such as 1e6. Raises ArgumentTypeError for anything but a whole number."""
    with suppress(ValueError, OverflowError):
        found = float(text)
        if found.is_integer():
            return int(text) if text.strip().lstrip("+-").isdecimal() else int(found)
    raise argparse.ArgumentTypeError(f"expected a whole number, got {shortened(repr(text))}")


def number(text: str) -> float:
    """Reads the value of a flag. Raises ArgumentTypeError for anything but a finite number."""
    with suppress(ValueError):
        if isfinite(found := float(text)):
            return found
    raise argparse.ArgumentTypeError(f"expected a number, got {shortened(repr(text))}")


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one sentence, without the usage: the flag, the value, and where all flags are listed."""

    abbreviated: Collection[str] = ()
    """Flags that may be abbreviated to a prefix, as in ML-Agents, and, if there are any, also the hidden flags."""
    sections: Sequence[HelpPart] = ()
    """Parts of the help after the flags, such as examples."""
    commands: Sequence[HelpPart] = ()
    """Parts of the help that list commands; empty if there are none."""

    def __init__(self, prog: str, description: str | None = None, **more: Any) -> None:
        super().__init__(prog, description=description, formatter_class=formatter(), add_help=False, **more)
        self.register("type", int, whole_number)
        self.register("type", float, number)
        self.by_name: dict[str, str] = {}
        """Titles of groups whose flags the help only names, and how to see their full help."""
        self._positionals.title = "Arguments"
        self._optionals.title = "Flags"

    def add_help_flags(self) -> None:
        """Adds --help and --help-all, as the last group."""
        group = self.add_argument_group("Help")
        group.add_argument("-h", "--help", action="help", help="show this help")
        known = [group for group in self._action_groups if group.title in self.by_name]
        names = " and ".join(str(group.title) for group in known)
        everything = f"also explain the flags of {names}" if names else argparse.SUPPRESS
        group.add_argument("--help-all", action=HelpAll, nargs=0, help=everything)

    def format_help(self, *, everything: bool = False) -> str:
        """Returns the help: `everything`, or without the flags of groups that are listed by name only."""
        text = self._get_formatter()
        text.add_usage(usage(self.prog, self._actions, commands=bool(self.commands)), [], [])
        text.add_text(self.description and fitted(self.description, columns()))
        for section in self.commands:
            section.add_to(text)
        for group in self._action_groups:
            if any(isinstance(action, argparse._SubParsersAction) for action in group._group_actions):
                continue
            where = None if everything else self.by_name.get(str(group.title))
            whole = HelpPart(str(group.title), group.description or "", group._group_actions)
            (whole if where is None else by_name(group, where)).add_to(text)
        for section in self.sections:
            section.add_to(text)
        return text.format_help().rstrip("\n") + "\n"

    def error(self, message: str) -> NoReturn:
        """Prints an error and exits with status 2."""
        message = self.in_our_words(message)
        text = f"{self.prog}: error: {escaped_lines(shortened(message, 1000))} (see: {self.prog} --help)"
        self.exit(2, f"{pointed(text, 'command-line')}\n")

    def in_our_words(self, message: str) -> str:
        """Returns an error of argparse in this form: the flag, the expected value, the given value, and an example."""
        flag = message.removeprefix("argument ").partition(": ")[0].rpartition("/")[2]
        action = self._option_string_actions.get(flag)
        examples = "\n".join(part.text for part in self.sections if part.title == "Examples")
        like = f", as in `{found[0]}`" if (found := re.search(r"^palaestra .+$", examples, re.MULTILINE)) else ""
        value = "" if action is None or "such as" in message else example_of(flag, action, examples)
        such = f", such as {flag}{' ' if action and action.nargs else '='}{value}" if value else ""
        choices = " or ".join(map(str, (action and action.choices) or ()))
        for pattern, words in OURS.items():
            if found := re.fullmatch(pattern, message, re.DOTALL):
                return words.format(*found.groups(), flag=flag, like=like, such=such, choices=choices)
        return message

    def refuse_unusable(self, arguments: Sequence[str]) -> None:
        """Exits for arguments that no flag could take, and that argparse cannot handle."""
        for word in arguments[: arguments.index(ENV_ARGS) if ENV_ARGS in arguments else None]:
            if _FLAG.fullmatch(word):
                self.error(f"argument {word.partition('=')[0]}: expected a value, got '--'")
            if "\0" in word:
                self.error(f"'{shortened(word)}' holds a NUL character")

    def refuse(self, word: str, following: str | None) -> NoReturn:
        """Exits for an unknown argument: the error names Palaestra's flag for another library's flag, else the nearest
        flag. `following`: the next word."""
        from palaestra.runtime.settings.foreign_names import answer_flag  # imports what checks settings: 0.3 s

        flag, equals, value = word.partition("=")
        given = value if equals else None if following is None or following.startswith("-") else following
        if not flag.startswith("-"):
            ours = answer_flag(f"--{shortened(flag)}", given, self._option_string_actions) if equals else ""
            self.error(f"unexpected argument '{shortened(word)}'{f': {ours}' if ours else ''}")
        known = () if self.commands else self._option_string_actions
        if ours := answer_flag(shortened(flag), None if given is None else shortened(given), known):
            self.error(ours)
        self.error(f"unknown flag '{shortened(flag)}'{self.nearest_flag(flag)}")

    def nearest_flag(self, word: str) -> str:
        """Returns '; did you mean X?', or '' if no flag is similar."""
        listed = [flag for flag, action in self._option_string_actions.items() if action.help != argparse.SUPPRESS]
        alike = {flag.strip("-"): flag for flag in listed}
        plain = shortened(word).strip("-").lower().replace("_", "-")
        whole = [name for name in alike if name.startswith(plain)] if len(plain) > 1 else []
        near = whole[:3] or get_close_matches(plain, alike, n=1, cutoff=_NEAR)
        return f"; did you mean {' or '.join(repr(alike[name]) for name in near)}?" if near else ""

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        """Returns the flags that a prefix means: current ones of ML-Agents, else old ones if no other begins so."""
        meant = super()._get_option_tuples(option_string)
        current = [found for found in meant if set(found[0].option_strings) & set(self.abbreviated)]
        old = self.abbreviated and all(found[0].help == argparse.SUPPRESS for found in meant)
        return current or (meant if old else [])


class HelpAll(argparse.Action):
    """Action of `--help-all`: shows the help with every flag explained."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Prints the help and exits."""
        assert isinstance(parser, Parser)
        parser._print_message(parser.format_help(everything=True), sys.stdout)
        parser.exit()
