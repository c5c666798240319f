"""The project's files as these tests read them."""

import ast
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "palaestra"


@cache
def modules() -> dict[str, ast.Module]:
    """Each module of the package by its dotted name."""
    return {dotted(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def dotted(path: Path) -> str:
    """`palaestra.core.specs`; a package goes by its own name."""
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")


@cache
def tracked() -> tuple[Path, ...]:
    """Every file in git that is there."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return tuple(ROOT / name for name in listed if name and (ROOT / name).is_file())


@cache
def documents() -> tuple[Path, ...]:
    """Every Markdown page."""
    return tuple(
        sorted(
            [
                *ROOT.glob("*.md"),
                *(path for top in ("docs", "examples", "configs", "benchmarks") for path in (ROOT / top).rglob("*.md")),
            ]
        )
    )
