"""Output in a notebook: whether there is one, and a line of it that changes in place."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

PAUSE = 0.5
"""Least seconds between two changes of a line: each is a message to the browser."""


def in_notebook() -> bool:
    """Whether what this program prints appears in a notebook's cell."""
    ipython = sys.modules.get("IPython")
    if ipython is None or type(sys.stdout).__module__.partition(".")[0] not in ("ipykernel", "google"):
        return False
    with suppress(Exception):  # what another program has put into its place
        return ipython.get_ipython() is not None
    return False


class NotebookLines:
    """Lines below a cell, each with a bar in front, that change in place; they stay when they are no longer changed."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, lines: Sequence[tuple[float | None, str]]) -> None:
        """Shows lines in place of those before; each has the share that is done, which draws its bar, and a text."""
        if not lines:
            return
        from IPython.display import display

        shown = _Lines(lines)
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)


class _Lines:
    def __init__(self, lines: Sequence[tuple[float | None, str]]) -> None:
        self._lines = lines

    def __repr__(self) -> str:
        return "\n".join(text for _, text in self._lines)

    def _repr_html_(self) -> str:
        rows = []
        for share, text in self._lines:
            done = "" if share is None else f'<progress value="{share:.4f}" max="1" style="width:180px"></progress> '
            rows.append(f"<div>{done}{html.escape(text)}</div>")
        return "".join(rows)
