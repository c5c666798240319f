from __future__ import annotations

import pytest
import torch

from palaestra.core.errors import ConfigError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.system_memory import free_memory
from palaestra.data.replay import Replay
from palaestra.trainers.sac import check_room

SPEC = BehaviorSpec((ObsSpec("image", (3, 84, 84)),), ActionSpec(branches=(4,)))
CPU = torch.device("cpu")


def replay_of(share: float) -> Replay:
    """One that takes about this share of the memory that is free."""
    sample = 1_000_000
    return Replay(SPEC, int(sample * share * free_memory() / Replay(SPEC, sample, CPU).bytes_needed), CPU)


def test_a_replay_that_does_not_fit_is_refused_with_a_size_that_does():
    with pytest.raises(
        ConfigError, match=r"hyperparameters.buffer_size: .* GiB of memory are free; a buffer_size of .* would fit"
    ):
        check_room(replay_of(1.5))


def test_what_other_replays_will_take_is_not_free():
    first = replay_of(0.6)
    second = replay_of(0.6)
    check_room(first)
    check_room(first)  # it is not counted twice
    with pytest.raises(ConfigError, match=r"are free beside the .* GiB that replays of other behaviors will take"):
        check_room(second)
    del first
    check_room(second)
