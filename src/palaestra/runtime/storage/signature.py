"""Signs a run's folder, so that the folders that this user wrote can be told from others.

The signature covers everything in the folder's settings that runs code. Its key is in the user's configuration folder,
never in a run's. A copied folder keeps its signature, which cannot be forged without the key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from palaestra.core.files import read_whole, write_whole
from palaestra.rewards.settings import REWARDS, RewardSettings
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.settings.draft import dotted
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.storage.outward import calls, listens
from palaestra.trainers.behavior_settings import BehaviorSettings

SIGNATURE = Path("run_logs", "signature")
"""Path of the signature in a run's folder."""
KEY = "signing.key"
KEY_BYTES = 32
MOST = 4
"""Signatures that a folder keeps, the newest first."""


def sign(folder: Path, settings: RunSettings) -> None:
    """Marks a run's folder as the user's own. Has no effect if no key can be kept or the folder cannot be written."""
    key = signing_key()
    if key is not None:
        with suppress(OSError):
            (folder / SIGNATURE).parent.mkdir(exist_ok=True)
            now = _signature(key, settings).encode()
            lines = [now, *(line for line in _lines(folder) if line != now)][:MOST]
            write_whole(folder / SIGNATURE, b"".join(line + b"\n" for line in lines))


def is_own(folder: Path, settings: RunSettings) -> bool:
    """Whether this user wrote the folder's settings on this machine, or trusted them before."""
    lines = _lines(folder)
    key = signing_key() if lines else None
    return key is not None and any(hmac.compare_digest(line, _signature(key, settings).encode()) for line in lines)


def _lines(folder: Path) -> list[bytes]:
    """Returns the signatures in a folder: its settings', before them others that it had, and those of the best trial of
    a search.
    """
    try:
        return read_whole(folder / SIGNATURE, 1024).split()[:MOST]
    except OSError:
        return []


def signing_key() -> bytes | None:
    """Returns the user's key for signatures."""
    return user_key(KEY)


def user_key(name: str) -> bytes | None:
    """Returns a secret of the user, which the first call makes; None if there is no folder that only the user can write
    to.
    """
    with suppress(OSError):  # no folder for temporary files at all
        for folder in _key_folders():
            with suppress(OSError):
                return _key_in(folder, name)
    return None


def _key_folders() -> Iterator[Path]:
    """Yields the user's configuration folder, then a folder for this user among temporary files."""
    with suppress(RuntimeError):  # there is no home folder
        configuration = platformdirs.user_config_path("palaestra", appauthor=False)
        if configuration.is_absolute():
            yield configuration
    user = str(os.getuid()) if sys.platform != "win32" else "user"
    yield Path(tempfile.gettempdir()) / f"palaestra-{user}"


def _key_in(folder: Path, name: str) -> bytes:
    """Reads the key, or makes it. Raises OSError if it cannot be made, or other users may have read it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _must_be_private(folder, stat.S_IWGRP | stat.S_IWOTH)
    file = folder / name
    if not file.exists():
        _make_key(file)
    _must_be_private(file, stat.S_IRWXG | stat.S_IRWXO)
    key = read_whole(file)
    if len(key) != KEY_BYTES:
        raise OSError(f"{file} is damaged")
    return key


def _make_key(file: Path) -> None:
    """Makes a key in one step. Keeps the key of another process that makes one at the same time."""
    beside = file.with_name(f".{file.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as out:
            out.write(secrets.token_bytes(KEY_BYTES))
        with suppress(FileExistsError):
            os.link(beside, file)
    finally:
        with suppress(OSError):
            beside.unlink()


def _must_be_private(path: Path, forbidden: int) -> None:
    if sys.platform == "win32":  # both folders belong to the user there
        return
    found = path.stat()
    if found.st_uid != os.getuid() or found.st_mode & forbidden:
        raise OSError(f"{path} can be changed or read by other users")


def _signature(key: bytes, settings: RunSettings) -> str:
    text = json.dumps(_signed(settings), sort_keys=True, default=str)
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _signed(settings: RunSettings) -> dict[str, Any]:
    """Returns the settings that determine which code runs, and with which arguments."""
    place = settings.env_settings
    env = {key: getattr(place, key) for key in ("env_path", "env_args", "env_options", "side_channels")}
    signed = {"env_settings": env, "behaviors": {dotted(at): _named(block) for at, block in blocks_of(settings)}}
    if trackers := user_trackers(settings):  # only then: signatures of folders without any stay valid
        signed["trackers"] = trackers
    if reach := [*listens(settings), *calls(settings)]:
        signed["reach"] = [f"{dotted(path)} = {value}" for path, value in reach]
    if settings.search is not None:  # only in the folder of a study: choices may name code
        signed["search"] = {
            path: each.choice for path, each in settings.search.space.items() if each.choice is not None
        }
    return signed


def user_trackers(settings: RunSettings) -> dict[str, Any]:
    """Returns the options of each tracker that is given as `module:Class`, and so is the user's code."""
    return {name: options for name, options in settings.trackers.items() if ":" in name}


def _named(block: BehaviorSettings) -> dict[str, Any]:
    networks = {"": [block.network_settings.vis_encode_type, block.network_settings.body]}
    return {
        "trainer_type": block.trainer_type,
        "networks": networks | {name: signal_modules(name, signal) for name, signal in block.reward_signals.items()},
        "teacher": getattr(block.hyperparameters, "teacher", None),
        "opponents": block.self_play.opponents if block.self_play else (),
    }


def signal_modules(name: str, signal: RewardSettings) -> list[str | None]:
    """Returns encoder and body of a reward signal's network. For a user-defined signal, only those given as
    `module:Class`.
    """
    network = getattr(signal, "network_settings", None)  # a map where the signal's class was not imported
    found = [
        network.get(key) if isinstance(network, Mapping) else getattr(network, key, None)
        for key in ("vis_encode_type", "body")
    ]
    return found if name in REWARDS else [value if isinstance(value, str) and ":" in value else None for value in found]


def blocks_of(settings: RunSettings) -> Iterator[tuple[Key, BehaviorSettings]]:
    """Yields every behavior's block and its path."""
    for name, block in settings.behaviors.items():
        yield ("behaviors", name), block
    if settings.default_settings:
        yield ("default_settings",), settings.default_settings
