"""A recording that was written, which plays in a notebook."""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass
from pathlib import Path

from palaestra.core.display import duration, escaped
from palaestra.runtime.presentation.shown import Shown

MOST_BYTES = 20_000_000
"""Largest file that is copied into a notebook, which keeps it."""
VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm"}


@dataclass(frozen=True, slots=True, repr=False)
class Recording(Shown):
    """A recording that was written. A notebook plays it."""

    file: Path
    """The GIF or video."""
    pictures: int
    """Number of pictures in the recording."""
    seconds: float
    """Length of the recording in seconds."""
    bytes: int
    """Size of the file in bytes."""
    notes: tuple[str, ...] = ()
    """Remarks on the recording, for example that it shows other steps than requested."""

    def __str__(self) -> str:
        return "\n".join([*(f"note: {escaped(note)}" for note in self.notes), f"Wrote {self._line()}"])

    def _line(self) -> str:
        pictures = f"{self.pictures} picture{'' if self.pictures == 1 else 's'}"
        return f"{escaped(str(self.file))} ({pictures}, {duration(self.seconds)}, {self.bytes / 1e6:.2f} MB)"

    def _inline(self) -> str:
        below = "<br>".join(html.escape(line) for line in str(self).split("\n"))
        return f'{self._player()}<div style="opacity:.75">{below}</div>'

    def _player(self) -> str:
        """Returns the file itself, as a part of the page; '' if it is gone or too large."""
        try:
            if self.file.stat().st_size > MOST_BYTES:
                return ""
            content = base64.b64encode(self.file.read_bytes()).decode()
        except OSError:
            return ""
        kind = VIDEOS.get(self.file.suffix.lower())
        if kind is None:
            name = html.escape(escaped(self.file.name))
            return f'<img src="data:image/gif;base64,{content}" alt="{name}" style="max-width:100%">'
        source = f'<source src="data:{kind};base64,{content}" type="{kind}">'
        return f'<video controls loop autoplay muted playsinline style="max-width:100%">{source}</video>'
