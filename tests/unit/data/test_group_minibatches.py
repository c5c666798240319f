"""Minibatches of whole group steps."""

from itertools import chain, pairwise

import pytest
import torch
from grouped_stream import KEEPS, Grouped
from rollouts import answers, rollouts_of
from tiny_envs import Stream

from palaestra.data.group_minibatches import GroupMinibatch, GroupMinibatches
from palaestra.data.group_steps import GroupSteps
from palaestra.data.timeline import NOBODY


def table_of(seed: int, steady: bool) -> GroupSteps:
    """The second rollout of a stream: some agents wait with decisions of the first."""
    stream = Grouped(seed, Stream(seed, slots=6, steady=steady))
    _, rollout = rollouts_of(stream.next, (5, 30), answers(seed), KEEPS, steady=steady)
    return GroupSteps(rollout)


def check_moments(batch: GroupMinibatch, table: GroupSteps) -> None:
    """A batch's tables are those of the whole, in its own numbers."""
    chosen = batch.chosen.tolist()
    members = batch.groups.members
    here = batch.groups.present
    most = members.shape[1]
    for row, group_step in enumerate(batch.group_steps.tolist()):
        expected = [view for view in table.members[group_step].tolist() if view != NOBODY]
        assert [chosen[view] for view in members[row][here[row]].tolist()] == expected
    for decision, view, place in zip(
        batch.decisions.tolist(), batch.deciding.tolist(), batch.places.tolist(), strict=True
    ):
        assert chosen[view] == decision
        assert batch.group_steps[place // most] == table.group_step[decision]
        assert members[place // most, place % most] == view
    assert len(set(chosen)) == len(chosen)


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("longest", [None, 1, 4])
def test_a_pass_takes_each_decision_once_with_its_whole_moment(longest: int | None, steady: bool):
    table = table_of(1, steady)
    batches = GroupMinibatches(table, longest)
    taken: list[int] = []
    for batch in chain.from_iterable(batches.shuffled(20, 1, torch.Generator().manual_seed(0))):
        check_moments(batch, table)
        taken += batch.decisions.tolist()
    assert sorted(taken) == list(range(len(table.group_step)))
    assert [n for batch in batches.in_order(20, torch.device("cpu")) for n in sorted(batch.decisions.tolist())] != taken


def test_batches_have_about_as_many_decisions_each():
    table = table_of(2, steady=True)
    sizes = [
        len(batch.decisions)
        for batch in chain.from_iterable(GroupMinibatches(table, None).shuffled(20, 2, torch.Generator()))
    ]
    assert sum(sizes) == 2 * len(table.group_step)
    assert all(16 <= size <= 25 for size in sizes)


@pytest.mark.parametrize("steady", [True, False])
def test_with_memory_decisions_of_a_block_follow_one_another_and_others_stand_alone(steady: bool):
    table = table_of(3, steady)
    line = table.timeline
    own = GroupMinibatches(table, 4)
    for batch in own.in_order(15, torch.device("cpu")):
        check_moments(batch, table)
        assert batch.sequences is not None
        steps, place, starts = batch.sequences
        grid = torch.full((steps * len(starts),), NOBODY)
        grid[place] = batch.chosen
        assert len(grid[grid != NOBODY]) == len(batch.chosen)
        assert steps <= 4
        decided = set(batch.decisions.tolist())
        for sequence, start in zip(grid.view(steps, -1).t().tolist(), starts.tolist(), strict=True):
            views = [view for view in sequence if view != NOBODY]
            assert views == sequence[: len(views)]
            assert views[0] == start
            assert len(views) == 1 or decided.issuperset(views)
            assert all(line.next[before] == after for before, after in pairwise(views))


def test_a_groups_blocks_begin_anew_with_it():
    table = table_of(4, steady=True)
    fresh = torch.from_numpy(table.fresh).nonzero()[:, 0].tolist()
    begins = {int(batch.group_steps[0]) for batch in GroupMinibatches(table, 1000).in_order(1, torch.device("cpu"))}
    assert begins == set(fresh)
