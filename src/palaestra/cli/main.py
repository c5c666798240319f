"""Palaestra trains the agents of games and simulations."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from palaestra.cli.game_flags import parse_known
from palaestra.core.errors import PalaestraError
from palaestra.runtime.signals import break_on_signals
from palaestra.runtime.waiting import Waiting, on_stderr

COMMANDS = {
    "learn": "train the agents of an environment, or go on with a run",
    "evaluate": "play a trained model for a number of episodes and report its rewards",
    "run": "play an environment with models, its own rule, chance or your code, and report how they did",
    "league": "play every snapshot of a self-play run against every other: table and heat map",
    "plot": "draw the learning curves of one or several runs",
    "record": "make a GIF of trained agents",
    "export": "write a run's policies as ONNX models",
    "demo": "show what is in demonstration files: episodes, rewards, actions, oddities",
    "doctor": "find out what is wrong with a Unity build, the Editor's scene or another environment",
    "envs": "list the built-in environments, or show one",
    "config": "check a settings file and print it with every default",
    "schema": "write a JSON schema of the settings, for editors",
    "upgrade": "turn settings files of old ML-Agents into a current one",
}
"""Each is a module of this package, imported when it is asked for."""

EPILOG = """\
examples:
  palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id=first
  palaestra learn --run-id=first --resume
  palaestra evaluate first
  palaestra record first
  palaestra COMMAND --help
"""

LIBRARIES = {
    "learn": "palaestra.runtime.api",
    **dict.fromkeys(("evaluate", "record", "run"), "palaestra.runtime.evaluation"),
    "league": "palaestra.runtime.league_run",
    "doctor": "palaestra.runtime.doctor",
}
"""Modules that bring the libraries of commands which need more of them than a second loads."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. The exit status: 0, 1 for an error that the message explains, 2 for a wrong command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = None
    try:
        parser = make_parser(arguments[0] if arguments and arguments[0] in COMMANDS else None)
        refuse_unknown(parser, arguments)
        options = parse(parser, arguments)
        debug = getattr(options, "debug", None)
        if options.command is None:
            parser.print_help()
            return 0
        with break_on_signals():
            load_libraries(options.command)
            return command(options.command).main(options) or 0
    except PalaestraError as error:
        if debug:
            traceback.print_exception(error)
        print(f"palaestra: error: {error}", file=sys.stderr)
        return 1
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        print(f"palaestra: error: {error}\nThe memory is used up: fewer areas or a smaller buffer_size need less", file=sys.stderr)
        return 1
    except KeyboardInterrupt as signal:
        print("palaestra: interrupted", file=sys.stderr)
        return 128 + getattr(signal, "number", 2)
    except BrokenPipeError:
        # the reader of our output has gone, as with `palaestra envs | head -1`; say nothing more, not even while closing
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def load_libraries(name: str) -> None:
    """Imports what a command needs that takes seconds, and says so: a command that is silent seems to hang."""
    if name in LIBRARIES:
        with Waiting("loading libraries", on_stderr):
            import_module(LIBRARIES[name])


def out_of_memory(error: Exception) -> bool:
    """Of this machine, or of its accelerator: torch raises a RuntimeError for either."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in ("can't allocate memory", "out of memory"))


def refuse_unknown(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    """Names the nearest command where the first word is none."""
    if not arguments or arguments[0].startswith("-") or arguments[0] in COMMANDS:
        return
    near = get_close_matches(arguments[0], COMMANDS, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    parser.error(f"there is no command '{arguments[0]}'{hint} (there are: {', '.join(COMMANDS)})")


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Names the nearest flag of the command where one is unknown."""
    options, unknown = parse_known(parser, arguments)
    if unknown:
        child = subparser(parser, options.command) if options.command else parser
        word = unknown[0].partition("=")[0]
        near = get_close_matches(word, child._option_string_actions, n=1) if word.startswith("-") else []
        hint = f"; did you mean '{near[0]}'?" if near else ""
        child.error(f"{'unknown flag' if word.startswith('-') else 'unexpected argument'} '{word}'{hint}")
    return options


def subparser(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    """That of a command."""
    return next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction)).choices[name]


def command(name: str) -> ModuleType:
    """The module of a command."""
    return import_module(f"palaestra.cli.{name}")


def make_parser(chosen: str | None) -> argparse.ArgumentParser:
    """All commands by name; the arguments of the chosen one, so that the others need not be imported."""
    try:
        from rich_argparse import RawDescriptionRichHelpFormatter as Formatter
    except ImportError:
        Formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("palaestra", description=__doc__, epilog=EPILOG, formatter_class=Formatter)
    parser.add_argument("--version", action=Version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, help_line in COMMANDS.items():
        module = command(name) if name == chosen else None
        about = {"description": module and module.__doc__, "epilog": getattr(module, "EPILOG", None)}
        child = commands.add_parser(name, help=help_line, formatter_class=Formatter, **about)
        if module is not None:
            module.add_arguments(child)
    return parser


class Version(argparse.Action):
    """`--version`: ours, and those that matter when something is reported."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the versions of Palaestra and of what it stands on")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Prints and exits."""
        from importlib.metadata import version

        print(" ".join(f"{name} {version(name)}" for name in ("palaestra", "torch", "warp-lang", "gymnasium")))
        parser.exit()
