"""Selects the files of a run that are pushed: models, settings, metrics, pictures and a checkpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from filecmp import cmp
from itertools import combinations
from pathlib import Path
from typing import Literal, get_args

from palaestra.hub.contents import LOGS

Kept = Literal["newest", "all", "none"]
KINDS: tuple[Kept, ...] = get_args(Kept)
CARD, SETTINGS_JSON, REPLAY = "README.md", "config.json", "replay.mp4"
"""Files that a push makes: model card, settings as JSON, and the recording by the name that the Hub's page plays."""
_ALWAYS = re.compile(
    r"configuration\.yaml|metrics\.jsonl|curves\.png|league\.(json|png)|[^/]+\.(onnx|nn|gif|mp4|webm)"
    r"|[^/]+/[^/]+\.(onnx|nn)|[^/]+/events\.out\.tfevents\.[\w.-]+"
)
_CHECKPOINT = re.compile(r"(?P<best>[^/]+/best/)?checkpoints/(?:(?P<step>\d+)|shared)/[^/]+\.(safetensors|json)")
_ONLY_ALL = re.compile(r"[^/]+/snapshots/[^/]+\.safetensors|[^/]+/[^/]+-\d+\.pt")
_THEIRS = re.compile(r"[^/]+/checkpoint\.pt")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Files of a run, by their paths within it."""

    files: tuple[str, ...]
    left_out: tuple[str, ...]


def choose(run: Path, checkpoints: Kept) -> Chosen:
    """Chooses what is pushed. Links are left out, since they may lead to any place, and so are duplicate recordings."""
    found = sorted(_files(run))
    steps = [
        int(match["step"])
        for path in found
        if (match := _CHECKPOINT.fullmatch(path)) and match["step"] and not match["best"]
    ]
    newest = max(steps, default=None)
    taken = [path for path in found if _is_taken(path, checkpoints, newest) and not (run / path).is_symlink()]
    films = sorted((path for path in taken if path.endswith((".gif", ".mp4", ".webm"))), key=len)
    twice = {later for first, later in combinations(films, 2) if cmp(run / first, run / later, shallow=False)}
    taken = [path for path in taken if path not in twice]
    return Chosen(tuple(taken), tuple(sorted(set(found) - set(taken))))


def is_pushed(path: str) -> bool:
    """Whether a push writes a file of this path in a repository, so that a later push may remove it."""
    return path in (SETTINGS_JSON, REPLAY) or _is_taken(path, "all", None)


def _is_taken(path: str, checkpoints: Kept, newest: int | None) -> bool:
    if any(part.startswith(".") for part in path.split("/")):
        return False
    if path.startswith("run_logs/"):
        return path in LOGS
    if checkpoints != "none":
        match = _CHECKPOINT.fullmatch(path)
        if match is not None:
            return checkpoints == "all" or match["step"] is None or bool(match["best"]) or int(match["step"]) == newest
        if _THEIRS.fullmatch(path) or (checkpoints == "all" and _ONLY_ALL.fullmatch(path)):
            return True
    return bool(_ALWAYS.fullmatch(path))


def _files(run: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(run):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            yield (Path(folder) / name).relative_to(run).as_posix()
