"""Tables of results, as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from palaestra.core.display import escaped, shortened

MOST_ROWS = 30
"""Most rows of a table in a notebook."""
NUMBER = re.compile(r"[-+±<>]?[.\d]|(inf|nan|never)\b")
"""Pattern of the begin of a table cell with a number."""
CELL = "padding:2px 12px 2px 0;border:0;background:transparent;white-space:nowrap"


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows of cells under a heading; its first columns and words are aligned to the left, numbers to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    title: str = ""
    """Line above the table."""
    notes: Sequence[str] = ()
    """Lines below the table."""

    def text(self) -> str:
        """Returns the table as lines of text. Control characters in names are escaped."""
        lines = [escaped(self.title)] if self.title else []
        if self.head:
            shown, sides = self._columns()
            lines += columns([[escaped(cell) for cell in row] for row in shown], sides)
        return "\n".join([*lines, *map(escaped, self.notes)])

    def html(self) -> str:
        """Returns the table as HTML in the colors of its page, light or dark; only the first rows of a long table."""
        parts = [f"<div><b>{_safe(self.title)}</b></div>"] if self.title else []
        if self.head:
            shown, sides = self._columns()
            rows = [_html_row("td" if at else "th", row, sides) for at, row in enumerate(shown[: 1 + MOST_ROWS])]
            table = f'<table style="border-collapse:collapse;margin:4px 0">{"".join(rows)}</table>'
            parts.append(f'<div style="overflow-x:auto">{table}</div>')
        more = [f"and {len(self.rows) - MOST_ROWS} more"] if len(self.rows) > MOST_ROWS else []
        parts += [f'<div style="opacity:.75">{_safe(note)}</div>' for note in (*more, *self.notes)]
        return "".join(parts)

    def _columns(self) -> tuple[list[list[str]], list[str]]:
        """Returns head and rows without columns that are empty in all rows, and the side of each column."""
        kept = [i for i in range(len(self.head)) if not self.rows or any(row[i] for row in self.rows)]
        sides = []
        for i in kept:
            cells = [row[i] for row in self.rows if row[i] not in ("", "-")]
            words = bool(cells) and not any(map(NUMBER.match, cells))
            sides.append("left" if i < self.left or words else "right")
        return [[row[i] for i in kept] for row in (self.head, *self.rows)], sides


def columns(rows: Sequence[Sequence[str]], sides: Sequence[str]) -> list[str]:
    """Returns lines of a table, whose columns are aligned to these sides."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if side == "left" else cell.rjust(width)
            for side, cell, width in zip(sides, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _html_row(tag: str, row: Sequence[str], sides: Sequence[str]) -> str:
    cells = [
        f'<{tag} style="{CELL};text-align:{side}">{_safe(cell)}</{tag}>' for side, cell in zip(sides, row, strict=True)
    ]
    return f'<tr style="background:transparent">{"".join(cells)}</tr>'


def _safe(text: str) -> str:
    return html.escape(shortened(escaped(text), 120))
