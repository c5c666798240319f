"""Writes the pages of `docs/reference/commands` from the parser: `python docs/make_commands.py`.

A page has what `--help` says, in tables. `commands_notes.yaml` adds examples with what they printed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from palaestra.cli import commands, help_text
from palaestra.cli import help as help_command
from palaestra.cli.commands import COMMANDS, GROUPS, make_parser, subparser
from palaestra.cli.game_flags import TITLE, add_game_flags
from palaestra.cli.parser import Parser

DOCS = Path(__file__).parent
FOLDER = DOCS / "reference" / "commands"
NOTES: dict[str, Any] = yaml.safe_load((DOCS / "commands_notes.yaml").read_text(encoding="utf-8"))
MADE = "*This page is written by `docs/make_commands.py` from the parser: the same as `palaestra help`.*\n"
CODE = re.compile(r"^(?:--?[a-zA-Z]|\.\w|.*[*<>@=]|\w.*[/:]\w|\w+_\w|\w+\.[a-z]\w{1,4}$|'.*[*_/.:=]|[A-Z_]{2,}[?=@])")
"""Words that are code: flags, paths, patterns, names with underscores."""
PROSE = ("and/or", "TCP/IP")

INDEX = """\
# Commands

These pages describe every command of `palaestra`: what it does, its flags, and examples with their output.
`palaestra help COMMAND` shows the same in the terminal.

{groups}

## What all commands have in common

- `palaestra COMMAND --help` explains a command. `--help-all` also explains the [flags of Unity games](unity.md).
- A value follows its flag after `=` or a space: `--run-id=first` or `--run-id first`. `1e6` is a number.
- A flag of `learn` that `mlagents-learn` has too may be shortened as long as it is clear: `--results` for
    `--results-dir`. All other flags are written in full.
- For a flag of another library, such as `--lr`, the error names our flag.
- Errors are one sentence, with what to do. `palaestra help errors`, or [the page of errors](../errors/README.md),
    explains them.
- `learn` prints to standard output. Other commands print results there, and progress and notes to standard error.
    `--json` prints one JSON object for scripts.
- Colors are left out if `NO_COLOR` is set or the output is no terminal.

## Exit codes (exit status)

The exit code of a command, also called its exit status, tells a script whether the command worked. A shell keeps it in
`$?`.

| exit code | meaning |
|---|---|
| 0 | it worked; for `learn` also: it reached its goal, or was stopped by Ctrl-C or SIGTERM and saved |
| 1 | an error; for `doctor`: training would fail; for `demo --model`: the game plays something else |
| 2 | the command line is wrong |
| 3 | `learn` ended for lack of progress (`--stop-without-progress`) |
| 130 | any other command was interrupted by Ctrl-C |

After any other signal the exit code is 128 plus the number of the signal. The page of each command names the codes that
it uses.

Next: [learn](learn.md), [Settings](../settings/README.md), [Python](../python/README.md)

{made}"""


def pages() -> dict[Path, str]:
    """Returns the text of each page."""
    found = {FOLDER / "README.md": _index(), FOLDER / "unity.md": _unity()}
    return found | {FOLDER / f"{name}.md": _page(name) for name in COMMANDS}


def _index() -> str:
    groups = []
    for title, names in GROUPS.items():
        rows = [f"| [`{name}`]({name}.md) | {coded(_sentence(summary))} |" for name, summary in names.items()]
        groups.append("\n".join([f"## {title}", "", "| command | what it does |", "|---|---|", *rows]))
    groups.append("Flags that several commands share: [flags of Unity games](unity.md).")
    return INDEX.format(groups="\n\n".join(groups), made=MADE)


def _page(name: str) -> str:
    parser = subparser(make_parser(name), name)
    notes = NOTES[name]
    lead, _, rest = (parser.description or "").strip().partition("\n\n")
    usage = help_text.usage(parser.prog, parser._actions, commands=False)
    parts = [f"# palaestra {name}", coded(_line(lead)), f"**Usage:** `{usage}`", *_paragraphs(rest)]
    parts += ["## Examples", *_examples(notes["examples"])]
    for group in parser._action_groups:
        parts += _group(group)
    if more := getattr(commands.command(name), "EXAMPLES", ""):
        lines = (line if line.startswith("#") else f"$ {line}" for line in more.strip().splitlines())
        parts += ["## More examples", "```console\n" + "\n".join(lines) + "\n```"]
    if notes_of_help := getattr(commands.command(name), "NOTES", ""):
        parts += ["## Good to know", *_paragraphs(notes_of_help.partition("Exit status")[0])]
    parts += ["## Exit status", coded(_sentence(notes.get("exit", NOTES["common"]["exit"]))) + "."]
    return "\n\n".join([*parts, f"See also: {', '.join(notes['see'])}", MADE])


def _unity() -> str:
    parser = Parser("palaestra COMMAND", help_command.GAMES)
    add_game_flags(parser)
    _, _, rest = help_command.GAMES.strip().partition("\n\n")
    text = "These flags start and set up a Unity build, or the Unity Editor. Several commands have them."
    parts = ["# Flags of Unity games", text, *_paragraphs(rest)]
    parts += [part for group in parser._action_groups for part in _group(group, whole=True)]
    lines = (line if line.startswith("#") else f"$ {line}" for line in help_command.GAME_EXAMPLES.strip().splitlines())
    parts += ["## Examples", "```console\n" + "\n".join(lines) + "\n```"]
    return "\n\n".join([*parts, f"See also: {', '.join(NOTES['unity']['see'])}", MADE])


def _examples(examples: Iterable[Mapping[str, str]]) -> Iterator[str]:
    for example in examples:
        yield example["say"].strip()
        yield f"```bash\n{example['run'].strip()}\n```"
        if "prints" in example:
            yield f"It prints:\n\n```text\n{example['prints'].rstrip()}\n```"


def _group(group: argparse._ArgumentGroup, *, whole: bool = False) -> Iterator[str]:
    """Yields a heading and a table of the arguments of a group."""
    shown = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
    shown = [action for action in shown if "--help" not in action.option_strings and action.dest != "help_all"]
    if not shown or isinstance(shown[0], argparse._SubParsersAction):
        return
    yield f"## {_sentence(str(group.title))}"
    if group.title == TITLE and not whole:
        names = ", ".join(f"`{action.option_strings[0]}`" for action in shown)
        yield f"{names}: [flags of Unity games](unity.md)."
        return
    if group.description:
        yield coded(_line(group.description))
    yield "\n".join(["| argument | what it is | default |", "|---|---|---|", *map(_row, shown)])


def _row(action: argparse.Action) -> str:
    said = _line((action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%"))
    found = re.fullmatch(r"(.*?)\s*\(default: ([^()]*)\)(.*)", said)
    usual = found[2] if found else "off" if action.option_strings and action.nargs == 0 else ""
    said = f"{found[1]}{found[3]}" if found else said
    cells = (_name(action), coded(said), coded(usual))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _name(action: argparse.Action) -> str:
    """Returns an argument as it is typed."""
    if not action.option_strings:
        return f"`{help_text._word(action)}`"
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{flag}{value}`" for flag in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    name = str(action.metavar or action.dest.upper())
    return {"+": f"{name} ...", "*": f"[{name} ...]", "?": f"[{name}]", "...": f"{name} ..."}.get(
        str(action.nargs), name
    )


def _paragraphs(text: str) -> Iterator[str]:
    """Yields paragraphs; lines that explain a word each become a list."""
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        lines = list(help_text._whole_lines(paragraph))
        entries = [line for line in lines if help_text.ENTRY.match(line)]
        prose = " ".join(line for line in lines if line not in entries)
        if prose.strip():
            yield coded(_line(prose))
        if entries:
            pairs = [re.split(r" {2,}", line.strip(), maxsplit=1) for line in entries]
            yield "\n".join(f"- `{word}`: {coded(_line(said))}" for word, said in pairs)


def coded(text: str) -> str:
    """Returns a text with flags, paths and names marked as code; what is marked already stays."""
    text = re.sub(r"'(palaestra [^']*)'", r"`\1`", text)
    parts = re.split(r"(`[^`]*`|\]\([^)]*\))", text)
    return "".join(part if part[:1] in ("`", "]") else _words(part) for part in parts)


def _words(text: str) -> str:
    return re.sub(r"\S+", lambda found: _word(found[0]), text)


def _word(word: str) -> str:
    inner = re.fullmatch(r"(\(*)(.*?)([.,;:)]*)", word, re.DOTALL)
    if inner is None or inner[2] in PROSE or not CODE.match(inner[2]):
        return word
    return f"{inner[1]}`{inner[2].strip(chr(39))}`{inner[3]}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    from written_pages import write_folder

    write_folder(FOLDER, pages())
