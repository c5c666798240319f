"""Runs a game as a separate process: with a trainer, by the command line of a Unity player, or on its own."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from inspect import Parameter
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from palaestra.core.display import flush, print_now
from palaestra.core.errors import PalaestraError
from palaestra.core.plugins import nearest
from palaestra.core.wording.error_topics import pointed

if TYPE_CHECKING:
    from palaestra.sdk.areas import MakesAreas

_DESCRIPTION = """\
{summary}

Without options it plays on its own: its agents follow their heuristic or a trained model.
A trainer starts it with --mlagents-port, as it starts builds of Unity:

  palaestra learn SETTINGS.yaml --env {file} --run-id first

ML-Agents' own trainer starts only what looks like a build of Unity, so write a launcher once (not on Windows):

  python -m palaestra.sdk pack {file} --out Game.x86_64
  mlagents-learn SETTINGS.yaml --env Game.x86_64 --run-id first

A trainer that waits for Unity's Editor takes a game that is started by hand, too:

  palaestra learn SETTINGS.yaml --env editor
  python {file} --mlagents-port 5004
"""
_TRUE, _FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


def run(game: MakesAreas, argv: Sequence[str]) -> int:
    """Plays and returns the exit code: 0, 1 for an error, 2 for a wrong command line, 128 + N for signal N."""
    parser = _parser(game)
    arguments, unknown = parser.parse_known_args([_plain(word) for word in argv])
    mistyped = [word for word in unknown if word.startswith("--")]
    if mistyped and arguments.port is None:
        flags = [flag for action in parser._actions for flag in action.option_strings]
        parser.error(f"unknown option {mistyped[0]}{nearest(mistyped[0].partition('=')[0], flags)}")
    options = {name: value for name in game.options if (value := getattr(arguments, f"game_{name}", None)) is not None}
    try:
        with _ended_by_signals():
            if arguments.logfile not in (None, "-"):
                _log_to(Path(arguments.logfile))
            _play(game, arguments, options)
    except _Signal as received:
        return 128 + received.number
    except PalaestraError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, PalaestraError):
            traceback.print_exception(error.__cause__)  # the error in the author's code
        print_now(pointed(f"{game.name}: error: {error}", error.topic), sys.stderr)
        return 1
    return 0


def _play(game: MakesAreas, arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    make = partial(game.make_areas, **options)
    if arguments.port is not None:
        from palaestra.sdk.protocol.client import serve  # imports gRPC

        serve(make, arguments.port)
        return
    from palaestra.sdk.standalone import StandalonePlayer

    StandalonePlayer(make(1, arguments.seed), arguments.model, arguments.time_scale, arguments.seed).play(
        arguments.episodes
    )


# The command line


def _parser(game: MakesAreas) -> argparse.ArgumentParser:
    file = Path(sys.argv[0]).name if sys.argv[0].endswith(".py") else "game.py"
    parser = argparse.ArgumentParser(
        description=_DESCRIPTION.format(summary=game.summary, file=file),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog="With --mlagents-port, unknown options are ignored, as Unity players do.",
    )
    standalone = parser.add_argument_group("on its own")
    standalone.add_argument("--episodes", type=_count, metavar="N", help="number of episodes to play (default: no end)")
    standalone.add_argument(
        "--model", action="append", default=[], metavar="BEHAVIOR=FILE.onnx", help="model of a behavior"
    )
    standalone.add_argument(
        "--time-scale", type=float, default=1.0, metavar="X", help="speed, 1: 50 steps a second (default); 0: no limit"
    )
    standalone.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
    trainer = parser.add_argument_group("with a trainer, which sets these")
    trainer.add_argument("--mlagents-port", dest="port", type=int, metavar="N", help="port of the trainer")
    trainer.add_argument("-logFile", dest="logfile", metavar="FILE", help="file for the output; -: the terminal")
    trainer.add_argument("-nographics", "-batchmode", action="store_true", help="ignored")
    if game.options:
        own = parser.add_argument_group("options of this game")
        for option in game.options.values():
            _add(own, parser, option)
    return parser


def _add(group: Any, parser: argparse.ArgumentParser, option: Parameter) -> None:
    if option.kind is Parameter.VAR_KEYWORD:
        return
    needed = option.default is Parameter.empty
    note = option.annotation if isinstance(option.annotation, str) else getattr(option.annotation, "__name__", "")
    kinds = {"int": int, "float": float, "bool": _truth, "str": str}
    kind = kinds.get(note if needed or option.default is None else type(option.default).__name__, str)
    flag = f"--{option.name.replace('_', '-')}"
    if any(flag in action.option_strings for action in parser._actions):
        flag = f"--game-{option.name.replace('_', '-')}"
    text = "must be given" if needed else f"default: {option.default}"
    group.add_argument(flag, dest=f"game_{option.name}", type=kind, required=needed, metavar="VALUE", help=text)


def _plain(word: str) -> str:
    """Returns an option of Unity's in its usual case; Unity accepts any."""
    return next((own for own in ("-logFile", "-nographics", "-batchmode") if word.lower() == own.lower()), word)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} episodes; expected 1 or more")
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise argparse.ArgumentTypeError(f"'{text}' is neither true nor false")
    return text.lower() in _TRUE


# The process


class _Signal(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise _Signal(number)

    former = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _log_to(file: Path) -> None:
    """Redirects output, also of children, to a new file, line by line, so that a crash loses none of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as opened:
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            flush(stream)
            os.dup2(opened.fileno(), number)
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(line_buffering=True)
