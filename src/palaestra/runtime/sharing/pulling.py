"""Downloads a run from the Hub into the results folder, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from palaestra.core.errors import HubError, RunError, RunInUse
from palaestra.core.files import explain
from palaestra.hub.contents import CONFIGURATION, STATUS, Contents, contents_of, must_be_run
from palaestra.hub.fetching import must_fit, order_by_age
from palaestra.hub.hub_client import RemoteFile, Unreachable, download, list_files
from palaestra.hub.hub_names import read_repository
from palaestra.runtime.storage.run_folder import RunFolder, check_run_id
from palaestra.runtime.storage.writer_lock import sole_writer

LIBRARY_FOLDER = ".cache"
"""Folder in which `huggingface_hub` notes what it downloads; it is removed at the end."""
PAUSES = (1.0, 3.0)
"""Seconds to wait before an interrupted download is tried again."""
METRICS = ("metrics.jsonl", "curves.png", "README.md")


@dataclass(frozen=True, slots=True)
class Pulled:
    """Result of a pull."""

    folder: Path
    repo: str
    commit: str
    files: int
    size: int
    left_out: tuple[str, ...]
    is_run: bool  # False: it has models, but no settings


def pull(
    repo: str,
    *,
    run_id: str | None = None,
    results_dir: Path | str = "results",
    revision: str | None = None,
    models_only: bool = False,
    force: bool = False,
    report: Callable[[str], object] | None = None,
) -> Pulled:
    """Downloads the run of `user/repository` into `<results_dir>/<run_id>`, which is the repository's name by default.

    >>> import palaestra
    >>> pulled = palaestra.pull("user/repository")
    >>> policy = palaestra.load_policy(pulled.folder)

    An interrupted pull continues where it stopped. Downloaded files are never run or unpickled.

    repo: "user/repository" of the Hugging Face Hub.
    run_id: name of the run on this machine; None: the repository's name.
    results_dir: folder of all runs.
    revision: branch, tag or commit; None: the newest.
    models_only: leave out checkpoints and event files.
    force: replace a run of this name.
    report: a function that is called with each line about the progress.

    Returns `folder`, `repo`, `commit`, the number of `files`, their `size` in bytes, and what was `left_out`. Raises
    PalaestraError.
    """
    name = read_repository(repo, revision)
    run_id = name.short if run_id is None else run_id
    check_run_id(run_id)
    folder = RunFolder(Path(results_dir), run_id)
    _must_be_free(folder, force)
    contents = contents_of(list_files(name))
    must_be_run(contents)
    if models_only:
        kept = (CONFIGURATION, STATUS, *METRICS)
        contents = contents.only(path for path in contents.paths if path in kept or path.endswith((".onnx", ".nn")))
    staging = folder.path.with_name(f".{folder.path.name}.pull")
    must_fit(contents.size, folder.results, f"{name.repo}{'' if models_only else ' (--models-only needs less)'}")
    if report is not None:
        size = f"{len(contents.files)} files ({contents.size / 1e6:.1f} MB)"
        report(f"Pulling {size} of {name.repo} at {contents.listing.commit[:7]}")
    try:
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(staging):
            _download(contents, staging)
            _install(staging, folder, force)
    except OSError as error:
        raise RunError(f"cannot write the run to {folder.path}: {error.filename or ''}: {explain(error)}") from error
    commit = contents.listing.commit
    counts = (len(contents.files), contents.size)
    return Pulled(folder.path, name.repo, commit, *counts, contents.left_out, CONFIGURATION in contents.paths)


def _must_be_free(folder: RunFolder, force: bool) -> None:
    if folder.path.is_file() or (folder.path.is_symlink() and not folder.path.is_dir()):
        raise RunError(f"{folder.path} is a file; choose another name with --run-id")
    if not force and folder.path.is_dir() and any(folder.path.iterdir()):
        raise RunError(
            f"{folder.path} exists already: pull under another name with --run-id=ID, or replace it with --force"
        )


@contextmanager
def _alone(staging: Path) -> Iterator[None]:
    """Keeps another pull of the same run out within the block. Raises RunInUse."""
    lock = FileLock(staging.with_name(f"{staging.name}.lock"))
    with suppress(NotImplementedError):  # a file system without locks
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise RunInUse(f"another pull is writing to {staging}: wait until it ends") from None
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):
                Path(lock.lock_file).unlink()
        lock.release()


def _download(contents: Contents, staging: Path) -> None:
    staging.mkdir(exist_ok=True)
    for file in contents.files:
        target = staging / file.path
        if target.is_file() and not target.is_symlink() and _is_same(target, file):
            continue
        _patiently(contents, file.path, staging)
        if not _is_same(target, file):
            target.unlink(missing_ok=True)
            raise HubError(
                f"{file.path} of {contents.listing.repo} was damaged during the download: its hash differs. Pull again"
            )
    shutil.rmtree(staging / LIBRARY_FOLDER, ignore_errors=True)
    for path in [path for path in staging.rglob("*") if not path.is_dir()]:
        if path.relative_to(staging).as_posix() not in contents.paths:  # of another commit
            path.unlink()
    order_by_age(staging)


def _patiently(contents: Contents, path: str, staging: Path) -> None:
    """Downloads a file, and tries again where the connection breaks off."""
    for wait in (*PAUSES, None):
        try:
            download(contents.listing.repo, path, contents.listing.commit, folder=staging)
            return
        except Unreachable as error:
            if wait is None:
                raise Unreachable(f"{error}. The same command continues with the missing files") from error
            time.sleep(wait)


def _is_same(file: Path, remote: RemoteFile) -> bool:
    if not file.is_file() or file.stat().st_size != remote.size:
        return False
    if remote.sha256 is None and remote.blob is None:
        return True
    digest = (
        hashlib.sha256()
        if remote.sha256 is not None
        else hashlib.sha1(b"blob %d\0" % remote.size, usedforsecurity=False)
    )
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == (remote.sha256 or remote.blob)


def _install(staging: Path, folder: RunFolder, force: bool) -> None:
    _must_be_free(folder, force)
    old: Path | None = None
    if folder.path.is_dir():
        if any(folder.path.iterdir()):
            with sole_writer(folder.path, lambda warning: None):  # raises RunInUse while it trains
                pass
        old = folder.path.with_name(f".{folder.path.name}.replaced-{os.getpid()}")
        os.replace(folder.path, old)
    try:
        os.replace(staging, folder.path)
    except OSError:
        if old is not None:
            with suppress(OSError):
                os.replace(old, folder.path)
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
