"""A replay of recorded episodes says what was recorded, alone and beside another."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.data.n_step import Ahead
from palaestra.data.recorded_replay import recorded_replay, side_by_side
from palaestra.data.replay import Replay, ReplayBatch
from palaestra.demos import Episode, Pairs
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.models.settings import MemorySettings, NetworkSettings

CPU = torch.device("cpu")
SPEC = BehaviorSpec((ObsSpec("number", (1,)), ObsSpec("image", (1, 2, 2))), ActionSpec(continuous=1, branches=(3,)))


def episode(first: int, length: int, end: str, *, final: bool = True, mask: bool = False) -> Episode:
    """Decisions numbered from `first`: decision n sees n and 1 / n, is the action n / 100, and earns n + n / 2."""
    numbers = np.arange(first, first + length, dtype=np.float32)

    def seen(of: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
        return of[:, None], np.broadcast_to((1 / of)[:, None, None, None], (len(of), 1, 2, 2)).astype(np.float32)

    last = np.arange(length) == length - 1
    pairs = Pairs(
        obs=seen(numbers),
        mask=np.tile([True, False, False], (length, 1)) if mask else None,
        continuous=numbers[:, None] / 100,
        discrete=numbers[:, None].astype(np.int64) % 3,
        reward=numbers,
        group_reward=numbers / 2,
        terminated=last & (end == "terminated"),
        truncated=last & (end == "truncated"),
        episode=np.full(length, first),
        id=np.zeros(length, np.int64),
    )
    after = tuple(column[0] for column in seen(np.array([first + length + 0.5], np.float32)))
    return Episode(pairs, after if final else None, end != "open")


EPISODES = [
    episode(10, 3, "terminated"),
    episode(20, 2, "truncated"),
    episode(30, 4, "terminated", final=False, mask=True),
    episode(40, 1, "open"),
]


def rows(batch: ReplayBatch) -> dict[int, Any]:
    """What a batch says of each decision, by its number."""
    return dict(by_row(batch))


def by_row(batch: ReplayBatch) -> list[tuple[int, Any]]:
    now, after = (tuple(x[at] for x in batch.obs) for at in (batch.now, batch.after))
    masks = None if batch.masks is None else batch.masks[batch.now].tolist()
    return [
        (
            round(now[0][i].item()),
            (
                round(batch.action.continuous[i].item() * 100),
                batch.action.discrete[i].item(),
                batch.reward[i].item(),
                after[0][i].item(),
                bool(batch.terminated[i]),
                bool(batch.ended[i]),
                masks and masks[i],
            ),
        )
        for i in range(len(batch.reward))
        if abs(now[1][i].mean().item() - 1 / now[0][i].item()) < 1 / 255
    ]


def test_each_decision_leads_where_it_was_recorded_to_lead():
    replay = recorded_replay(EPISODES, SPEC, CPU, memory=0, stretch=0)
    batch = replay.draw(400, torch.Generator().manual_seed(0))
    everything = [True, True, True]
    assert batch.obs[1].max() <= 0.1 + 1 / 255
    assert rows(batch) == {
        10: (10, 1, 15.0, 11.0, False, False, everything),
        11: (11, 2, 16.5, 12.0, False, False, everything),
        12: (12, 0, 18.0, 13.5, True, True, everything),
        20: (20, 2, 30.0, 21.0, False, False, everything),
        21: (21, 0, 31.5, 22.5, False, True, everything),
        30: (30, 0, 45.0, 31.0, False, False, [True, False, False]),
        31: (31, 1, 46.5, 32.0, False, False, [True, True, False]),  # what was done was allowed
        32: (32, 2, 48.0, 33.0, False, False, [True, False, True]),
        33: (33, 0, 49.5, 33.0, True, True, [True, False, False]),  # its final observation was not recorded
        40: (40, 1, 60.0, 41.5, False, False, everything),
    }


@pytest.mark.parametrize("stretch", [0, 2])
def test_two_batches_side_by_side_say_what_each_says(stretch: int):
    memory = 8 if stretch else 0
    generator = torch.Generator().manual_seed(1)
    first, second = (
        recorded_replay(each, SPEC, CPU, memory=memory, stretch=stretch).draw(6, generator)
        for each in (EPISODES[:2], EPISODES[2:])
    )
    both = side_by_side(first, second)
    shown = {number: row[:-1] for number, row in rows(both).items()}
    assert shown == {number: row[:-1] for batch in (first, second) for number, row in rows(batch).items()}
    assert len(both.reward) == len(first.reward) + len(second.reward)
    assert both.masks is not None
    if not stretch:
        return
    torch.manual_seed(0)
    settings = NetworkSettings(hidden_units=8, memory=MemorySettings(sequence_length=2, memory_size=4))
    network = SoftActorCritic(BehaviorSpec(SPEC.obs[:1], SPEC.action), settings)
    with torch.no_grad():
        alone = [
            network.outputs(network.prepare(batch.obs[:1]), batch.sequences)[batch.now] for batch in (first, second)
        ]
        together = network.outputs(network.prepare(both.obs[:1]), both.sequences)[both.now]
    torch.testing.assert_close(together, torch.cat(alone))


def test_the_rewards_of_the_next_decisions_are_summed_to_the_end_of_the_episode():
    generator = torch.Generator().manual_seed(4)
    first, second = (
        recorded_replay(each, SPEC, CPU, memory=0, stretch=0).draw(200, generator, Ahead(3, 0.5))
        for each in (EPISODES[:2], EPISODES[2:])
    )
    both = side_by_side(first, second)
    assert both.steps is not None
    found = {number: (*row[2:6], int(steps)) for (number, row), steps in zip(by_row(both), both.steps, strict=True)}
    assert found == {
        10: (15 + 16.5 / 2 + 18 / 4, 13.5, True, True, 3),
        11: (16.5 + 18 / 2, 13.5, True, True, 2),
        12: (18.0, 13.5, True, True, 1),
        20: (30 + 31.5 / 2, 22.5, False, True, 2),
        21: (31.5, 22.5, False, True, 1),
        30: (45 + 46.5 / 2 + 48 / 4, 33.0, False, False, 3),
        31: (46.5 + 48 / 2 + 49.5 / 4, 33.0, True, True, 3),
        32: (48 + 49.5 / 2, 33.0, True, True, 2),
        33: (49.5, 33.0, True, True, 1),
        40: (60.0, 41.5, False, False, 1),
    }
    # what was done is that of the first decision alone
    assert {number: row[:2] for number, row in by_row(both)} == {n: (n, n % 3) for n in found}


def test_recorded_actions_beyond_the_range_of_the_policys_are_at_its_ends():
    replay = recorded_replay([episode(99, 3, "terminated")], SPEC, CPU, memory=0, stretch=0)
    done = replay.draw(60, torch.Generator().manual_seed(0)).action.continuous
    assert {round(each, 3) for each in done.flatten().tolist()} == {0.99, 1.0}


def test_the_largest_return_is_that_of_the_episode_that_earns_most():
    replay = recorded_replay(EPISODES, SPEC, CPU, memory=0, stretch=0)
    # 45; 46.5 + 22.5; 48 + 34.5; 49.5 + 41.25
    assert replay.largest_return(0.5) == 90.75
    state = replay.state_dict()
    state["decisions"]["reward"].neg_()
    other = Replay(SPEC, replay.size, CPU)
    assert other.largest_return(0.5) == 0
    assert other.load_state_dict(state)
    assert other.largest_return(0.5) == 90.75


def test_a_recording_can_be_drawn_from_after_its_state_was_saved():
    replay = recorded_replay(EPISODES, SPEC, CPU, memory=0, stretch=0)
    other = Replay(SPEC, replay.size, CPU)
    assert other.load_state_dict(replay.state_dict())
    a, b = (one.draw(8, torch.Generator().manual_seed(2)) for one in (replay, other))
    assert rows(a) == rows(b)
