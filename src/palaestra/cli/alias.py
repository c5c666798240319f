"""Make `mlagents-learn` run `palaestra learn`, for scripts that call it.

Writes the commands mlagents-learn and mlagents-run-experiment next to the other commands of this Python environment.
Commands of an installed ML-Agents are not changed without --force, which renames them until --remove restores them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

from palaestra.cli.flags import option, switch
from palaestra.core.display import shown_path
from palaestra.core.errors import RunError
from palaestra.core.files import expanded, explain, regular, write_whole
from palaestra.core.plugins import own_python

EXAMPLES = """\
palaestra alias
palaestra alias --dir ~/bin
palaestra alias --remove
"""

ALIASES = {"mlagents-learn": "learn", "mlagents-run-experiment": "learn"}
"""Commands of ML-Agents, and the command of Palaestra that each of them runs."""
MARK = "written by palaestra alias"
"""Words in each file by which a later call recognizes it."""
ASIDE = ".original"
"""Ending of the name of a command that was set aside."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra alias`."""
    option(parser, "--dir", "DIR", "folder to write to (default: the folder of this environment's commands)", type=Path)
    switch(parser, "--force", "also where ML-Agents' own command would no longer be found")
    switch(parser, "--remove", "remove the commands again, and restore commands that were set aside")


def main(options: argparse.Namespace) -> None:
    """Writes or removes the commands. Raises RunError."""
    folder = expanded(options.dir or Path(sysconfig.get_path("scripts"))).absolute()
    if options.remove:
        for path, restored in remove(folder).items():
            print(f"Removed {shown_path(path)}" + (", and brought back what it had replaced" if restored else ""))
        return
    for path, command in install(folder, force=options.force).items():
        print(f"Wrote {shown_path(path)} (runs `palaestra {command}`)")
        found = _found(path.stem)
        if found is None:
            print(f"  {shown_path(folder)} is not in PATH: add it, or call the command by its whole path")
        elif not found.samefile(path):
            print(f"  {found} comes first in PATH, so the name runs it")


def install(folder: Path, *, force: bool = False) -> dict[Path, str]:
    """Writes all aliases to a folder, or none. Returns the aliases' files, each with the command of Palaestra that it
    runs.

    Raises RunError if a command of that name exists in the folder or in PATH; with `force`, a command in the folder is
    renamed instead.
    """
    files = {_file(folder, name): command for name, command in ALIASES.items()}
    for path in files:
        other = next(filter(_is_foreign, _rivals(path)), _found(path.stem))
        if other is not None and _is_foreign(other) and not force:
            raise RunError(
                f"{other} exists and was not written by this command, so ML-Agents' own is probably installed; "
                "--force installs ours anyway, --dir writes ours elsewhere"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, command in files.items():
            for other in filter(_is_foreign, _rivals(path)):
                other.replace(other.with_name(other.name + ASIDE))
            write_whole(path, _script(command).encode())
            path.chmod(0o755)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {explain(error)}; --dir names another folder") from error
    return files


def remove(folder: Path) -> dict[Path, bool]:
    """Removes the aliases from a folder. Returns their files, each with whether it had replaced a command.

    Raises RunError if there are none.
    """
    files = [path for name in ALIASES if _is_ours(path := _file(folder, name))]
    if not files:
        raise RunError(f"there is nothing to remove: no command in {folder} was {MARK}")
    removed = dict[Path, bool]()
    try:
        for path in files:
            path.unlink()
            removed[path] = False
            for other in _rivals(path):
                aside = other.with_name(other.name + ASIDE)
                if aside.exists():
                    aside.replace(other)
                    removed[path] = True
    except OSError as error:
        raise RunError(f"cannot change {folder}: {explain(error)}") from error
    return removed


def _file(folder: Path, name: str) -> Path:
    return folder / (f"{name}.cmd" if os.name == "nt" else name)


def _rivals(path: Path) -> list[Path]:
    """Returns the files in an alias's folder that its name would run: on Windows a program goes before a script."""
    return [path.with_suffix(".exe"), path] if os.name == "nt" else [path]


def _script(command: str) -> str:
    words = own_python("palaestra", command)
    if os.name == "nt":
        return f"@rem {MARK}\r\n@{subprocess.list2cmdline(words)} %*\r\n"
    return f'#!/bin/sh\n# {MARK}\nexec {shlex.join(words)} "$@"\n'


def _found(name: str) -> Path | None:
    found = shutil.which(name)
    return None if found is None else Path(found)


def _is_ours(path: Path) -> bool:
    try:
        with open(path, "rb", opener=regular) as file:
            return MARK.encode() in file.read(200)
    except OSError:
        return False


def _is_foreign(path: Path) -> bool:
    return os.path.lexists(path) and not _is_ours(path)
