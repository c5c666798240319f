"""Libraries that a published page contains: three.js from NiceGUI's wheel, and onnxruntime-web from its npm package.

onnxruntime-web is downloaded once, checked by its digest, and kept in the user's cache.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

from palaestra.core.errors import ConfigError
from palaestra.core.files import explain, write_whole

VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web/-/onnxruntime-web-{VERSION}.tgz"
DIGEST = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
"""SHA-256 of the package."""
REGISTRY = "https://registry.npmjs.org"
TIMEOUT = 60.0
FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm", "ort-wasm-simd-threaded.mjs")


def three_js() -> str:
    """Returns the module with which the page draws its scenes. Raises ConfigError without NiceGUI."""
    try:
        from nicegui.elements import scene
    except ImportError as error:
        raise ConfigError("palaestra publish needs the extra view: pip install 'palaestra[view]'") from error
    return (Path(scene.__file__).parent / "dist" / "index.js").read_text(encoding="utf-8")


def onnxruntime_web() -> dict[str, bytes]:
    """Returns the files of onnxruntime-web by their names. Raises ConfigError if they cannot be downloaded."""
    place = cache_folder() / f"onnxruntime-web-{VERSION}"
    if not all((place / name).is_file() for name in FILES):
        _unpack(_fetched(), place)
    return {name: (place / name).read_bytes() for name in FILES}


def cache_folder() -> Path:
    """Returns the cache folder."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "palaestra"


def _fetched() -> bytes:
    address = f"{os.environ.get('NPM_CONFIG_REGISTRY', REGISTRY).rstrip('/')}/{PACKAGE}"
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            data = answer.read()
    except (OSError, ValueError) as error:  # urllib's errors are OSErrors
        raise ConfigError(f"onnxruntime-web cannot be fetched from {address}: {error}") from error
    if (found := hashlib.sha256(data).hexdigest()) != DIGEST:
        raise ConfigError(f"{address} is another file than expected (SHA-256 {found}, expected {DIGEST})")
    return data


def _unpack(package: bytes, place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as archive:
            for name in FILES:
                file = archive.extractfile(f"package/dist/{name}")
                assert file is not None
                write_whole(place / name, file.read())
    except OSError as error:
        raise ConfigError(f"cannot write {place}: {explain(error)}") from error


def compressed(data: bytes) -> str:
    """Returns data as text, compressed by gzip, which browsers can unpack."""
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()
