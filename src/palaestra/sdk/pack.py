"""A launcher of a game, for trainers that start nothing but programs of a Unity build's name: ML-Agents' own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from palaestra.core.errors import EnvError


def pack(game: Path, out: Path | None = None, platform: str = sys.platform) -> Path:
    """Writes a script that runs `game` with this Python, and gives the file to name to the trainer.

    By default it lies beside the game: Game.x86_64 on Linux, Game.app on macOS, Game.cmd on Windows. The game itself is not copied:
    it must stay where it is, and so must this Python.

    Raises EnvError where there is no such game, or the file cannot be written or would not be started.
    """
    if not game.is_file():
        raise EnvError(f"there is no file {game}; expected a Python file that ends in play(game)")
    suffix = {"win32": ".cmd", "darwin": ".app"}.get(platform, ".x86_64")
    out = out or game.with_suffix(suffix)
    if platform == "win32" and out.suffix.lower() == ".exe":
        raise EnvError(
            f"{out}: a script cannot be an .exe, and ML-Agents' own trainer starts nothing else on Windows; write Game.cmd for 'palaestra "
            f"learn', or train with mlagents-learn without --env and start the game by hand: python {game} --mlagents-port 5004"
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
