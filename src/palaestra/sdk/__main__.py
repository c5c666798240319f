"""`python -m palaestra.sdk GAME ...` plays a game; `python -m palaestra.sdk pack FILE.py` writes a launcher for it."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from palaestra.core.errors import EnvError, PalaestraError, exception_summary
from palaestra.core.files import near_files
from palaestra.core.wording.error_topics import pointed
from palaestra.sdk.game import Game
from palaestra.sdk.launch import run

_HELP = """\
python -m palaestra.sdk FILE.py[:GAME] [options]    play the game in a file; FILE.py --help lists its options
python -m palaestra.sdk MODULE:GAME [options]       play the game in an installed module
python -m palaestra.sdk pack FILE.py [--out FILE]   write a launcher that mlagents-learn accepts as a Unity build
"""


def main(argv: Sequence[str]) -> int:
    """Runs a command line and returns the exit code: 0, 1 for an error that was printed, 2 for a wrong command line."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_HELP, end="", file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    try:
        return _pack(argv[1:]) if argv[0] == "pack" else _run(argv[0], argv[1:])
    except PalaestraError as error:
        print(pointed(f"palaestra.sdk: error: {error}", error.topic), file=sys.stderr)
        return 1


def _pack(argv: Sequence[str]) -> int:
    about = (pack.__doc__ or "").partition("Raises")[0]
    parser = argparse.ArgumentParser(
        "python -m palaestra.sdk pack", description=about, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("game", type=Path, metavar="FILE.py", help="a game whose file ends in GAME.play()")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the launcher (default: next to the game)")
    arguments = parser.parse_args(argv)
    out = pack(arguments.game, arguments.out)
    print(f"Wrote {out}; train with: palaestra learn SETTINGS.yaml --env={arguments.out or out}")
    return 0


def _run(place: str, argv: Sequence[str]) -> int:
    sys.path.insert(0, str(Path.cwd()))
    game = load(place)
    sys.argv[0] = place.partition(".py:")[0]
    return run(game, argv)


def load(place: str) -> Game:
    """Returns the game at 'file.py', 'module:name' or 'file.py:name'; a file with several games needs the name. Raises
    EnvError."""
    source, name = (place, "") if place.endswith(".py") else _split(place)
    module = _file(Path(source)) if source.endswith(".py") else _module(source)
    games = {each: value for each, value in vars(module).items() if isinstance(value, Game)}
    if name in games:
        return games[name]
    if not name and len(games) == 1:
        return next(iter(games.values()))
    if not games:
        raise EnvError(
            f"{source} holds no game; write one as a function that adds agents to an academy, with @sdk.game above it"
        )
    raise EnvError(f"{source} holds {', '.join(games)}; name one of them, such as {source}:{next(iter(games))}")


def _split(place: str) -> tuple[str, str]:
    source, _, name = place.rpartition(":")
    return (source, name) if source else (name, "")


def _file(file: Path) -> ModuleType:
    if not file.is_file():
        raise EnvError(f"there is no file {file}{near_files(file, ['.py'])}")
    sys.path.insert(0, str(file.resolve().parent))  # as if it were run as a script
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # any error of the author's file
        raise EnvError(f"{file} cannot be loaded: {exception_summary(error)}") from error
    return module


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # any error of the author's module
        raise EnvError(
            f"module '{name}' cannot be imported: {exception_summary(error)}; a file is given as a path that ends in "
            ".py"
        ) from error


def pack(game: Path, out: Path | None = None, platform: str = sys.platform) -> Path:
    """Writes a script that runs `game` with this Python and returns the path to pass to the trainer as `--env`.

    The default path is beside the game: Game.x86_64 on Linux, Game.app on macOS, Game.cmd on Windows. The script refers
    to the game's file and to this Python by path, so neither may move.

    Raises EnvError if the game does not exist, or the script cannot be written or could not be started.
    """
    if not game.is_file():
        near = near_files(game, [".py"]) or "; expected a Python file that ends in play(game)"
        raise EnvError(f"there is no file {game}{near}")
    suffix = {"win32": ".cmd", "darwin": ".app"}.get(platform, ".x86_64")
    out = out or game.with_suffix(suffix)
    if platform == "win32" and out.suffix.lower() == ".exe":
        raise EnvError(
            f"{out}: a script cannot be an .exe, and ML-Agents' own trainer starts nothing else on Windows; write "
            "Game.cmd for 'palaestra learn', or train with mlagents-learn without --env and start the game by hand: "
            f"python {game} --mlagents-port 5004"
        )
    if out.suffix == suffix == ".app":
        out = out / "Contents" / "MacOS" / out.stem
    if out.resolve() == game.resolve():
        raise EnvError(f"{out} is the game itself; name another file with --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(_script(game.resolve(), platform), newline="\r\n" if platform == "win32" else "\n")
        out.chmod(0o755)
    except OSError as error:
        raise EnvError(f"cannot write {out}: {error.strerror}") from error
    return out


def _script(game: Path, platform: str) -> str:
    if platform == "win32":
        return f'@"{sys.executable}" "{game}" %*\n'
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(game))} "$@"\n'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
