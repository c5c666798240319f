"""Versions that are written into files and sent to games."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MLAGENTS = "1.1.0"
"""Version of ML-Agents whose file formats Palaestra writes; tools that read the files compare it."""


@cache
def palaestra_version() -> str:
    """Returns the version of the installed package."""
    try:
        return version("palaestra")
    except PackageNotFoundError:
        return "unknown"


@cache
def palaestra_commit() -> str:
    """Returns the commit that this package's repository has checked out, or that it was built from; '' if unknown."""
    built = Path(__file__).parents[1] / "commit.txt"  # hatch_build.py
    return checked_out(Path(__file__).parents[3]) or (built.read_text(encoding="utf-8") if built.is_file() else "")


def checked_out(root: Path) -> str:
    """Returns the commit that is checked out in a repository or one of its work trees; '' if unknown."""
    try:
        folder = root / ".git"
        if folder.is_file():
            folder = root / folder.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (folder / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return _as_commit(head)
        name = head.removeprefix("ref: ")
        shared = folder / "commondir"
        common = folder / shared.read_text(encoding="utf-8").strip() if shared.is_file() else folder
        if (common / name).is_file():
            return _as_commit((common / name).read_text(encoding="utf-8").strip())
        packed = (common / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((_as_commit(line.split()[0]) for line in packed if line.endswith(f" {name}")), "")
    except (OSError, ValueError):
        return ""


def _as_commit(text: str) -> str:
    return text if len(text) in {40, 64} and set(text) <= set("0123456789abcdef") else ""
