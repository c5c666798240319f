"""Recorded conversations of Unity's own package (tests/golden/data/conversations) as messages."""

import re
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from palaestra.wire.messages import UnityMessage

FOLDER = Path(__file__).parents[1] / "golden/data/conversations"
NAMES = ("ball", "coop", "duel", "grid", "hybrid", "spawn")

_HEADING = re.compile(r"^#(\d+) (C# -> PY|PY -> C#) (\d+) bytes\n", re.MULTILINE)


def read(path: Path) -> list[tuple[str, Any]]:
    """Every message in order: ('game' or 'trainer', UnityMessage). A game's request is followed by the trainer's
    answer.
    """
    _, *parts = _HEADING.split(path.read_text("utf-8"))
    return [
        ("game" if arrow == "C# -> PY" else "trainer", text_format.Parse(text, UnityMessage()))
        for arrow, text in zip(parts[1::4], parts[3::4], strict=True)
    ]


def requests(name: str) -> list[bytes]:
    """What the game of a conversation sent, as bytes."""
    return [message.SerializeToString() for direction, message in read(FOLDER / f"{name}.txt") if direction == "game"]
