"""Downloads models and runs that `hub:` names to the library's cache, so that later calls read them without a network
too."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from palaestra.core.errors import HubError
from palaestra.core.files import read_whole_text
from palaestra.hub.contents import CONFIGURATION, STATUS, Contents, contents_of, models, must_be_run
from palaestra.hub.hub_client import Listing, RemoteFile, Unreachable, cache, download, host, library, list_files
from palaestra.hub.hub_names import HubName, is_hub_name, read_name

RESERVE = 200_000_000
"""Bytes that a download leaves free on the disk."""


def fetch_model(text: str) -> Path:
    """Returns the model file that `hub:user/repository[/FILE.onnx][@REVISION]` names, from the cache or downloaded.

    Without a file name, it is the only model of the repository. Raises HubError or ConfigError.
    """
    name = read_name(text)
    contents = look(name)
    path = _chosen(name, contents)
    beside = {CONFIGURATION, STATUS} & contents.paths
    return _fetch(name, contents, [path, *beside]) / path


def fetch_run(text: str) -> Path:
    """Returns a folder with the settings, the list of models and the models of a run, from the cache or downloaded."""
    name = read_name(text)
    contents = look(name)
    must_be_run(contents)
    wanted = [path for path in contents.paths if path in (CONFIGURATION, STATUS) or path.endswith(".onnx")]
    folder = _fetch(name, contents, wanted)
    order_by_age(folder)
    return folder


def fetch_checkpoint(text: str) -> Path:
    """Returns a folder, for this process only, with a run's newest checkpoint or the one at `@STEP`."""
    name = read_name(text)
    contents = look(name)
    steps = checkpoint_steps(contents.paths)
    theirs = [path for path in contents.paths if path.endswith("/checkpoint.pt")]  # of ML-Agents
    if not steps and not theirs:
        raise HubError(f"{name.repo} has no checkpoint to start from, only models: its owner pushed it without one")
    if name.step is not None and name.step not in steps:
        raise HubError(
            f"{name.repo} has no checkpoint of step {name.step} (it has: "
            f"{', '.join(map(str, sorted(steps))) or 'none'})"
        )
    parts = [f"checkpoints/{max(steps) if name.step is None else name.step}/", "checkpoints/shared/"] if steps else []
    wanted = [path for path in contents.paths if path in (CONFIGURATION, STATUS) or path.startswith(tuple(parts))]
    return _without_links(_fetch(name, contents, [*wanted, *(theirs if not steps else ())]), name.short)


def checkpoint_folder(path: str) -> Path:
    """Returns a path unchanged, or the folder with a checkpoint of the run that `hub:` names."""
    return fetch_checkpoint(path) if is_hub_name(path) else Path(path)


def _without_links(folder: Path, called: str) -> Path:
    """Returns a temporary folder with the same files: the cache keeps links, which a checkpoint may not have."""
    place = Path(tempfile.mkdtemp(prefix="palaestra-hub-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for path in (path for path in folder.rglob("*") if path.is_file()):
        target = place / called / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return place / called


def checkpoint_steps(paths: Iterable[str]) -> set[int]:
    """Returns the steps of the checkpoints."""
    split = [path.split("/") for path in paths]
    return {int(parts[1]) for parts in split if len(parts) == 3 and parts[0] == "checkpoints" and parts[1].isdecimal()}


def look(name: HubName) -> Contents:
    """Lists the files of a repository; without a network, the files of it that the cache has. Raises HubError."""
    try:
        return contents_of(list_files(name))
    except Unreachable:
        kept = _cached(name)
        if kept is None:
            raise
        return contents_of(kept)


def must_fit(size: int, folder: Path, what: str) -> None:
    """Raises HubError if the disk has no room for this many bytes."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    if size + RESERVE > free:
        raise HubError(f"{what} needs {size / 1e9:.1f} GB, and the disk of {folder} has {free / 1e9:.1f} GB left")


def order_by_age(folder: Path) -> None:
    """Sets the times of model files to those in the run's list, since the newest model is played."""
    listed: dict[str, float] = {}
    with suppress(OSError, ValueError, RecursionError):
        for section in json.loads(read_whole_text(folder / STATUS)).values():
            if not isinstance(section, dict):
                continue
            final = section.get("final_checkpoint")
            for entry in (*section.get("checkpoints", ()), *((final,) if final else ())):
                if isinstance(entry, dict) and isinstance(entry.get("creation_time"), int | float):
                    listed[Path(str(entry.get("file_path")).replace("\\", "/")).name] = float(entry["creation_time"])
    files = {path: listed.get(path.name, -1.0) for path in folder.rglob("*.onnx")}
    for order, (path, created) in enumerate(
        sorted(files.items(), key=lambda item: (item[1] < 0, item[1], _step(item[0])))
    ):
        when = (
            created
            if 0 <= created < 2**33
            else max((time for time in files.values() if time < 2**33), default=0.0) + 1 + order
        )
        with suppress(OSError, OverflowError):
            os.utime(path, (when, when))


def _step(model: Path) -> float:
    step = model.stem.rpartition("-")[2]
    return float(step) if step.isdecimal() else float("inf")


def _chosen(name: HubName, contents: Contents) -> str:
    if name.file is not None:
        if name.file in contents.paths:
            return name.file
        there = ", ".join(sorted(path for path in contents.paths if path.endswith(".onnx"))) or "none"
        raise HubError(f"{name.repo} has no file '{name.file}' (models there: {there})")
    must_be_run(contents)
    if name.step is not None:
        ending = f"-{name.step}.onnx"
        found = {path: path for path in contents.paths if path.endswith(ending)}
    else:
        found = models(contents.paths) or {path: path for path in contents.paths if path.endswith(".onnx")}
    if len(found) != 1:
        listed = ", ".join(f"hub:{name.repo}/{path}" for path in sorted(found.values()))
        what = f"several models, one each for a behavior: name one of {listed}" if found else "no such model (.onnx)"
        raise HubError(f"{name.repo} has {what}")
    return next(iter(found.values()))


def _fetch(name: HubName, contents: Contents, wanted: Iterable[str]) -> Path:
    chosen = contents.only(wanted)
    listing = contents.listing
    must_fit(chosen.size, Path(cache()), f"{name.repo} on {host()}")
    root: Path | None = None
    for file in sorted(chosen.files, key=lambda file: file.size):
        if root is None and name.revision != listing.commit:
            download(listing.repo, file.path, name.revision or "main")  # the cache then remembers the branch
        local = download(listing.repo, file.path, listing.commit)
        root = Path(*local.parts[: len(local.parts) - len(file.path.split("/"))])
    if root is None:
        raise HubError(f"{name.repo} has none of the files that are needed")
    return root


def _cached(name: HubName) -> Listing | None:
    hub = library()
    with suppress(Exception):
        folder = Path(
            hub.snapshot_download(name.repo, revision=name.revision, cache_dir=cache(), local_files_only=True)
        )
        paths = [path for path in folder.rglob("*") if path.is_file()]
        files = [RemoteFile(path.relative_to(folder).as_posix(), path.stat().st_size, None, None) for path in paths]
        return Listing(name.repo, folder.name, tuple(files), private=False) if files else None
    return None
