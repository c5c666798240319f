"""Removes private details from a run's files: paths of the disk, tokens and passwords."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from palaestra.core.files import home, read_whole, regular
from palaestra.hub.hub_client import SECRETS

HIDDEN = "***"
_SECRET_KEY = re.compile(r"(?i)(^|.*[_.-])(token|secret|password|passwd|api_?-?key|access_?-?key|credentials?)$")
_SECRET_WORD = re.compile(
    r"(?i)(?P<key>[\w.-]*(?:token|secret|password|passwd|api[_-]?key|access[_-]?key))(?P<sign>[=:]\s*|\s+)(?P<value>[^\s'\"]+)"
)
_WINDOWS = re.compile(r"(?<![A-Za-z])(?:[A-Za-z]:[\\/]|\\\\)[^'\",;|<>\r\n]*")
_WORDS = re.compile(r"([\s=:,;'\"\[\]()]+)")


class Cleaner:
    """Cleans trees of plain values; records where values had paths of this machine, and where secrets."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.secrets: list[str] = []

    def tree(self, value: Any, at: str = "") -> Any:
        """Returns a tree without private paths and secrets."""
        if isinstance(value, dict):
            return {
                self.text(str(key), at): self._entry(str(key), one, f"{at}.{key}" if at else str(key))
                for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return list(self._items(value, at))
        return self.text(value, at) if isinstance(value, str) else value

    def text(self, text: str, at: str) -> str:
        """Returns a text in which each absolute path is cut to its last part, and without secrets."""
        hidden = _without_secrets(text)
        clean = _without_paths(hidden)
        if hidden != text:
            self.secrets.append(at)
        if clean != hidden:
            self.paths.append(at)
        return clean

    def _entry(self, key: str, value: Any, at: str) -> Any:
        if _SECRET_KEY.fullmatch(key) and isinstance(value, str) and value:
            self.secrets.append(at)
            return HIDDEN
        return self.tree(value, at)

    def _items(self, values: list[Any] | tuple[Any, ...], at: str) -> Iterator[Any]:
        secret = False  # whether the item before was a flag such as --token
        for value in values:
            if secret and isinstance(value, str) and not value.startswith("-"):
                self.secrets.append(at)
                yield HIDDEN
            else:
                yield self.tree(value, at)
            secret = isinstance(value, str) and value.startswith("-") and bool(_SECRET_KEY.fullmatch(value.lstrip("-")))


def shareable(file: Path) -> tuple[bytes | None, dict[str, list[str]]]:
    """Returns the content of a settings or JSON file without secrets (None if unchanged), and a list of removals."""
    cleaner = Cleaner()
    text = read_whole(file).decode("utf-8", "replace")
    tree = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    clean = cleaner.tree(tree)
    found = {"paths of this machine": cleaner.paths, "secrets": cleaner.secrets}
    taken = {what: list(dict.fromkeys(places)) for what, places in found.items() if places}
    if not taken:
        return None, taken
    body = (
        json.dumps(clean, indent=4)
        if file.suffix == ".json"
        else yaml.safe_dump(clean, sort_keys=False, allow_unicode=True)
    )
    return body.encode(), taken


def tells_home(file: Path) -> bool:
    """Whether a file contains the path of the user's home folder, or a token."""
    own = str(home() or "")
    searched = [own.encode() + b"/", own.replace("\\", "\\\\").encode() + b"\\"] if len(own) > 1 else []
    with open(file, "rb", opener=regular) as stream:
        tail = b""
        while block := stream.read(1 << 20):
            block = tail + block
            if any(part in block for part in searched) or _TOKEN.search(block):
                return True
            tail = block[-256:]
    return False


_TOKEN = re.compile(rb"\bhf_[A-Za-z]{30,}\b")


def _without_secrets(text: str) -> str:
    text = SECRETS.sub(HIDDEN, text)
    return _SECRET_WORD.sub(lambda found: f"{found['key']}{found['sign']}{HIDDEN}", text)


def _without_paths(text: str) -> str:
    if _is_absolute(text):
        return _last(text)
    text = _WINDOWS.sub(lambda found: _last(found.group()), text)
    words = [_last(word) if _is_absolute(word) else word for word in _WORDS.split(text)]
    text = "".join(words)
    own = str(home() or "")
    return text.replace(own, "~") if len(own) > 1 else text


def _is_absolute(text: str) -> bool:
    """Whether a text is a path from the root of a disk. A web address has a second slash."""
    return bool(re.match(r"/[^/\s]|~[^/\s]*/|[A-Za-z]:[\\/]|\\\\", text)) and "\n" not in text and "://" not in text


def _last(path: str) -> str:
    return re.split(r"[\\/]", path.rstrip("\\/ "))[-1] or "."
