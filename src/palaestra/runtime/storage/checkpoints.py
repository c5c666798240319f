"""Checkpoints: `checkpoints/<step>/` with a manifest and a safetensors file for each part.

A checkpoint is written to a hidden folder, which is then renamed to the checkpoint. A killed writer leaves hidden
folders: `.<step>.tmp-<pid>` is not complete; `.<step>.old-<pid>` was being replaced, and is used while `<step>` is
missing; `.<step>.gone-<pid>` was being removed.

Tensors that never change are stored once for all checkpoints, in `checkpoints/shared` (see `shared_tensors`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from safetensors import SafetensorError
from torch import Tensor

from palaestra.core.errors import CheckpointError, RunError
from palaestra.core.files import explain, file_name, read_whole_text, sync_folder, write_whole
from palaestra.core.versions import palaestra_version
from palaestra.runtime.storage.shared_tensors import Shared, SharedFiles
from palaestra.runtime.storage.tensor_files import State, digest_of, flatten, read_tensors, restore, write_tensors

SCHEMA = 1
"""Version of the manifest, which grows when its meaning changes. Older versions must remain readable."""
MANIFEST = "manifest.json"
MOST_MANIFEST = 1 << 30
_REMNANT = re.compile(r"\.\d+\.(tmp|old|gone)-\d+")
_DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    struct.error,
    SafetensorError,
)
"""Exceptions that a damaged manifest or its files may cause."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State of a run at one step; its tensors are on the CPU."""

    step: int
    state: dict[str, State]
    path: Path
    warnings: tuple[str, ...]  # why newer ones were skipped


class Checkpoints:
    """Checkpoints of one run. Only one process at a time may write; any number may read."""

    def __init__(self, folder: Path, keep: int) -> None:
        """`keep`: number of newest checkpoints to keep; 0 or less: all. Nothing is made before the first save."""
        self.folder = folder
        self.keep = keep
        self._shared = SharedFiles(folder)
        self._used: dict[int, set[str]] = {}
        """Shared files by step, of the checkpoints that this process wrote."""

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints, in ascending order, damaged ones included."""
        return sorted(self._committed())

    def save(self, step: int, state: Mapping[str, State]) -> Path:
        """Writes a checkpoint, and removes the oldest ones. Checkpoints of later steps are removed too, because the run
        was resumed from an earlier step.

        Raises RunError if it cannot be written; earlier checkpoints then stay unchanged.
        """
        target = self.folder / str(step)
        beside = self._hidden(step, "tmp")
        try:
            self.folder.mkdir(exist_ok=True)  # within the run's folder, which must not be made again if it was deleted
            self.sweep(alone=False)
            beside.mkdir()
            used = _write(beside, step, state, self._shared)
            self._commit(beside, target)
            self._used[step] = used
        except OSError as error:
            raise RunError(
                f"cannot write the checkpoint of step {step} to {target}: {explain(error)}; "
                f"earlier checkpoints are unchanged. Solve that problem, then continue with --resume"
            ) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        self._rotate(step)
        self._drop_shared()
        return target

    def load(self, step: int | None = None) -> Checkpoint:
        """Loads the checkpoint of `step`, or else the newest intact one, with a warning for each damaged one skipped.

        Raises CheckpointError if no checkpoint can be used.
        """
        for _ in range(5):
            found = self._committed()
            try:
                return self._load(found, step)
            except CheckpointError:
                if self._committed() == found:
                    raise  # else a running training has replaced them meanwhile
        return self._load(self._committed(), step)

    def _load(self, found: Mapping[int, Path], step: int | None) -> Checkpoint:
        if not found or step not in (None, *found):
            wanted = "no checkpoint" if step is None else f"no checkpoint of step {step}"
            there = f"there are: {', '.join(map(str, sorted(found)))}" if found else "none was saved there yet"
            raise CheckpointError(f"{wanted} in {self.folder} ({there})")
        damaged: list[str] = []
        for at in sorted(found, reverse=True) if step is None else [step]:
            try:
                state = _read(found[at], at, self._shared)
                return Checkpoint(at, state, found[at], tuple(f"skipped a damaged checkpoint: {d}" for d in damaged))
            except _DAMAGE as error:
                damaged.append(f"{found[at]}: {_reason(error)}")
        rest = [at for at in found if at != step]
        advice = (
            f"use one of the others: {', '.join(map(str, sorted(rest)))}"
            if step is not None and rest
            else "start the training again with --force"
        )
        raise CheckpointError(f"no usable checkpoint in {self.folder}; {advice}\n  " + "\n  ".join(damaged))

    def _committed(self) -> dict[int, Path]:
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        found = {int(name): self.folder / name for name in names if re.fullmatch(r"[0-9]+", name)}
        for name in names:
            if old := re.fullmatch(r"\.([0-9]+)\.old-[0-9]+", name):
                found.setdefault(int(old[1]), self.folder / name)
        return found

    def _commit(self, beside: Path, target: Path) -> None:
        old = self._hidden(int(target.name), "old")
        if target.exists():
            os.rename(target, old)
        os.rename(beside, target)
        sync_folder(self.folder)
        shutil.rmtree(old, ignore_errors=True)

    def _rotate(self, newest: int) -> None:
        steps = [step for step in self.steps() if step <= newest]
        keep = steps[-self.keep :] if self.keep > 0 else steps
        for step in set(self.steps()) - set(keep):
            self._remove(step)

    def _remove(self, step: int) -> None:
        """Removes a checkpoint, hidden first, so that no reader sees half of it; a later save repeats what fails."""
        gone = self._hidden(step, "gone")
        try:
            os.rename(self.folder / str(step), gone)
        except OSError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def sweep(self, *, alone: bool) -> None:
        """Removes hidden folders of killed writers. `alone`: no other process can be writing, even if one has the
        process id of a writer."""
        for step, path in self._committed().items():
            if path.name != str(step) and (alone or not _is_being_written(path)):
                with suppress(OSError):
                    os.rename(path, self.folder / str(step))
        for path in self.folder.glob(".*"):
            if _REMNANT.fullmatch(path.name) and (alone or not _is_being_written(path)):
                shutil.rmtree(path, ignore_errors=True)
        self._shared.sweep(lambda half: not alone and _is_being_written(half))

    def _drop_shared(self) -> None:
        if not self._shared.folder.is_dir():
            return
        used: set[str] = set()
        for step, path in self._committed().items():
            if step not in self._used:
                try:
                    self._used[step] = set(
                        re.findall(r'"\$shared": \["([0-9a-f]{64})"', read_whole_text(path / MANIFEST, MOST_MANIFEST))
                    )
                except (OSError, ValueError):
                    return
            used |= self._used[step]
        self._shared.drop_all_but(used)

    def _hidden(self, step: int, kind: str) -> Path:
        return self.folder / f".{step}.{kind}-{os.getpid()}"


def _is_being_written(path: Path) -> bool:
    """Whether a hidden folder belongs to a process that is alive: a Python process with the id in the folder's name,
    which started before the folder was last written to."""
    pid = int(path.name.rpartition("-")[2])
    try:
        other = psutil.Process(pid)
        words = " ".join((other.exe(), *other.cmdline())).lower()
        return (
            pid != os.getpid()
            and other.create_time() <= path.stat().st_mtime + 1.0
            and ("python" in words or "palaestra" in words)
        )
    except psutil.AccessDenied:
        return True
    except (psutil.Error, OSError, ValueError, OverflowError):
        return False


def _write(folder: Path, step: int, state: Mapping[str, State], shared: SharedFiles) -> set[str]:
    parts: dict[str, Any] = {}
    taken: set[str] = set()
    used: set[str] = set()

    def share(value: State) -> tuple[str, int] | None:
        if not isinstance(value, Shared):
            return None
        digest, size = shared.keep(value)
        used.add(digest)
        return digest, size

    for name, value in state.items():
        tensors: dict[str, Tensor] = {}
        content = flatten(value, tensors, share)
        file = f"{file_name(name)}.safetensors"
        while file.casefold() in taken:  # names that differ in case only, which some file systems do not tell apart
            file = f"_{file}"
        taken.add(file.casefold())
        sha256, size = write_tensors(folder / file, tensors)
        parts[name] = {"file": file, "sha256": sha256, "bytes": size, "content": content}
    body = {
        "schema": SCHEMA,
        "palaestra": palaestra_version(),
        "torch": torch.__version__,
        "step": step,
        "created": time.time(),
        "parts": parts,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in {**body, "sha256": _seal(body)}.items()]
    write_whole(folder / MANIFEST, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    return used


def _read(folder: Path, step: int, shared: SharedFiles) -> dict[str, State]:
    text = read_whole_text(folder / MANIFEST, MOST_MANIFEST)
    body = json.loads(text)
    if not isinstance(body, dict) or not isinstance(body.get("schema"), int):
        raise ValueError(f"{MANIFEST} is not a checkpoint's manifest")
    if body["schema"] > SCHEMA:
        raise ValueError(
            f"written by a newer Palaestra {body.get('palaestra')} (schema {body['schema']}; this one reads up to "
            f"{SCHEMA})"
        )
    if body.pop("sha256", None) != _seal(body) or body["step"] != step:
        raise ValueError(f"{MANIFEST} was changed after it was written")
    for part in body["parts"].values():
        size = (folder / part["file"]).stat().st_size
        if size != part["bytes"]:
            raise ValueError(f"{part['file']} has {size} bytes instead of {part['bytes']}")
        if digest_of(folder / part["file"])[0] != part["sha256"]:
            raise ValueError(f"{part['file']} was changed after it was written")
    return {
        name: restore(part["content"], read_tensors(folder / part["file"]), shared.load)
        for name, part in body["parts"].items()
    }


def _seal(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{Path(error.filename).name} is missing"
    if isinstance(error, RecursionError):
        return f"{MANIFEST} is nested too deeply"
    if isinstance(error, KeyError):
        return f"{MANIFEST} lacks {error}"
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return f"{MANIFEST} is not JSON ({error})"
    return str(error)
