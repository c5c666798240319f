"""Summarizes a demonstration: episodes, rewards, actions, ranges and problems, in one pass with constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from palaestra.core.specs import BehaviorSpec
from palaestra.demos import DemoColumns, DemoSource, Pairs, ReadTiming
from palaestra.demos.pairs import ends, paired

BINS = 40
"""Number of bins in a continuous action's histogram, from -1 to 1."""
_LISTED = 8  # most indices that a message lists


@dataclass
class Range:
    """Running minimum, maximum, mean and standard deviation of each number of a column, without NaN and infinity."""

    least: NDArray[np.float64]
    greatest: NDArray[np.float64]
    total: NDArray[np.float64]
    squares: NDArray[np.float64]
    count: NDArray[np.int64]
    broken: int = 0  # count of numbers that are NaN or infinite

    @classmethod
    def of(cls, size: int) -> Range:
        """Returns an empty Range for `size` numbers."""
        return cls(
            np.full(size, np.inf), np.full(size, -np.inf), np.zeros(size), np.zeros(size), np.zeros(size, np.int64)
        )

    def add(self, values: NDArray[np.float32]) -> None:
        """Includes rows, (N, size)."""
        finite = np.isfinite(values)
        all_finite = bool(finite.all())
        self.broken += 0 if all_finite else int((~finite).sum())
        np.minimum(self.least, values.min(0) if all_finite else np.where(finite, values, np.inf).min(0), out=self.least)
        np.maximum(
            self.greatest, values.max(0) if all_finite else np.where(finite, values, -np.inf).max(0), out=self.greatest
        )
        clean = values if all_finite else np.where(finite, values, 0)
        self.total += clean.sum(0, dtype=np.float64)
        self.squares += np.einsum("nk,nk->k", clean, clean, dtype=np.float64)
        self.count += len(values) if all_finite else finite.sum(0)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of each number, (size,)."""
        return self.total / np.maximum(self.count, 1)

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each number, (size,)."""
        return np.sqrt(np.maximum(self.squares / np.maximum(self.count, 1) - self.mean**2, 0))

    @property
    def constant(self) -> NDArray[np.int64]:
        """Indices of the numbers that never change."""
        return np.flatnonzero(self.least == self.greatest)


@dataclass
class DemoSummary:
    """Counts and statistics of a demonstration."""

    demo: DemoSource
    records: int = 0
    pairs: int = 0
    returns: list[float] = field(default_factory=list)
    """Return of each finished episode; if no episode finished, the return of the unfinished one."""
    group_returns: list[float] = field(default_factory=list)  # of their groups, in the same episodes
    lengths: list[int] = field(default_factory=list)  # decisions of the same episodes
    ended: int = 0
    truncated: int = 0  # ended by a limit
    open: int = 0  # without an end: the last one, and interrupted ones
    interrupted: int = 0  # followed by another agent's records without an end
    reward: float = 0.0  # sum over all records
    group_reward: float = 0.0
    masked: int = 0  # records in which some choice is not allowed
    forbidden: int = 0  # actions that their masks do not allow
    obs: list[Range] = field(default_factory=list)
    continuous: Range = field(default_factory=lambda: Range.of(0))
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, BINS), np.int64))  # (numbers, BINS)
    choices: list[NDArray[np.int64]] = field(default_factory=list)  # for each branch, counts of its choices
    broken_rewards: int = 0


def summarize(demo: DemoSource) -> DemoSummary:
    """Reads a whole demonstration and summarizes it. Raises DemoError for a damaged record."""
    summary = DemoSummary(demo)
    spec = demo.spec
    summary.obs = [Range.of(int(np.prod(obs.shape))) for obs in spec.obs]
    summary.continuous = Range.of(spec.action.continuous)
    summary.histogram = np.zeros((spec.action.continuous, BINS), np.int64)
    summary.choices = [np.zeros(size, np.int64) for size in spec.action.branches]
    returns = _Sums()
    group_returns = _Sums()
    lengths = _Sums()
    records = _Sums()
    finished = _Sums()
    episode = 0
    for pairs, columns, _ in paired(demo.chunks(), demo.timing):
        numbers = episode + np.concatenate([[0], np.cumsum(ends(columns))])  # episode number of each record
        fresh = slice(0 if summary.records == 0 else 1, None)
        episode = int(numbers[-1])
        _add_records(summary, columns.rows(fresh), columns)
        returns.add(numbers[fresh], columns.reward[fresh].astype(np.float64))
        group_returns.add(numbers[fresh], columns.group_reward[fresh].astype(np.float64))
        records.add(numbers[fresh], np.ones(len(columns))[fresh])
        finished.add(numbers[fresh], columns.done[fresh].astype(np.float64))
        lengths.add(pairs.episode, np.ones(len(pairs)))
        _add_pairs(summary, pairs, spec)
    began = (records.first(episode + 1) > 0) & ((lengths.first(episode + 1) > 0) | (finished.first(episode + 1) > 0))
    counted = began & (finished.first(episode + 1) > 0)
    summary.open = int(began.sum() - counted.sum())
    counted = counted if counted.any() else began
    summary.returns = returns.first(episode + 1)[counted].tolist()
    summary.group_returns = group_returns.first(episode + 1)[counted].tolist()
    summary.lengths = lengths.first(episode + 1)[counted].astype(np.int64).tolist()
    return summary


class _Sums:
    """Sums by episode number, for numbers that rise."""

    def __init__(self) -> None:
        self.values = np.zeros(64)

    def add(self, numbers: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Adds each value to the sum of its episode number."""
        if len(numbers):
            first = int(numbers[0])
            most = int(numbers[-1]) + 1
            if most > len(self.values):
                self.values = np.pad(self.values, (0, max(most, 2 * len(self.values)) - len(self.values)))
            self.values[first:most] += np.bincount(numbers - first, values, most - first)

    def first(self, count: int) -> NDArray[np.float64]:
        """Returns the sums of the first `count` episodes."""
        return np.pad(self.values, (0, max(0, count - len(self.values))))[:count]


def _add_records(summary: DemoSummary, fresh: DemoColumns, columns: DemoColumns) -> None:
    summary.records += len(fresh)
    summary.ended += int((fresh.done & ~fresh.truncated).sum())
    summary.truncated += int((fresh.done & fresh.truncated).sum())
    summary.interrupted += int((ends(columns) & ~columns.done[:-1]).sum())
    for values in (fresh.reward, fresh.group_reward):
        summary.broken_rewards += int((~np.isfinite(values)).sum())
    with np.errstate(invalid="ignore"):  # infinities of both signs
        summary.reward += float(fresh.reward.sum(dtype=np.float64))
        summary.group_reward += float(fresh.group_reward.sum(dtype=np.float64))
    summary.masked += 0 if fresh.mask is None else int((~fresh.mask).any(1).sum())
    for seen, column in zip(summary.obs, fresh.obs, strict=True):
        seen.add(column.reshape(len(fresh), -1))


def _add_pairs(summary: DemoSummary, pairs: Pairs, spec: BehaviorSpec) -> None:
    summary.pairs += len(pairs)
    if not len(pairs):
        return
    if spec.action.continuous:
        summary.continuous.add(pairs.continuous)
        bins = np.clip((np.clip(np.nan_to_num(pairs.continuous), -1, 1) + 1) * (BINS / 2), 0, BINS - 1).astype(np.int64)
        for number in range(spec.action.continuous):
            summary.histogram[number] += np.bincount(bins[:, number], minlength=BINS)
    start = 0
    wrong = np.zeros(len(pairs), np.bool_)
    for branch, size in enumerate(spec.action.branches):
        chosen = pairs.discrete[:, branch]
        inside = np.clip(chosen, 0, size - 1)
        wrong |= chosen != inside
        summary.choices[branch] += np.bincount(inside, minlength=size)
        if pairs.mask is not None:
            wrong |= ~pairs.mask[np.arange(len(pairs)), start + inside]
        start += size
    summary.forbidden += int(wrong.sum())


def find_problems(summary: DemoSummary) -> list[str]:
    """Returns a line for each problem to check before learning from the file, without the reader's own warnings."""
    return [*_counts(summary), *_numbers(summary), *_actions(summary)]


def _counts(summary: DemoSummary) -> list[str]:
    done = summary.ended + summary.truncated
    lines = summary.demo.metadata_problems(summary.pairs, done, summary.reward)
    if not done:
        lines.append("no episode in it ends")
    if summary.interrupted:
        lines.append(
            f"{summary.interrupted} times another agent's records follow without an episode's end; a file should hold "
            "one agent after another"
        )
    if summary.demo.timing is not ReadTiming.NEXT and done:
        lines.append(
            "it was written before ML-Agents 0.15: records with an end have the next episode's first observation, so "
            "final observations are missing"
        )
    if summary.records and not summary.pairs:
        lines.append("nothing can be learned from it: no record has both an observation and the action taken for it")
    return lines


def _numbers(summary: DemoSummary) -> list[str]:
    lines = []
    if summary.broken_rewards:
        lines.append(f"{summary.broken_rewards} rewards are NaN or infinite")
    for spec, seen in zip(summary.demo.spec.obs, summary.obs, strict=True):
        if seen.broken:
            lines.append(f"observation '{spec.name}': {seen.broken} values are NaN or infinite")
        still = seen.constant
        if spec.is_vector and len(still) and summary.records > 1:
            which = ", ".join(map(str, still[:_LISTED])) + (", ..." if len(still) > _LISTED else "")
            lines.append(f"observation '{spec.name}': {len(still)} of {len(seen.least)} values never change ({which})")
    return lines


def _actions(summary: DemoSummary) -> list[str]:
    lines = []
    seen = summary.continuous
    if seen.broken:
        lines.append(f"{seen.broken} continuous actions are NaN or infinite")
    if summary.pairs < 2:
        return lines
    for number in seen.constant.tolist():
        lines.append(f"continuous action {number} is always {seen.least[number]:.6g}")
    outside = np.flatnonzero((seen.least < -1) | (seen.greatest > 1))
    for number in outside.tolist():
        lines.append(
            f"continuous action {number} goes from {seen.least[number]:.6g} to {seen.greatest[number]:.6g}; expected "
            "-1 to 1"
        )
    for branch, counts in enumerate(summary.choices):
        if (counts > 0).sum() == 1 and len(counts) > 1:
            lines.append(f"discrete action {branch} is always {int(counts.argmax())}")
    if summary.forbidden:
        lines.append(f"{summary.forbidden} actions were not allowed by their masks, or are outside the choices")
    return lines
