"""Tags and a note that people give a run: `run_logs/notes.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from palaestra.core.errors import RunError
from palaestra.core.files import explain, write_whole

NOTES = Path("run_logs", "notes.json")
MOST_TAGS, LONGEST_TAG, LONGEST_NOTE = 20, 40, 4000


@dataclass(frozen=True, slots=True)
class RunNotes:
    """Tags and a note."""

    tags: tuple[str, ...] = ()
    note: str = ""

    @staticmethod
    def of(data: object) -> RunNotes:
        """Reads the notes that `write_notes` wrote; any other content counts as empty."""
        if not isinstance(data, dict):
            return RunNotes()
        tags, note = data.get("tags"), data.get("note")
        kept = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
        return RunNotes(clean_tags(kept), note[:LONGEST_NOTE] if isinstance(note, str) else "")


def clean_tags(words: list[str]) -> tuple[str, ...]:
    """Returns each tag once, without spaces around it, limited in number and length."""
    found = dict.fromkeys(" ".join(word.split())[:LONGEST_TAG] for word in words)
    return tuple(tag for tag in found if tag)[:MOST_TAGS]


def write_notes(run: Path, notes: RunNotes) -> None:
    """Writes the notes into the run's folder. Raises RunError."""
    file = run / NOTES
    try:
        file.parent.mkdir(exist_ok=True)
        text = json.dumps({"tags": list(notes.tags), "note": notes.note}, ensure_ascii=False, indent=1)
        write_whole(file, text.encode("utf-8", "replace"))
    except OSError as error:
        raise RunError(f"cannot write {file}: {explain(error)}") from error
