"""What a group earned is known once nobody of it is left."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from tiny_envs import table

from palaestra.core.timestep import TimeStep
from palaestra.runtime.collect.episode_meter import EpisodeMeter
from palaestra.runtime.collect.episodes import last_of_groups
from palaestra.runtime.play.players import TeamEpisodes, shown

GROUPS = [5, 5, 5, 9, -1]


def tick(
    reward: float, terminated: Sequence[int] = (), acting: Sequence[int] = range(5), groups: Sequence[int] = GROUPS
) -> TimeStep:
    """Everybody gets this group reward; `acting` lists the slots that go on or begin anew."""
    made = table(torch.zeros(5, 1), terminated=list(terminated), acting=[slot in acting for slot in range(5)])
    return replace(made, group_reward=torch.full((5,), reward), group=torch.tensor(groups))


# slot 0 dies first, slot 2 next; the group ends with slot 1, which began a new life of the group only afterwards
STORY = [
    tick(0.0),
    tick(1.0, [0], [1, 2, 3, 4]),
    tick(2.0, [2], [1, 3, 4]),
    tick(4.0, [4], [1, 3, 4]),
    tick(8.0, [1], [0, 1, 2, 3, 4]),
    tick(16.0, [0, 1, 2, 3]),
]


def test_a_group_ends_with_its_last_member_and_earned_what_that_one_got():
    meter = EpisodeMeter(0)
    meter.begin(STORY[0])
    for step in STORY[1:]:
        meter.add(step)
    ended = meter.take()
    assert ended.group_returns[ended.last_of_group].tolist() == [15.0, 16.0, 31.0]
    assert ended.in_group.tolist() == [True, True, False, True, True, True, True, True]


def test_open_groups_go_on_from_a_state():
    first = EpisodeMeter(0)
    second = EpisodeMeter(0)
    first.begin(STORY[0])
    for step in STORY[1:3]:
        first.add(step)
    assert not first.take().last_of_group.any()
    second.load_state_dict(first.state_dict())
    for step in STORY[3:]:
        second.add(step)
    ended = second.take()
    assert ended.group_returns[ended.last_of_group].tolist() == [15.0, 16.0, 31.0]


def test_a_lost_member_is_not_waited_for():
    meter = EpisodeMeter(0)
    meter.begin(STORY[0])
    meter.add(replace(tick(1.0, [], [0, 3, 4]), lost=torch.tensor([False, True, True, False, False])))
    meter.add(tick(2.0, [0]))
    ended = meter.take()
    assert ended.group_returns[ended.last_of_group].tolist() == [3.0]


def test_team_episodes_count_groups_of_which_the_last_episode_counts():
    episodes = TeamEpisodes(0, 8)
    for i, step in enumerate(STORY):
        episodes.note(shown(step))
        if i < len(STORY) - 1:
            episodes.decided(step.acting.numpy().nonzero()[0])
    assert episodes.group_returns == [15.0, 16.0, 31.0]


def test_of_members_that_end_together_the_one_that_lived_longest_speaks_for_the_group():
    ended = np.array([True, True, True, False])
    slots = last_of_groups(ended, np.array([True, True, True, True]), np.array([3, 3, 7, 8]), np.array([2, 5, 1, 9]))
    assert slots.tolist() == [1, 2]
