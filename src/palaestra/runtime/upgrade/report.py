"""What an upgrade has to say."""

from __future__ import annotations

from dataclasses import dataclass, field

INDENT = "  "
WIDTH = 110


@dataclass(slots=True)
class Report:
    """What became what, and what deserves a word; each said once, however many behaviors it concerns."""

    heading: str = ""  # what the file is
    moves: dict[str, list[str]] = field(default_factory=dict)  # new place: what went there
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def became(self, old: str, new: str) -> None:
        """Counts a key, or group of keys, that moved."""
        olds = self.moves.setdefault(new, [])
        if old not in olds:
            olds.append(old)

    def note(self, sentence: str) -> None:
        """Of the file as a whole."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def warn(self, place: str, sentence: str) -> None:
        """Of a place, 'file:line'."""
        line = f"{place}: {sentence}"
        if line not in self.warnings:
            self.warnings.append(line)

    def text(self) -> str:
        """For people; warnings last, where they are read."""
        lines = [self.heading, *(f"{INDENT}{_listed(olds)} -> {new}" for new, olds in self.moves.items())]
        lines += [f"note: {note}" for note in self.notes] + [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)


def _listed(words: list[str]) -> str:
    text = ", ".join(words)
    if len(text) <= WIDTH:
        return text
    return f"{text[: text.rindex(',', 0, WIDTH)]} and {text.count(',') - text[: text.rindex(',', 0, WIDTH)].count(',')} more"
