"""Chooses the files of a repository to download: names are checked before anything is written, and only data is
downloaded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from palaestra.core.display import escaped, listed, shortened
from palaestra.core.errors import HubError
from palaestra.core.files import file_name
from palaestra.hub.hub_client import Listing, RemoteFile

CONFIGURATION = "configuration.yaml"
STATUS = "run_logs/training_status.json"
LOGS = frozenset((STATUS, "run_logs/timers.json"))
"""Files of `run_logs` that are uploaded; other files are requests, locks, signatures and logs of one machine."""
_FORMATS = ("onnx", "nn", "pt", "hdf5", "safetensors", "demo")
_TEXTS = ("yaml", "yml", "json", "jsonl", "csv", "md", "txt")
_PICTURES = ("png", "jpg", "jpeg", "gif", "mp4", "webm")
DATA = frozenset((*_FORMATS, *_TEXTS, *_PICTURES))
"""Endings of files that an uploaded run may have. Other files, such as programs, are left out."""
_EVENTS = re.compile(r"events\.out\.tfevents\.[\w.-]+")
_UNSAFE = re.compile(r"[\\:\x00-\x1f\x7f]")
_DEEPEST, _LONGEST = 8, 400
_MODEL = re.compile(r"(?P<behavior>.+)/(?P<name>[^/]+)-(?P<step>\d{1,19})\.onnx")


@dataclass(frozen=True, slots=True)
class Contents:
    """Files of a repository that are downloaded or uploaded, and files that are left out."""

    listing: Listing
    files: tuple[RemoteFile, ...]
    left_out: tuple[str, ...]

    @property
    def paths(self) -> frozenset[str]:
        """Paths of the files that are downloaded or uploaded."""
        return frozenset(file.path for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files that are downloaded or uploaded."""
        return sum(file.size for file in self.files)

    def only(self, wanted: Iterable[str]) -> Contents:
        """Returns the same contents with only the wanted files."""
        kept = frozenset(wanted)
        return Contents(self.listing, tuple(file for file in self.files if file.path in kept), self.left_out)


def contents_of(listing: Listing) -> Contents:
    """Chooses the files to download. Raises HubError for a name that leads out of its folder or is ambiguous."""
    taken: dict[str, RemoteFile] = {}
    left: list[str] = []
    for file in listing.files:
        _must_be_safe(file.path, listing.repo)
        if not belongs(file.path):
            left.append(file.path)
            continue
        other = taken.setdefault(file.path.casefold(), file)
        if other is not file:
            raise HubError(
                f"{listing.repo} has two names for one file on some systems: '{other.path}' and '{file.path}'; "
                "nothing was downloaded"
            )
    return Contents(listing, tuple(taken.values()), tuple(left))


def belongs(path: str) -> bool:
    """Whether a file is data of a run: not hidden, not a program, not a log of one machine."""
    parts = path.split("/")
    if any(part.startswith(".") or file_name(part) != part for part in parts):
        return False
    if parts[0].casefold() == "run_logs":
        return path in LOGS
    name = parts[-1]
    return bool(_EVENTS.fullmatch(name)) or name == "LICENSE" or name.rpartition(".")[2].lower() in DATA


def models(paths: Iterable[str]) -> dict[str, str]:
    """Returns the final model of each behavior, else its newest, by the behavior's file name."""
    finals: dict[str, str] = {}
    newest: dict[str, tuple[int, str]] = {}
    for path in paths:
        match = _MODEL.fullmatch(path)
        if match is not None and match["behavior"].rpartition("/")[2] == match["name"]:
            step = int(match["step"])
            newest[match["name"]] = max(newest.get(match["name"], (-1, "")), (step, path))
        elif path.endswith(".onnx") and "/" not in path:
            finals[path.removesuffix(".onnx")] = path
    finals = {
        name: path
        for name, path in finals.items()
        if name.removesuffix("-best") == name or name.removesuffix("-best") not in finals
    }
    return {**{name: path for name, (_, path) in newest.items()}, **finals}


def is_run(paths: Iterable[str]) -> bool:
    """Whether a repository has the settings or a model of a run."""
    there = frozenset(paths)
    return any(path.endswith((".onnx", ".nn")) for path in there) or (CONFIGURATION in there and STATUS in there)


def must_be_run(contents: Contents) -> None:
    """Raises HubError for a repository that holds no run."""
    if is_run(contents.paths):
        return
    there = [shortened(escaped(file.path), 60) for file in contents.listing.files if not file.path.startswith(".")]
    has = listed(there) or "nothing"
    raise HubError(f"{contents.listing.repo} is no run of Palaestra or ML-Agents: it has no model (.onnx), but {has}")


def _must_be_safe(path: str, repo: str) -> None:
    parts = path.split("/")
    if (
        _UNSAFE.search(path)
        or any(part in ("", ".", "..") for part in parts)
        or len(parts) > _DEEPEST
        or len(path) > _LONGEST
    ):
        raise HubError(
            f"{repo} has a file with an unsafe name, '{shortened(escaped(path))}', which may lead to another place; "
            "nothing was downloaded"
        )
