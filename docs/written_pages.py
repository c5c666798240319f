"""Writes the pages of a folder that a script makes all of; the scripts `docs/make_*.py` use it."""

from collections.abc import Mapping
from pathlib import Path


def write_folder(folder: Path, made: Mapping[Path, str]) -> None:
    """Writes the Markdown pages of a folder, and removes those that are no longer made."""
    folder.mkdir(exist_ok=True)
    for old in set(folder.glob("*.md")) - set(made):
        old.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    print(f"wrote {len(made)} pages in {folder}")
