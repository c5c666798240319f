"""Decisions of a recording as arrays, in the order in which they were made."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError
from palaestra.core.specs import BehaviorSpec
from palaestra.demos import DemoSource, Pairs
from palaestra.demos.record_columns import join_masks

MOST_DECISIONS = 2048
"""Decisions that are compared: the first ones of a recording."""
MOST_NUMBERS = 1 << 24
"""Numbers of all observations that are compared: fewer decisions of large images."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlayedDecisions:
    """N decisions of one agent; its episodes follow one another."""

    spec: BehaviorSpec
    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape)
    mask: NDArray[np.bool_] | None  # (N, choices) True: allowed
    continuous: NDArray[np.float32]  # (N, numbers)
    discrete: NDArray[np.int64]  # (N, branches)
    age: Rows  # (N,) decisions of the same episode before it

    def __len__(self) -> int:
        return len(self.age)

    @property
    def episodes(self) -> int:
        """Number of episodes; the last episode may be unfinished."""
        return int((self.age == 0).sum())


def played_decisions(demo: DemoSource) -> PlayedDecisions:
    """Reads the first decisions of a recording. Raises DemoError if there are none."""
    most = min(MOST_DECISIONS, max(1, MOST_NUMBERS // max(1, sum(prod(obs.shape) for obs in demo.spec.obs))))
    parts: list[Pairs] = []
    count = 0
    for pairs in demo.pairs():
        parts.append(pairs.rows(0, most - count))
        count += len(parts[-1])
        if count >= most:
            break
    if not count:
        raise DemoError(f"{demo.title} holds no decision: there is nothing to compare with a model")
    episode = np.concatenate([part.episode for part in parts])
    first = np.flatnonzero(np.diff(episode, prepend=episode[0] - 1))
    begun = np.repeat(first, np.diff(first, append=count))
    return PlayedDecisions(
        demo.spec,
        tuple(np.concatenate(column) for column in zip(*(part.obs for part in parts), strict=True)),
        join_masks([(part.mask, len(part)) for part in parts]),
        np.concatenate([part.continuous for part in parts]),
        np.concatenate([part.discrete for part in parts]),
        np.arange(count) - begun,
    )
