"""Warnings of all ranks of a run, which rank 0 shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MOST = 100
"""Most warnings of one rank that are delivered at once."""


class RankWarnings:
    """Keeps the warnings of a rank until the ranks exchange them. Texts that were shown before are left out."""

    def __init__(self) -> None:
        self._shown = set[str]()
        self._kept = list[str]()

    def add(self, level: str, text: str) -> None:
        """Adds a line of this rank's console."""
        if level != "WARNING" or text in self._shown:
            return
        self._shown.add(text)
        if len(self._kept) < MOST:
            self._kept.append(text)

    def take(self) -> list[str]:
        """Returns the warnings since the last call."""
        kept = self._kept
        self._kept = []
        return kept

    def show(self, found: Sequence[Sequence[str]], warn: Callable[[str], object]) -> None:
        """Shows warnings of the other ranks that rank 0 has not shown yet, each text once."""
        by_text: dict[str, list[int]] = {}
        for rank, texts in enumerate(found):
            for text in texts:
                by_text.setdefault(text, []).append(rank)
        for text, those in by_text.items():
            if text not in self._shown:
                self._shown.add(text)
                warn(f"{'rank' if len(those) == 1 else 'ranks'} {', '.join(map(str, those))}: {text}")
