"""Demonstrations made by hand, for tests."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import DemoColumns, DemoRecord, DemoSource, DemoWriter
from palaestra.demos.record_columns import join

HYBRID = BehaviorSpec(
    (ObsSpec("view", (3,)), ObsSpec("things", (2, 2)), ObsSpec("goal", (2,), goal=True)), ActionSpec(2, (3, 2))
)


def record(
    at: int,
    *,
    first: bool = False,
    done: bool = False,
    truncated: bool = False,
    id: int = 0,
    mask: bool = False,
    spec: BehaviorSpec = HYBRID,
) -> DemoRecord:
    """What is seen at `at` is `at` everywhere; what is stored there is the answer to `at - 1`, zeros in an episode's
    first record.
    """
    before = 0 if first else at - 1
    action = spec.action
    return DemoRecord(
        obs=tuple(np.full(obs.shape, at / (255 if obs.is_visual else 1), np.float32) for obs in spec.obs),
        reward=0.0 if first else 0.5,
        group_reward=0.0 if first else 0.25,
        done=done,
        truncated=truncated,
        id=id,
        group=0,
        mask=np.arange(action.choices) % action.choices != action.choices - 1 if mask else None,
        continuous=np.full(action.continuous, before / 100, np.float32),
        discrete=np.full(len(action.branches), before % 2, np.int64),
    )


def episodes(
    *lengths: int, spec: BehaviorSpec = HYBRID, open_last: bool = False, mask: bool = False
) -> Iterable[DemoRecord]:
    """Episodes of so many decisions: one record more each. `at` goes on from one to the next."""
    at = 1
    for number, length in enumerate(lengths):
        for decision in range(length + 1):
            done = decision == length and not (open_last and number == len(lengths) - 1)
            yield record(
                at,
                first=decision == 0,
                done=done,
                truncated=done and number % 2 == 1,
                id=number,
                mask=mask and not done,
                spec=spec,
            )
            at += 1


def write(
    path: Path,
    records: Iterable[DemoRecord],
    spec: BehaviorSpec = HYBRID,
    key: str = "Thing?team=2",
    images: tuple[str, ...] = (),
) -> Path:
    with DemoWriter(path, "a demo", key, spec, images) as writer:
        for each in records:
            writer.write(each)
    return path


def columns(demo: DemoSource) -> DemoColumns:
    """All records at once."""
    return join(list(demo.chunks()))
