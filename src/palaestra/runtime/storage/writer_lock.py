"""Allows one writer per run: a process holds a file lock as long as it writes to the run's folder.

The operating system releases the lock when the process ends, in whatever way it ends. The file `.writer.json` names the
lock's holder, for the error message of other processes; on file systems without locks it is the only protection.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import psutil
from filelock import FileLock, SoftFileLock, Timeout

from palaestra.core.errors import RunError, RunInUse
from palaestra.core.files import explain, read_whole_text, write_whole

LOCK = ".lock"
WRITER = ".writer.json"
PATIENCE = 0.4
"""Seconds to wait for a lock: a process that was just killed may not have released it yet."""
FRESH = 120.0
"""Seconds after its last save for which a writer elsewhere counts as alive; runs save once a minute."""
_WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
_NETWORKS = "nfs cifs smb afs ceph lustre gluster beegfs gpfs fuse.sshfs ncp webdav davfs"
_NETWORK = tuple(_NETWORKS.split())


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Process that writes to a run."""

    pid: int
    host: str
    since: float  # unix seconds
    started: float  # when the process itself began: another process may have its pid later
    token: str

    @classmethod
    def this(cls) -> LockHolder:
        """Returns this process as the holder from now on."""
        return cls(os.getpid(), socket.gethostname(), time.time(), psutil.Process().create_time(), uuid.uuid4().hex)

    @classmethod
    def read(cls, file: Path) -> LockHolder | None:
        """Reads the holder from a file; None if the file names none."""
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            data = json.loads(read_whole_text(file))
            pid, host, since, started, token = (data[key] for key in cls.__slots__)
            if isinstance(pid, int) and 0 < pid < 1 << 31 and isinstance(host, str) and isinstance(token, str):
                return cls(pid, host, float(since), float(started), token)
        return None

    @property
    def here(self) -> bool:
        """Whether the process runs, or ran, on this machine."""
        return self.host == socket.gethostname()

    @property
    def alive(self) -> bool:
        """Whether the process is alive on this machine."""
        try:
            return self.here and abs(psutil.Process(self.pid).create_time() - self.started) < 2.0
        except psutil.AccessDenied:
            return True
        except psutil.Error:
            return False

    def __str__(self) -> str:
        """Returns text such as `process 12 on box (since 2026-01-31 08:00:00)`."""
        own = " (this one)" if self.pid == os.getpid() and self.here else ""
        try:
            since = f" (since {datetime.fromtimestamp(self.since):%Y-%m-%d %H:%M:%S})"
        except (ValueError, OverflowError, OSError):
            since = ""
        return f"process {self.pid}{own} on {self.host}{since}"


class WriterLock:
    """Lock of a run's folder against all other processes, and against other runs in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        """Warnings of `acquire` about the file system and other writers."""
        self.locked = False
        """Whether the operating system keeps other writers out; False on file systems without locks."""
        self.writer = LockHolder.this()
        self._lock = FileLock(folder / LOCK, timeout=PATIENCE, mode=0o666, thread_local=False, fallback_to_soft=False)
        self._made: list[Path] = []

    def acquire(self) -> None:
        """Makes the folder if necessary, and locks it. Raises RunInUse or RunError, and then changes nothing."""
        try:
            self.locked, unlocked = self._make_and_lock()
            before = LockHolder.read(self.folder / WRITER)
            if before is not None:
                self._check_previous(before, deleted=unlocked)
            self._sign()
        except OSError as error:
            self._let_go()
            raise RunError(f"cannot write to the run's folder {self.folder}: {explain(error)}") from error
        except RunInUse:
            self._let_go()
            raise
        if kind := network_file_system(self.folder):
            self.warnings.append(
                f"{self.folder} is on a network file system ({kind}): its server decides whether other machines "
                "respect the lock on it"
            )

    def release(self) -> None:
        """Lets others write. Removes the folder if this lock made it and nothing was written to it."""
        mine = self.mine()
        if mine:
            with suppress(OSError):
                (self.folder / WRITER).unlink()
        self._let_go(unlink=mine)

    def mine(self) -> bool:
        """Whether the folder exists and no other process has begun to write to it."""
        now = LockHolder.read(self.folder / WRITER)
        return now is not None and now.token == self.writer.token

    def trouble(self) -> str | None:
        """Returns why the folder cannot be written; None if it can. Also marks this writer as alive."""
        try:
            if not self.folder.is_dir():
                return "was replaced by a file" if self.folder.exists() else "was deleted or renamed"
            now = LockHolder.read(self.folder / WRITER)
            if now is not None and now.token != self.writer.token:
                return f"was taken over by {now}"
            probe = self.folder / f"{WRITER}.tmp-{os.getpid()}"
            probe.write_bytes(b"\n")
            probe.unlink()
            if now is None:
                self._sign()
            os.utime(self.folder / WRITER)
        except OSError as error:
            return f"can no longer be written to ({explain(error)})"
        return None

    def _sign(self) -> None:
        write_whole(self.folder / WRITER, json.dumps(asdict(self.writer)).encode())

    def _make_and_lock(self) -> tuple[bool, bool]:
        """Makes and locks the folder. Returns whether the file system has locks, and whether there was no lock file."""
        for _ in range(5):
            self._make()
            unlocked = not (self.folder / LOCK).exists()
            with suppress(FileNotFoundError):  # another process, which had made the folder too, removed it just now
                return self._acquire(), unlocked
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder))

    def _acquire(self) -> bool:
        try:
            self._lock.acquire()
        except Timeout:
            raise RunInUse(self._refusal(self._holder())) from None
        except NotImplementedError:
            reason = "it has none"
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            reason = error.strerror or str(error)
        else:
            if not isinstance(self._lock, SoftFileLock):
                return True
            self._lock.release()
            reason = "it has none"
        self.warnings.append(
            f"locks do not work on the file system of {self.folder} ({reason}): make sure that no other process "
            f"writes to this run; Palaestra only notices one that {WRITER} names"
        )
        return False

    def _holder(self) -> LockHolder | None:
        until = time.monotonic() + 1.0
        while (writer := LockHolder.read(self.folder / WRITER)) is None or (writer.here and not writer.alive):
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        return writer

    def _check_previous(self, before: LockHolder, deleted: bool) -> None:
        """Raises RunInUse, or warns, if the named writer may be alive although the lock is free. `deleted`: there was
        no lock file, which a writer that is alive must have."""
        with suppress(OSError):
            age = time.time() - (self.folder / WRITER).stat().st_mtime
            away = not before.here and age < FRESH
            if (deleted or not self.locked) and (
                (before.alive and before.pid != os.getpid()) or (away and not self.locked)
            ):
                raise RunInUse(f"{self._refusal(before)}. If that process is gone, remove {self.folder / WRITER}")
            if away:
                self.warnings.append(
                    f"{before} wrote to {self.folder} {age:.0f} s ago: if it still does, stop one of the two, since "
                    "the lock has no effect between these machines"
                )

    def _refusal(self, writer: LockHolder | None) -> str:
        who = "another process" if writer is None else str(writer)
        if writer is not None and writer.here and not writer.alive:
            who += ", or a process that it started and that is still running,"
        return (
            f"the run '{self.folder.name}' is in use: {who} is writing to {self.folder}. Wait until it ends or stop it "
            "(Ctrl-C saves the run), then try again; or choose another --run-id"
        )

    def _make(self) -> None:
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            self._made.insert(0, path)

    def _let_go(self, *, unlink: bool = True) -> None:
        if self._lock.is_locked and unlink:
            with suppress(OSError):  # Windows keeps it as long as it is open
                (self.folder / LOCK).unlink()
        self._lock.release(force=True)
        for path in self._made:
            with suppress(OSError):  # it is not empty
                path.rmdir()


@contextmanager
def sole_writer(folder: Path, warn: Callable[[str], object]) -> Iterator[WriterLock]:
    """Keeps other processes from writing to a run's folder within the block. Raises RunInUse or RunError."""
    lock = WriterLock(folder)
    lock.acquire()
    try:
        for warning in lock.warnings:
            warn(warning)
        yield lock
    finally:
        lock.release()


def is_written(folder: Path) -> bool:
    """Whether a process writes to a run's folder; True if a process on another machine might."""
    writer = LockHolder.read(folder / WRITER)
    return writer is not None and (writer.alive or not writer.here)


def network_file_system(folder: Path) -> str | None:
    """Returns the kind of a network file system; None for a local folder."""
    try:
        place = folder.resolve()
        mounts = [mount for mount in psutil.disk_partitions(all=True) if place.is_relative_to(mount.mountpoint)]
    except (OSError, ValueError, psutil.Error):
        return None
    mount = max(mounts, key=lambda mount: len(mount.mountpoint), default=None)
    if mount is None or not (mount.fstype.lower().startswith(_NETWORK) or "remote" in mount.opts.split(",")):
        return None
    return mount.fstype or "remote"
