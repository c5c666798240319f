"""Tables of results, as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from palaestra.core.display import escaped, shortened

MOST_ROWS = 30
"""Rows of a table in a notebook."""
CELL = "padding:2px 12px 2px 0;border:0;background:transparent;white-space:nowrap"


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows of cells under a heading; its first columns are aligned to the left, the others to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    title: str = ""
    """Line above it."""
    notes: Sequence[str] = ()
    """Lines below it."""

    def text(self) -> str:
        """Returns it as lines of text. Control characters in names are escaped."""
        lines = [escaped(self.title)] if self.title else []
        if self.head:
            lines += columns([[escaped(cell) for cell in row] for row in (self.head, *self.rows)], self.left)
        return "\n".join([*lines, *map(escaped, self.notes)])

    def html(self) -> str:
        """Returns it as HTML in the colors of the page around it, light or dark; of a long one the first rows."""
        parts = [f"<div><b>{_safe(self.title)}</b></div>"] if self.title else []
        if self.head:
            rows = [self._html_row("th", self.head), *(self._html_row("td", row) for row in self.rows[:MOST_ROWS])]
            parts.append(f'<table style="border-collapse:collapse;margin:4px 0">{"".join(rows)}</table>')
        more = [f"and {len(self.rows) - MOST_ROWS} more"] if len(self.rows) > MOST_ROWS else []
        parts += [f'<div style="opacity:.75">{_safe(note)}</div>' for note in (*more, *self.notes)]
        return "".join(parts)

    def _html_row(self, tag: str, row: Sequence[str]) -> str:
        sides = ["left" if i < self.left else "right" for i in range(len(row))]
        cells = [
            f'<{tag} style="{CELL};text-align:{side}">{_safe(cell)}</{tag}>'
            for side, cell in zip(sides, row, strict=True)
        ]
        return f'<tr style="background:transparent">{"".join(cells)}</tr>'


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Returns lines of a table, whose first columns are aligned to the left and all others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _safe(text: str) -> str:
    return html.escape(shortened(escaped(text), 120))
