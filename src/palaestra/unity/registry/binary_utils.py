"""Downloads builds as zip files, once, to the system's temporary folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import yaml

from palaestra.envs.unity import executable
from palaestra.unity.exception import UnityEnvironmentException
from palaestra.unity.logging_util import get_logger

ATTEMPTS = 5
DOWNLOAD_TIMEOUT = 30.0
"""Seconds without data after which a download attempt fails."""


def get_local_binary_path(name: str, url: str, tmp_dir: str | None = None) -> str:
    """Returns the executable of the build in the zip file at `url`. Raises UnityEnvironmentException."""
    folder = Path(
        tmp_dir or tempfile.gettempdir(),
        "ml-agents-binaries",
        "binaries",
        f"{name}-{hashlib.md5(url.encode()).hexdigest()}",
    )
    if found := _executable(folder):
        return found
    reason: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            _fetch(url, folder)
            break
        except (OSError, zipfile.BadZipFile) as error:
            get_logger(__name__).warning(f"could not download {url}: {error}")
            reason = error
            if isinstance(error, FileNotFoundError):
                break
    if found := _executable(folder):
        return found
    raise UnityEnvironmentException(
        f"'{name}': {url} gave no build for this system{'' if reason is None else f' ({reason})'}"
    ) from reason


def load_manifest(place: str) -> dict[str, Any]:
    """Loads YAML from a file or an http address. Raises UnityEnvironmentException if it cannot be read."""
    try:
        if place.startswith(("http://", "https://")):
            with urllib.request.urlopen(place, timeout=DOWNLOAD_TIMEOUT) as answer:
                content = yaml.safe_load(answer.read())
        else:
            content = yaml.safe_load(Path(place).read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise UnityEnvironmentException(f"cannot read the manifest {place}: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("environments"), list):
        raise UnityEnvironmentException(f"the manifest {place} has no list 'environments'")
    return content


def _fetch(url: str, folder: Path) -> None:
    """Downloads and unpacks atomically, since other processes may download the same build."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        archive = Path(unfinished, "archive.zip")
        content = Path(unfinished, "content")
        get_logger(__name__).info(f"downloading {url}")
        with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT) as answer, archive.open("wb") as file:
            shutil.copyfileobj(answer, file)
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(content)
        for file in content.rglob("*"):
            if file.is_file():
                file.chmod(0o755)
        try:
            os.replace(content, folder)
        except OSError:
            if _executable(folder) is None:
                raise


def _executable(folder: Path) -> str | None:
    """Returns the build in a folder or its subfolders."""
    for place in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())):
        if found := executable.find(str(place)):
            return str(found)
    return None
