"""Clips: pairs of neighbouring states of recorded motions, for motion priors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import DemoError
from palaestra.core.specs import BehaviorSpec, differences
from palaestra.core.system_memory import format_bytes, free_memory
from palaestra.datasets.motion_files import TABLES, MotionFile, place, read_motion
from palaestra.demos import DemoSource
from palaestra.rewards.chosen_numbers import ChosenSensor, without
from palaestra.rewards.demonstrations import demo_files, open_demonstrations

CLIPS = "reward_signals.amp.clips"
STILL = 1e-6
"""Largest range of a number that counts as constant, as a share of the number's size."""
LEAST_DEVIATION = 0.01
"""Smallest deviation that a number is divided by, as a share of the median deviation of all numbers: otherwise a number
that hardly moves would show the discriminator every policy."""
RATE_ERROR = 0.05
"""Largest difference between a decision and the nearest whole number of a clip's rows, as a share of the decision's
length."""
LISTED = 4
"""Most files that are named at the start; if there are more, only their number is shown."""
Chosen = tuple[ChosenSensor, ...]


@dataclass(frozen=True)
class Clips:
    """P pairs of neighbouring states, each of k chosen numbers; never across an episode's end."""

    states: Tensor  # (M, k)
    first: Tensor  # (P,) row of each pair's first state
    second: Tensor  # (P,)
    mean: Tensor  # (k,) of the states
    deviation: Tensor  # (k,)
    remark: str
    """Number of pairs and episodes that were read, and the names of their files."""
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: Tensor) -> Tensor:
        """Returns the pairs of these rows, (n, 2 k)."""
        ends = (self.first, self.second)
        return torch.cat([self.states.index_select(0, end.index_select(0, rows)) for end in ends], 1)


@dataclass(frozen=True)
class _Part:
    """States of one file, and which states come one after the other."""

    title: str
    states: NDArray[np.float32]  # (M, k)
    first: NDArray[np.int64]  # (P,)
    stride: int  # rows from the first state of a pair to the second
    episodes: int


_loaded: WeakValueDictionary[object, Clips] = WeakValueDictionary()
"""Clips in use, so that a report on them reads no file again."""


def load_clips(
    paths: str | Sequence[str],
    chosen: Chosen,
    spec: BehaviorSpec,
    device: torch.device,
    decision_seconds: float | None = None,
) -> Clips:
    """Returns the pairs of all files, folders and Minari datasets that are named.

    Raises DemoError if a file cannot be read, lacks chosen numbers or has no two states one after the other, or if a
    number never changes.
    """
    sources = demo_files(paths, CLIPS, (".demo", *TABLES))
    tables = [source for source in sources if isinstance(source, Path) and source.suffix in TABLES]
    demos, warnings = open_demonstrations([source for source in sources if source not in tables])
    stamps = [(path.absolute(), found.st_size, found.st_mtime_ns) for path in tables if (found := path.stat())]
    key = (tuple(demo.identity for demo in demos), tuple(stamps), chosen, spec, device, decision_seconds)
    known = _loaded.get(key)
    if known is None:
        warnings += [warning for demo in demos for warning in demo.warnings]
        parts = [part for demo in demos for part in _of_demo(demo, chosen, spec)]
        files = [read_motion(path) for path in tables]
        warnings += _of_other_rates(files, decision_seconds)
        parts += [_of_table(file, chosen, _stride(file.seconds, decision_seconds)) for file in files]
        known = _loaded[key] = _joined(parts, chosen, device, warnings)
    return known


def _of_demo(demo: DemoSource, chosen: Chosen, spec: BehaviorSpec) -> Iterator[_Part]:
    places = _places(demo, chosen, spec)
    size = demo.records * sum(len(sensor.numbers) for sensor in chosen) * 4
    if 2 * size > (free := free_memory()):
        raise DemoError(
            f"{demo.title}: the chosen numbers of its {demo.records:,} records take {format_bytes(size)}, but "
            f"{format_bytes(free)} of memory are free; choose fewer, or shorter clips"
        )
    tables = list[NDArray[np.float32]]()
    firsts = list[NDArray[np.int64]]()
    episodes = set[int]()
    before = 0
    for part in demo.neighbours():
        tables.append(
            np.concatenate([part.obs[i][:, list(each.numbers)] for i, each in zip(places, chosen, strict=True)], 1)
        )
        firsts.append(part.first + before)
        episodes.update(part.episode.tolist())
        before += len(tables[-1])
    if not episodes:
        raise DemoError(f"{demo.title}: no episode has two states that follow one another; expected longer clips")
    yield _Part(demo.title, np.concatenate(tables), np.concatenate(firsts), 1, len(episodes))


def _places(demo: DemoSource, chosen: Chosen, spec: BehaviorSpec) -> list[int]:
    """Returns which observations of a demonstration hold the chosen ones: matched by position if the recorded agents
    have the same spec (names may differ), else matched by name. Raises DemoError."""
    table = differences(demo.spec, spec, ("the file", "the behavior"))
    if not table:
        demo.must_fit(demo.spec, spec)
        return [sensor.index for sensor in chosen]
    found = {obs.name: (i, obs.shape) for i, obs in enumerate(demo.spec.obs)}
    lacking = [sensor.name for sensor in chosen if found.get(sensor.name, (0, ()))[1] != (sensor.size,)]
    if lacking:
        raise DemoError(
            f"{demo.title} was recorded from other agents ('{demo.behavior}'), and has no observation "
            f"'{lacking[0]}' of the size that is compared:\n{table}"
        )
    return [found[sensor.name][0] for sensor in chosen]


def _of_table(file: MotionFile, chosen: Chosen, stride: int) -> _Part:
    states = np.concatenate([file.numbers(each.name, each.size, each.numbers) for each in chosen], 1)
    counts = np.bincount(file.episode)
    short = np.flatnonzero(counts <= stride)
    if len(short):
        row = int(np.argmax(file.episode == short[0]))
        raise DemoError(
            f"{place(file.path, row)}: the episode that begins here has {counts[short[0]]} states; a pair needs "
            f"{stride + 1}"
        )
    first = np.flatnonzero(file.episode[stride:] == file.episode[:-stride])
    return _Part(str(file.path), states, first, stride, len(counts))


def _stride(seconds: float | None, decision_seconds: float | None) -> int:
    """Returns the number of a file's rows, which are `seconds` apart, in one decision."""
    return 1 if seconds is None or decision_seconds is None else max(1, round(decision_seconds / seconds))


def _of_other_rates(files: Sequence[MotionFile], decision_seconds: float | None) -> list[str]:
    """Returns a warning for each file that cannot be read at the rate of decisions."""
    rates = {str(file.path): file.seconds for file in files if file.seconds is not None}
    if decision_seconds is None:
        if not rates or max(rates.values()) <= (1 + RATE_ERROR) * min(rates.values()):
            return []
        found = ", ".join(f"{path} {seconds:g} s" for path, seconds in list(rates.items())[:LISTED])
        return [
            f"clips of different rates are read row after row ({found}); with decision_seconds they are read as fast "
            "as the behavior decides"
        ]
    warnings = [
        f"{file.path} has no column `time`: its rows are taken to be {decision_seconds:g} s apart, as decisions are"
        for file in files
        if file.seconds is None
    ]
    for path, seconds in rates.items():
        apart = _stride(seconds, decision_seconds) * seconds
        if abs(apart - decision_seconds) > RATE_ERROR * decision_seconds:
            warnings.append(
                f"{path}: its states are {seconds:g} s apart, and decisions {decision_seconds:g} s; pairs of "
                f"{apart:g} s are compared, so motions come out {apart / decision_seconds:.2f} times as fast: give it "
                "a rate of which a decision is a whole number of rows"
            )
    return warnings


def _joined(parts: Sequence[_Part], chosen: Chosen, device: torch.device, warnings: Sequence[str]) -> Clips:
    begins = np.cumsum([0, *(len(part.states) for part in parts)])
    states = np.concatenate([part.states for part in parts])
    first = np.concatenate([part.first + begin for part, begin in zip(parts, begins, strict=False)])
    second = np.concatenate([part.first + begin + part.stride for part, begin in zip(parts, begins, strict=False)])
    used = states[np.union1d(first, second)]
    least, most = used.min(0), used.max(0)
    _must_move(most - least <= STILL * np.maximum(np.abs(used).max(0), 1), least, chosen)
    deviation = used.std(0, dtype=np.float64)
    deviation = np.maximum(deviation, LEAST_DEVIATION * np.median(deviation))

    mean = used.mean(0, dtype=np.float64).astype(np.float32)
    states, first, second, mean, deviation = (
        torch.from_numpy(table).to(device) for table in (states, first, second, mean, deviation.astype(np.float32))
    )
    return Clips(states, first, second, mean, deviation, _remark(parts, chosen), tuple(warnings))


def _must_move(still: NDArray[np.bool_], values: NDArray[np.float32], chosen: Chosen) -> None:
    """Raises DemoError for numbers that are constant in all clips: if they vary for a policy, they alone would separate
    it from the clips; if not, they carry no information."""
    names = [name for sensor in chosen for name in sensor.names]
    if not still.any():
        return
    found = [f"{name} ({value:g})" for name, value, is_still in zip(names, values, still, strict=True) if is_still]
    left = without(chosen, (name for name, is_still in zip(names, still, strict=True) if is_still))
    more = f", ... ({len(found)} in all)" if len(found) > LISTED else ""
    advice = f"compare the others: observations: {left}" if left else "record a motion"
    raise DemoError(
        f"{CLIPS}: numbers that never change in the clips cannot be compared: {', '.join(found[:LISTED])}{more}; "
        f"{advice}"
    )


def _remark(parts: Sequence[_Part], chosen: Chosen) -> str:
    def counts(some: Sequence[_Part]) -> str:
        pairs, episodes = sum(len(part.first) for part in some), sum(part.episodes for part in some)
        return f"{pairs:,} pairs of {episodes:,} episode{'' if episodes == 1 else 's'}"

    files = [f"{part.title} ({counts([part])})" if len(parts) > 1 else part.title for part in parts[:LISTED]]
    more = f" and {len(parts) - LISTED} more" if len(parts) > LISTED else ""
    numbers = sum(len(sensor.numbers) for sensor in chosen)
    return f"amp: {counts(parts)} from {', '.join(files)}{more}; {numbers} numbers of {', '.join(map(str, chosen))}"
