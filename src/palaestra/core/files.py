"""Names files of a run and kinds of foreign files, reads and writes them safely, opens temporary files."""

from __future__ import annotations

import errno
import getpass
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from difflib import get_close_matches
from itertools import chain, count
from pathlib import Path
from typing import IO, TextIO

from palaestra.core.errors import ConfigError, RunError, out_of_memory

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "there is no permission to write there",
    errno.EPERM: "there is no permission to write there",
    errno.EFBIG: "the file would be larger than is allowed here",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EEXIST: "a file stands where a folder is needed",
}
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # device names on Windows

_MAGIC = {
    b"version https://git-lfs": "a Git LFS pointer; fetch the file itself with 'git lfs pull'",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"\x89HDF\r\n": "an HDF5 file",
    b"model_checkpoint_path": "TensorFlow's list of checkpoints",
    b"%YAML 1.1\n%TAG !u!": "an asset of Unity; give the .onnx file that Unity imported",
    b"\x10\0\0\0\0\0\0\0": "a Barracuda model of ML-Agents before release 17; end its name in .nn",
}
_TORCH = (
    "a file of PyTorch; init_path starts from one of ML-Agents, `palaestra convert` makes models of other libraries'"
)
_TENSORFLOW = (
    "as ML-Agents wrote before release 17, which is not read; play the .nn or .onnx model of the same run, or train "
    "again"
)
_ENDINGS = {
    (".sentis",): "a model of Unity's Sentis; give the .onnx file that it was made from",
    (".pt", ".pth"): _TORCH,
    (".bytes", ".pb"): f"a TensorFlow graph, {_TENSORFLOW}",
    (".ckpt", ".cptk", ".index", ".meta", ".data-00000-of-00001"): f"a TensorFlow checkpoint, {_TENSORFLOW}",
    (".nn",): "a Barracuda model of ML-Agents before release 17",
    (".onnx",): "an ONNX model, which can be played but not trained on; give the run's folder or its checkpoint",
    (".demo",): "a recording",
}

MODEL_FILES = (".onnx", ".nn")
"""Ends of the names of model files: ONNX, and Barracuda's format of old ML-Agents."""

_OF_A_RUN = """
    run checkpoints run_logs configuration.yaml metrics.jsonl curves.png training_status.json timers.json league.json
    league.png
"""
RUN_FILES = frozenset(_OF_A_RUN.split())
"""Lower-case names of files and folders that a run keeps beside those of its behaviors."""


def belongs_to_run(behavior: str) -> bool:
    """Whether the names of a behavior's files could collide with a run's files, or with the model of another behavior,
    on some file system."""
    name = behavior.strip(" .").casefold()
    return name in RUN_FILES or name.endswith(".onnx")


def near_files(missing: Path, ends: Collection[str]) -> str:
    """Returns "; did you mean X?" with up to three files that have a similar name and one of these endings, from the
    missing file's folder, the current folder or a run; '' if there is none."""
    alike: dict[str, list[str]] = {}
    with suppress(OSError, ValueError):  # no such folder, or no name of a file
        for path in dict.fromkeys((*missing.parent.glob("*.*"), *Path().glob("*.*"), *Path("results").glob("*/*.*"))):
            if path.suffix in ends:
                alike.setdefault(path.stem.casefold(), []).append(str(path))
    near = get_close_matches(missing.name.removesuffix(missing.suffix).casefold(), alike, n=3)
    found = [path for stem in near for path in alike[stem]][:3]
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def explain(error: OSError) -> str:
    """Returns the reason why a file could not be written, as text."""
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def of_the_machine(error: Exception) -> RunError | None:
    """Returns the RunError for a file that the system refuses, or for used-up memory; None for any other error."""
    if isinstance(error, OSError):
        raised = RunError(f"{'' if error.filename is None else f'{error.filename!s:.100}: '}{explain(error)}")
    elif not out_of_memory(error):
        return None
    else:
        reason = str(error).partition("\n")[0][:200]
        raised = RunError(f"the memory is used up: fewer areas or a smaller buffer_size need less ({reason})")
    raised.__cause__ = error
    return raised


def silence(stream: TextIO) -> None:
    """Discards everything that is written to a stream from now on, and its buffer."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def file_name(name: str) -> str:
    """Returns a behavior's name if every file system accepts it as a file name, else a similar name with a hash that
    keeps it unique."""
    plain = re.sub(r'[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069<>:"/\\|?*\ud800-\udfff]', "_", name)[:120].strip(
        " ."
    )
    if plain == name and plain and not _RESERVED.fullmatch(plain) and len(plain.encode()) <= 200:
        return plain
    likeness = re.sub(r"[^\w-]", "_", plain, flags=re.ASCII)[:80]
    return f"{likeness}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def configs_folder() -> Path:
    """Returns the folder of shipped settings: in the package if it was installed from a wheel, else beside `src`."""
    package = Path(__file__).parents[1]
    return package / "configs" if (package / "configs").is_dir() else package.parents[1] / "configs"


def shipped_files(folder: str) -> dict[str, Path]:
    """Returns shipped files that are not settings of trainings, such as `search`, by name."""
    return {path.stem: path for path in sorted((configs_folder() / folder).glob("*.yaml"))}


def best_file(folder: Path, behavior: str) -> Path:
    """Returns the file of a behavior's best model in a run's folder."""
    return folder / f"{file_name(behavior)}-best.onnx"


MOST_READ = 64 << 20
"""Largest file that is read whole, unless a caller sets another limit."""


def regular(path: str, flags: int) -> int:
    """Opens regular files only, as an `opener` for `open`. Raises OSError for a pipe, which waits for its other end,
    and for a device."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # `open` refuses a folder with its own error
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return descriptor


def read_whole(file: Path, most: int = MOST_READ) -> bytes:
    """Returns the content of a regular file. Raises OSError, also for a file of more than `most` bytes."""
    with open(file, "rb", opener=regular) as opened:
        if os.fstat(opened.fileno()).st_size <= most and len(data := opened.read(most + 1)) <= most:
            return data
    raise _too_large(file, most)


def read_whole_text(file: Path, most: int = MOST_READ) -> str:
    """Returns the text of a regular file in UTF-8. Raises OSError as `read_whole` does; ValueError for bytes that
    are not UTF-8."""
    return read_whole(file, most).decode("utf-8")


def read_end(file: Path, most: int) -> str:
    """Returns the last `most` bytes of a regular file as text, from the beginning of a line on. Raises OSError."""
    with open(file, "rb", opener=regular) as opened:
        start = max(opened.seek(0, os.SEEK_END) - most, 0)
        opened.seek(start)
        text = opened.read(most).decode("utf-8", "replace")
    return text.partition("\n")[2] if start else text


MOST_LINES = 1 << 30
"""Largest file of lines that is read, such as a run's metrics."""


def read_lines(file: Path, most: int = MOST_LINES) -> Iterator[str]:
    """Yields the lines of a regular text file; very long lines come in parts. Raises OSError, also for a file of more
    than `most` bytes."""
    with open(file, "rb", opener=regular) as opened:
        if os.fstat(opened.fileno()).st_size > most:
            raise _too_large(file, most)
        while line := opened.readline(1 << 20):
            yield line.decode("utf-8", "replace")


def _too_large(file: Path, most: int) -> OSError:
    return OSError(errno.EINVAL, f"it has more than {most:,} bytes", str(file))


def write_whole(file: Path, data: bytes) -> None:
    """Writes `file` atomically, with a rename: readers see the old or new file, also after a crash. Raises OSError."""
    beside = file.with_name(f".{file.name}.tmp-{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)  # of a process that was killed, or a link that leads elsewhere
        with beside.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, file)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)


def must_be_new(file: Path, *, force: bool = False) -> Path:
    """Returns the file that a user named for a command to write. Raises ConfigError if it is a folder, or if it exists
    and may not be overwritten."""
    if file.is_dir():
        raise ConfigError(f"{file} is a folder; expected the name of a file to write")
    if os.path.lexists(file) and not force:
        raise ConfigError(f"{file} exists already; choose another name, or overwrite it with --force")
    return file


def file_to_write(named: Path | None, usual: Path, *, force: bool = False) -> Path:
    """Returns the file that a user named, or one with the usual name and, if need be, a number: curves-2.png. Only
    `force` overwrites a file. Raises ConfigError as `must_be_new` does."""
    if named is not None or force:
        return must_be_new(named or usual, force=force)
    numbered = (usual.with_stem(f"{usual.stem}-{number}") for number in count(2))
    return next(file for file in chain([usual], numbered) if not os.path.lexists(file))


def sync_folder(folder: Path) -> None:
    """Makes renames within the folder survive a power failure, if the system supports it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems cannot sync a folder
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


_folder: ContextVar[Path | None] = ContextVar("scratch_folder", default=None)


@contextmanager
def scratch_in(folder: Path | None) -> Iterator[None]:
    """Makes `scratch_file` use this folder within the context; None: the system's temporary folder."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def scratch_folder() -> Path:
    """Returns the folder for scratch files."""
    return _folder.get() or Path(tempfile.gettempdir())


def scratch_file() -> IO[bytes]:
    """Opens a new unnamed file, which the system removes when it is closed or the process ends. Raises OSError."""
    folder = scratch_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=folder, prefix=".palaestra-")


def user_name() -> str:
    """Returns the user's name; their number where the system has no name for it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "user"


def home() -> Path | None:
    """Returns the user's home folder; None if there is none."""
    folder = os.path.expanduser("~")
    return Path(folder) if os.path.isabs(folder) else None


def expanded(path: Path) -> Path:
    """Returns a path with its leading `~` replaced by the home folder, if there is one."""
    return Path(os.path.expanduser(path))


def file_kind(path: Path, *own: str) -> str:
    """Returns the kind of a file, as `kind_of`; '' also if the file cannot be read. `own`: endings of the names of
    files that are expected."""
    with suppress(OSError), open(path, "rb", opener=regular) as file:
        return kind_of(file.read(4096), "" if path.name.lower().endswith(own) else path.name)
    return ""


def kind_of(head: bytes, name: str = "") -> str:
    """Returns the kind of a file with these first bytes and what to do with it, such as 'a Git LFS pointer; ...'; '' if
    it is unknown."""
    if not head:
        return "empty"
    if found := next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None):
        return found
    if head[4:8] == b"TFL3":
        return "a TensorFlow Lite model"
    if head.startswith(b"PK\x03\x04"):
        return _archive(head, name)
    if head[:512].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "a page of HTML; download the file itself ('Raw' on GitHub)"
    if found := _by_name(name):
        return found
    if head.isascii() and len(head) > 1 and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        return "a text file"
    return ""


def tensorflow_files(names: Iterable[str]) -> str:
    """Returns a hint about TensorFlow checkpoints if these file names contain some; else ''."""
    found = next(
        (name for name in names if name.endswith((".index", ".pb", ".bytes")) or ".ckpt" in name or ".cptk" in name),
        None,
    )
    return f"it has {found}, a file of TensorFlow, {_TENSORFLOW}" if found else ""


def _archive(head: bytes, name: str) -> str:
    """Returns the kind of a zip archive by the names of its first files."""
    if b"data.pkl" in head[:200]:
        return _TORCH
    if name.endswith(".zip") and any(part in head for part in (b"policy.pth", b"_stable_baselines3_version", b"data{")):
        return "a model of Stable-Baselines3; `palaestra convert` makes an ONNX model of it"
    return "a zip archive; unpack it first"


def _by_name(name: str) -> str:
    return next((kind for endings, kind in _ENDINGS.items() if name.lower().endswith(endings)), "")
