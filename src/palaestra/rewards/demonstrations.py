"""Demonstrations: the decisions of any number of files, for imitation."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import DemoError, EmptyDemo
from palaestra.core.files import expanded, near_files, scratch_folder
from palaestra.core.specs import ActionSpec, BehaviorSpec, differences
from palaestra.core.system_memory import format_bytes, free_memory
from palaestra.datasets import MINARI, is_minari, read_demo
from palaestra.demos import DemoSource, Pairs
from palaestra.rewards.expert_decisions import Decisions, FileWriter, MemoryWriter, StoredDecisions, row_of

HELD_AT_MOST = 64 << 20
"""Largest size, in bytes, of decisions held in memory; larger ones are put on disk."""
LEFT_ON_DISK = 256 << 20
"""Bytes of a disk that stay free beside stored decisions: checkpoints and logs go there too."""
BESIDE = 24
"""Bytes of memory for each decision that is stored on disk: its place in the drawing order, and flags of episode
ends."""


@dataclass(frozen=True)
class Demonstrations:
    """N decisions in the order in which they were made, one file after another."""

    decisions: Decisions | StoredDecisions
    last: Tensor  # (N,) bool: the next decision is of another episode
    ended: Tensor  # (N,) bool: the episode ended with it; False at the last of an episode whose recording stopped
    warnings: tuple[str, ...] = ()
    """Remarks on files that could be read in spite of flaws, such as lost records: a line for each, with the file."""

    def __len__(self) -> int:
        return len(self.ended)


_loaded: WeakValueDictionary[object, Demonstrations] = WeakValueDictionary()
"""Demonstrations in use: GAIL and cloning of one behavior often learn from the same files, which are read once."""


def load_demonstrations(demo_path: str | Sequence[str], spec: BehaviorSpec, device: torch.device) -> Demonstrations:
    """Returns all decisions of a file, of the .demo files in a folder, of a Minari dataset (`minari:ID`), or of several
    of these, as a list or with commas between.

    They are read in one pass with constant memory. Decisions that take more than HELD_AT_MOST are put in a scratch
    file. Empty recordings are skipped, with a warning, if other recordings have decisions (`warnings`). Raises
    DemoError if there is nothing to read, if a file does not fit `spec`, or if the decisions fit neither on disk nor in
    memory.
    """
    demos, warnings = open_demonstrations(demo_files(demo_path))
    for demo in demos:
        seen = observations_in(demo, spec)
        must_fit(demo, spec, seen)
        if unseen := [obs.name for i, obs in enumerate(demo.spec.obs) if i not in seen]:
            warnings.append(f"{demo.title}: {', '.join(unseen)} in it is ignored, because the policy does not see it")
    key = (tuple(demo.identity for demo in demos), tuple(warnings), spec, device)
    known = _loaded.get(key)
    if known is None:
        known = _loaded[key] = _load(demos, spec, device, _typed(demo_path), warnings)
    return known


def open_demonstrations(sources: Sequence[Path | str]) -> tuple[list[DemoSource], list[str]]:
    """Returns the demonstrations, and remarks on empty recordings, which are left out. Raises DemoError if all are."""
    demos: list[DemoSource] = []
    empty: list[str] = []
    for source in sources:
        try:
            demos.append(read_demo(source))
        except EmptyDemo as error:
            empty.append(str(error))
    if sources and not demos:
        raise DemoError(empty[0])
    return demos, [f"{error}; it is ignored" for error in empty]


def _load(
    demos: Sequence[DemoSource], spec: BehaviorSpec, device: torch.device, typed: str, warnings: Sequence[str]
) -> Demonstrations:
    warnings = [*warnings, *(warning for demo in demos for warning in demo.warnings)]
    writer = _writer(spec, sum(demo.most_decisions for demo in demos), typed)
    try:
        first, ended = _read_into(writer, demos, spec)
        decisions = writer.finish(device)
    except BaseException:
        if isinstance(writer, FileWriter):
            writer.close()
        raise
    if not len(first):
        raise DemoError(f"demo_path {typed}: not one decision was recorded in it")
    last = np.append(first[1:], True)
    return Demonstrations(
        decisions, torch.from_numpy(last).to(device), torch.from_numpy(ended).to(device), tuple(warnings)
    )


def _read_into(
    writer: MemoryWriter | FileWriter, demos: Sequence[DemoSource], spec: BehaviorSpec
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns which decisions begin an episode, and which end one, (N,) each."""
    firsts = [np.zeros(0, np.bool_)]
    ends = [np.zeros(0, np.bool_)]
    for demo in demos:
        before = -1
        seen = observations_in(demo, spec)
        for pairs in demo.pairs():
            must_be_choices(pairs, spec.action, demo)
            writer.add(replace(pairs, obs=tuple(pairs.obs[i] for i in seen)))
            firsts.append(np.diff(pairs.episode, prepend=before) != 0)
            ends.append(pairs.terminated | pairs.truncated)
            before = int(pairs.episode[-1])
    return np.concatenate(firsts), np.concatenate(ends)


def _writer(spec: BehaviorSpec, most: int, typed: str) -> MemoryWriter | FileWriter:
    """Returns a writer for `most` decisions. Raises DemoError if the disk has no room."""
    held, stored = (most * row_of(spec, images_as_bytes=as_bytes).itemsize for as_bytes in (False, True))
    memory = free_memory()
    if held <= min(HELD_AT_MOST, memory):
        return MemoryWriter(spec, most)
    folder = scratch_folder()
    disk = _free_on_disk(folder)
    if stored + LEFT_ON_DISK <= disk and most * BESIDE <= memory:
        return FileWriter(spec)
    if held + most * BESIDE <= memory // 2:
        return MemoryWriter(spec, most)
    raise DemoError(
        f"demo_path {typed}: its {most:,} decisions take {format_bytes(stored)} on disk or {format_bytes(held)} of "
        f"memory, but {format_bytes(disk)} are free in {folder}, of which {format_bytes(LEFT_ON_DISK)} must stay "
        f"free, and {format_bytes(memory)} of memory; learn from fewer demonstrations, or make room on disk "
        "(--results-dir chooses another)"
    )


def _free_on_disk(folder: Path) -> int:
    """Returns free bytes; 0 where it is unknown."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            return shutil.disk_usage(place).free
    return 0


def demo_files(
    demo_path: str | Sequence[str], key: str = "demo_path", ends: Sequence[str] = (".demo",)
) -> list[Path | str]:
    """Returns the sources that a setting names, each once: files (for a folder, its files with these suffixes), and
    Minari datasets as text.

    `key`: the setting's name. Raises DemoError if a file or folder is missing.
    """
    files: list[Path | str] = []
    for path in _paths(demo_path):
        if isinstance(path, str):
            files.append(path)
        elif path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix in ends)
            if not inside:
                raise DemoError(f"{key} {path}: the folder has no demonstration files ({', '.join(ends)})")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise DemoError(f"{key} {path}: there is no such file or folder{_hint(path, ends)}")
    if not files:
        raise DemoError(
            f"{key} is empty; expected a demonstration file ({', '.join(ends)}), a folder of them, minari:ID, or "
            "several of these"
        )
    return list(dict.fromkeys(files))


def observations_in(demo: DemoSource, spec: BehaviorSpec) -> tuple[int, ...]:
    """Returns which observations of a demonstration match `spec`: all in order if their number is the same; if the
    demonstration has more (some for the critic alone), the ones with the same names."""
    names = [obs.name for obs in demo.spec.obs]
    wanted = [obs.name for obs in spec.obs]
    if len(wanted) < len(names) and {*wanted} <= {*names}:
        return tuple(map(names.index, wanted))
    return tuple(range(len(names)))


def must_fit(demo: DemoSource, spec: BehaviorSpec, seen: Sequence[int] | None = None) -> None:
    """Raises DemoError, with both specs, if a demonstration's agents differ in more than names.

    `seen`: the demonstration's observations that are compared; None: all.
    """
    own = demo.spec if seen is None else replace(demo.spec, obs=tuple(demo.spec.obs[i] for i in seen))
    if table := differences(own, spec, ("the dataset" if is_minari(demo.title) else "the file", "the behavior")):
        raise DemoError(
            f"{demo.title} was recorded from other agents ('{demo.behavior}') than those that are to learn from "
            f"it:\n{table}"
        )
    demo.must_fit(own, spec)


def must_be_choices(pairs: Pairs, action: ActionSpec, demo: DemoSource) -> None:
    """Raises DemoError for a choice that its branch does not have."""
    wrong = np.argwhere((pairs.discrete < 0) | (pairs.discrete >= np.array(action.branches, np.int64)))
    if len(wrong):
        row, branch = wrong[0].tolist()
        raise DemoError(
            f"{demo.title}, episode {pairs.episode[row]}: branch {branch} of an action is "
            f"{pairs.discrete[row, branch]}; expected 0 to {action.branches[branch] - 1}"
        )


def _paths(demo_path: str | Sequence[str]) -> Iterator[Path | str]:
    """Yields paths, and Minari datasets as text."""
    for text in [demo_path] if isinstance(demo_path, str) else demo_path:
        whole = text.strip()
        several = "," in text and not expanded(Path(whole.removeprefix(MINARI))).exists()
        for part in text.split(",") if several else [whole]:
            if name := part.strip():
                yield name if is_minari(name) else expanded(Path(name))


def _hint(path: Path, ends: Sequence[str]) -> str:
    """Returns the path that may have been meant, or the folder it was looked for in."""
    if (named := path.with_name(f"{path.name}.demo")).is_file():
        return f"; did you mean '{named}'?"
    here = f" in {Path.cwd()}; a path is relative to the folder in which palaestra is started"
    return near_files(path, ends) or ("" if path.is_absolute() else here)


def _typed(demo_path: str | Sequence[str]) -> str:
    return demo_path if isinstance(demo_path, str) else ", ".join(demo_path)
