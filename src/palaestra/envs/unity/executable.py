"""Finds builds of Unity games on disk, and explains why one was not found."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from palaestra.core.display import shown_path

SUFFIXES = (".x86_64", ".x86", ".app", ".exe")
SCRIPT = ".py"
"""Suffix of a game written in Python (palaestra.sdk), which is started with the interpreter of this process."""
# ELF, a script, Mach-O, Mach-O for several processors
_PROGRAMS = (b"\x7fELF", b"#!", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_GYM_NAME = re.compile(r"([\w.]+:)*[\w.-]+/[\w.-]+-v\d+")


def find(name: str, platform: str = sys.platform) -> Path | None:
    """Returns the file to start for a build's name (with or without suffix) or its folder; None if there is no such
    file.

    The path is absolute. Whether the file may be run is checked only at the start.
    """
    if not name.strip():
        return None
    path = _path(name)
    system = _system(platform)
    if is_script(path) and os.path.isfile(path):
        return path
    candidates = [path] if path.suffix.lower() in system.suffixes else []
    for candidate in candidates + system.named(_stem(path)):
        if os.path.isfile(candidate):
            return candidate
    for candidate in (path, _stem(path)):
        if system.runs(candidate):
            return candidate
    for folder in (path, _stem(path)):
        if build := _likeliest(system.inside(folder), folder):
            return build
    return None


def is_script(file: Path | str) -> bool:
    """Whether a file name has the form of a Python program."""
    return str(file).strip().lower().endswith(SCRIPT)


def command(file: Path) -> list[str]:
    """Returns the command line that starts a build, without the build's arguments."""
    return [sys.executable, str(file)] if is_script(file) else [str(file)]


def looks_like_build(name: str) -> bool:
    """Whether a name can only be a file: it has the suffix of a build or a Python program, or is a path.

    Names such as 'ALE/Pong-v5' are excluded, since Gymnasium's ids have this form.
    """
    name = name.strip()
    is_path = name.startswith("~") or "/" in name or "\\" in name
    return name.lower().endswith((*SUFFIXES, SCRIPT)) or (is_path and not _GYM_NAME.fullmatch(name))


def explain_missing(name: str, platform: str = sys.platform) -> str:
    """Explains why `find` returned None: where it looked, what is there instead, and what to do."""
    if not name.strip():
        return "the name of the build is empty"
    path = Path(shown_path(_path(name)))
    system = _system(platform)
    stem = _stem(path)
    script = is_script(path)
    looked = ", ".join(map(str, [path] if script else [*system.named(stem), stem]))
    message = f"found no {'game' if script else f'{system.title} build'} '{name.strip()}' (looked for {looked})"
    several = [build for folder in (path, stem) for build in system.inside(folder)]
    if several:
        return (
            f"{message}; the folder holds several, so name one: "
            f"{', '.join(str(build) for build in dict.fromkeys(several))}"
        )
    if foreign := _foreign(path, system):
        return f"{message}; {foreign[1]} is a {foreign[0]} build: build the game for {system.title} in Unity"
    if os.path.isfile(path):
        return f"{message}; {path} is a file, but none that can be started"
    if os.path.isdir(path):
        return f"{message}; the folder {path} holds no build"
    if not os.path.isdir(path.parent):
        return f"{message}; there is no folder {path.parent}"
    names = {entry.name.lower(): entry.name for entry in _entries(path.parent)}
    near = [names[match] for match in get_close_matches(path.name.lower(), names, n=3)]
    return f"{message}; did you mean {' or '.join(near)}?" if near else message


def _path(name: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(name.strip())))


def _stem(path: Path) -> Path:
    """Returns the path without a build's suffix; parent folders keep theirs."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix) and len(path.name) > len(suffix):
            return path.with_name(path.name[: -len(suffix)])
    return path


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (OSError, ValueError):
        return []


def _likeliest(builds: list[Path], folder: Path) -> Path | None:
    """Returns the only build, or the only one with Unity's data folder beside it, or the one named like the folder."""
    with_data = [build for build in builds if os.path.isdir(build.with_name(f"{_stem(build).name}_Data"))]
    namesakes = [build for build in builds if _stem(build).name == folder.name]
    return next((some[0] for some in (builds, with_data, namesakes) if len(some) == 1), None)


def _foreign(path: Path, here: _System) -> tuple[str, Path] | None:
    """Returns a build for another system at the path: the system's name, and the file or bundle."""
    for other in (system for system in _SYSTEMS.values() if system is not here):
        found = [path, *other.named(_stem(path)), *other.inside(path), *other.inside(_stem(path))]
        for build in found:
            bundle = next((parent for parent in build.parents if parent.suffix == ".app"), build)
            if bundle.suffix.lower() in other.suffixes and os.path.exists(build):
                return other.title, bundle
    return None


@dataclass(frozen=True, slots=True)
class _System:
    title: str
    suffixes: tuple[str, ...]
    named: Callable[[Path], list[Path]]  # candidate files for a name, best first
    inside: Callable[[Path], list[Path]]  # builds in a folder
    runs: Callable[[Path], bool]  # whether a file is a program, whatever its name


def _named_linux(stem: Path) -> list[Path]:
    return [Path(f"{stem}{suffix}") for suffix in (".x86_64", ".x86")]


def _inside_linux(folder: Path) -> list[Path]:
    files = [entry for entry in _entries(folder) if os.path.isfile(entry)]
    for suffix in (".x86_64", ".x86"):
        if builds := [file for file in files if file.name.endswith(suffix)]:
            return builds
    return [file for file in files if os.path.isdir(folder / f"{file.name}_Data")]


def _named_macos(stem: Path) -> list[Path]:
    programs = Path(f"{stem}.app", "Contents", "MacOS")
    files = sorted(
        (entry for entry in _entries(programs) if os.path.isfile(entry)), key=lambda file: not os.access(file, os.X_OK)
    )
    return [programs / stem.name, *(file for file in files if file.name != stem.name)]


def _inside_macos(folder: Path) -> list[Path]:
    bundles = [_named_macos(_stem(entry)) for entry in _entries(folder) if entry.suffix == ".app"]
    programs = [[file for file in files if os.path.isfile(file)] for files in bundles]
    return [files[0] for files in programs if files]


def _named_windows(stem: Path) -> list[Path]:
    return [Path(f"{stem}.exe")]


def _inside_windows(folder: Path) -> list[Path]:
    programs = [entry for entry in _entries(folder) if entry.suffix.lower() == ".exe" and os.path.isfile(entry)]
    return [file for file in programs if not file.name.startswith("UnityCrashHandler")]


def _runs_posix(path: Path) -> bool:
    if not os.path.isfile(path):
        return False
    if os.access(path, os.X_OK):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(4).startswith(_PROGRAMS)
    except OSError:
        return False


def _runs_windows(path: Path) -> bool:
    return path.suffix.lower() in (".exe", ".bat", ".cmd", ".com") and os.path.isfile(path)


_SYSTEMS = {
    "linux": _System("Linux", (".x86_64", ".x86"), _named_linux, _inside_linux, _runs_posix),
    "darwin": _System("macOS", (".app",), _named_macos, _inside_macos, _runs_posix),
    "win32": _System("Windows", (".exe",), _named_windows, _inside_windows, _runs_windows),
}


def _system(platform: str) -> _System:
    return _SYSTEMS.get(platform, _SYSTEMS["linux"])
