"""Commands of `palaestra`: their names, their parser, and their exit."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from palaestra.cli.game_flags import parse_known
from palaestra.cli.help_text import HelpPart, examples
from palaestra.cli.parser import Parser
from palaestra.cli.streams import BROKEN_PIPE, broken
from palaestra.core.display import escaped_lines, shortened
from palaestra.core.errors import PalaestraError, RankLost, exception_summary
from palaestra.core.files import of_the_machine
from palaestra.core.plugins import without_garbage_collection
from palaestra.core.wording.error_topics import pointed
from palaestra.runtime.control.os_signals import break_on_signals, is_read, reports
from palaestra.runtime.logging.waiting import WaitingNotice, on_stderr, on_stdout

GROUPS = {
    "Train": {
        "learn": "train the agents of an environment, or resume a run",
        "tune": "search for good settings with many trainings",
        "distill": "train a small network that imitates a trained one",
    },
    "Look at runs": {
        "view": "open a page in the browser: watch, compare, play, record demonstrations",
        "plot": "draw learning curves of one or several runs",
        "compare": "compare settings over several seeds: a table with intervals, and a picture",
        "evaluate": "play trained models for a number of episodes and report their rewards",
        "league": "play the snapshots of a self-play run against each other: a table and a heat map",
    },
    "Play and record": {
        "run": "play an environment with models, its heuristic, random actions or your code",
        "record": "make a GIF or a video of trained agents, or demonstration files",
        "demo": "show what is in demonstration files and Minari datasets, and join them",
    },
    "Share": {
        "export": "write a run's policies as ONNX models again, from a checkpoint",
        "convert": "convert a policy of Stable-Baselines3, CleanRL, rsl_rl or old ML-Agents to ONNX",
        "publish": "write a run as a static page: episodes, learning curves, and its policy live in the browser",
        "push": "upload a run to the Hugging Face Hub, with a model card",
        "pull": "download a run from the Hugging Face Hub",
    },
    "Prepare": {
        "envs": "list the built-in environments, or show any environment",
        "doctor": "check an environment for problems before training: a Unity build, the Editor, any other",
        "config": "check a settings file and print it with every default, or print an example",
        "upgrade": "convert settings files of old ML-Agents versions to the current format",
        "schema": "write a JSON schema of the settings, for editors",
        "alias": "make `mlagents-learn` run `palaestra learn`, for scripts that call it",
        "help": "explain a command, the flags of Unity games, or an error: palaestra help errors",
    },
}
"""Groups of commands: title, and for each command its name and summary. Each command is a module of this package."""

COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
"""Name and summary of each command."""

OF_ML_AGENTS = {
    "mlagents-learn": "`palaestra learn`, with the same arguments",
    "mlagents-run-experiment": "`palaestra learn FILE`",
    "mlagents-push-to-hf": "`palaestra push`",
    "mlagents-load-from-hf": "`palaestra pull`",
    "upgrade_config": "`palaestra upgrade`",
}
"""Commands of ML-Agents, and what to type instead."""

MEANT = {"train": "learn", "fit": "learn", "eval": "evaluate", "test": "evaluate", "play": "run", "render": "record"}
ABOUT = "Palaestra trains the agents of games and simulations with reinforcement learning."

EXAMPLES = """\
palaestra learn --env=gymnasium:CartPole-v1 --run-id=pole --view
palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id=first
palaestra learn --run-id=first --resume
palaestra evaluate first
palaestra record first
palaestra help learn
"""

LIBRARIES = {
    "learn": "palaestra.runtime.run.learning",
    **dict.fromkeys(("evaluate", "record", "run", "push"), "palaestra.runtime.play.evaluation"),
    "league": "palaestra.runtime.self_play.league_run",
    "tune": "palaestra.runtime.tune.tuning",
    "distill": "palaestra.runtime.distill.distillation",
    "doctor": "palaestra.runtime.doctor",
}
"""Modules that import libraries that take more than a second to load, and are needed by some commands."""


def run_command(argv: Sequence[str], *, process: bool = False) -> int:
    """Runs one command of `palaestra` and returns its exit status. `process`: this process runs nothing else."""
    arguments = list(argv)
    debug = None
    try:
        with break_on_signals(process=process):
            parser = make_parser(arguments[0] if arguments and arguments[0] in COMMANDS else None)
            parser.refuse_unusable(arguments)
            refuse_unknown(parser, arguments)
            options = parse(parser, arguments)
            debug = getattr(options, "debug", None)
            if options.command is None:
                parser.print_help()
                return 0
            options.arguments = arguments
            module = command(options.command)
            if hasattr(module, "check"):
                module.check(options)
            load_libraries(options.command, process=process)
            try:
                return module.main(options) or 0
            except SystemExit as error:  # no command ends so itself
                if isinstance(error.__context__, BrokenPipeError):  # rich, whose output is no longer read
                    return BROKEN_PIPE
                message = f"code that is not Palaestra's ended the command: {exception_summary(error)}"
                return complain(message, error if debug else None, topic="own-environment")
    except PalaestraError as error:
        if arguments[:1] == ["learn"] and not is_reported_here(error):
            return 1
        return complain(str(error), error if debug else None, topic=error.topic)
    except (OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, OSError) and (status := broken(sys.stdout, error)) is not None:
            return status
        if (refused := of_the_machine(error)) is None:
            raise
        return complain(str(refused), error if debug else None, topic=refused.topic)
    except KeyboardInterrupt as signal:
        complain("palaestra: interrupted", prefix="")
        return 128 + getattr(signal, "number", 2)


def is_reported_here(error: PalaestraError) -> bool:
    """Whether this process reports an error. Of several ranks only rank 0 reports, or another if rank 0 is lost."""
    return is_read() or (error.reports if isinstance(error, RankLost) else reports())


def load_libraries(name: str, *, process: bool) -> None:
    """Imports a command's slow libraries, with a notice, because a silent command seems to hang."""
    if name in LIBRARIES:
        notice = WaitingNotice("loading libraries", on_stdout if name == "learn" else on_stderr)
        with notice, without_garbage_collection() if process else nullcontext():
            import_module(LIBRARIES[name])


def complain(
    message: str, error: BaseException | None = None, prefix: str = "palaestra: error: ", topic: str = ""
) -> int:
    """Prints the message to standard error, after the traceback of `error` if given, and says where its topic is
    explained. Returns the exit status 1."""
    with suppress(OSError):
        if error is not None:
            traceback.print_exception(error)
        print(pointed(prefix + escaped_lines(message), topic), file=sys.stderr)
    return 1


def refuse_unknown(parser: Parser, arguments: list[str]) -> None:
    """Exits with the nearest command if the first word is not one."""
    if not arguments or arguments[0].startswith("-") or arguments[0] in COMMANDS:
        return
    if (now := OF_ML_AGENTS.get(arguments[0].removeprefix("mlagents.trainers."))) is not None:
        parser.error(f"'{arguments[0]}' is a command of ML-Agents; use {now}")
    near = get_close_matches(shortened(arguments[0]), [*COMMANDS, *MEANT], n=1)
    hint = f"; did you mean '{MEANT.get(near[0], near[0])}'?" if near else ""
    parser.error(f"there is no command '{shortened(arguments[0])}'{hint} (there are: {', '.join(COMMANDS)})")


def parse(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    """Parses arguments; for an unknown argument, exits with Palaestra's name for it or the nearest argument."""
    options, unknown = parse_known(parser, arguments)
    if unknown:
        child = subparser(parser, options.command) if options.command else parser
        following = arguments[arguments.index(unknown[0]) + 1 :] if unknown[0] in arguments else []
        child.refuse(unknown[0], next(iter(following), None))
    return options


def subparser(parser: Parser, name: str) -> Parser:
    """Returns the parser of a command."""
    return next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction)).choices[name]


def command(name: str) -> ModuleType:
    """Returns the module of a command."""
    return import_module(f"palaestra.cli.{name}")


def make_parser(chosen: str | None) -> Parser:
    """Returns the parser of all commands. Only the chosen command's module is imported, and adds its arguments."""
    parser = Parser("palaestra", description=ABOUT)
    parser.add_argument("--version", action=Version)
    commands = parser.add_subparsers(
        prog="palaestra", dest="command", metavar="COMMAND", title="commands", parser_class=Parser
    )
    for name, help_line in COMMANDS.items():
        module = command(name) if name == chosen else None
        child = commands.add_parser(name, help=help_line, description=module and module.__doc__)
        if module is not None:
            module.add_arguments(child)
            child.sections = tuple(_after_flags(module))
            if name == "learn":  # mlagents-learn had it
                child.add_argument("--version", action=Version, help=argparse.SUPPRESS)
        child.add_help_flags()
    parser.add_help_flags()
    listed = {action.dest: action for action in commands._choices_actions}
    parser.commands = [HelpPart(title, actions=[listed[name] for name in names]) for title, names in GROUPS.items()]
    parser.sections = [examples(EXAMPLES)]
    return parser


def _after_flags(module: ModuleType) -> Iterator[HelpPart]:
    if hasattr(module, "EXAMPLES"):
        yield examples(module.EXAMPLES)
    if hasattr(module, "NOTES"):
        yield HelpPart("Good to know", module.NOTES)


class Version(argparse.Action):
    """Action of `--version`: shows the versions that a bug report needs."""

    def __init__(
        self,
        option_strings: Sequence[str],
        dest: str,
        help: str = "show the versions of Palaestra and its main dependencies",
    ) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Prints the versions and exits."""
        from importlib.metadata import version

        from palaestra.core.versions import palaestra_commit

        commit = f" (commit {palaestra_commit()[:12]})" if palaestra_commit() else ""
        others = (f"{name} {version(name)}" for name in ("torch", "warp-lang", "gymnasium"))
        print(f"palaestra {version('palaestra')}{commit}", *others)
        parser.exit()
