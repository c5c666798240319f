import numpy as np
import pytest
import torch

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.pool.packed_tables import pack_actions, pack_tables, unpack_actions, unpack_tables
from palaestra.envs.pool.shared_tables import PRESENT, SharedTables
from palaestra.parallel.shared_memory import LocalBlock

SPEC = BehaviorSpec((ObsSpec("place", (3,)), ObsSpec("eye", (4, 4, 3))), ActionSpec(continuous=2, branches=(3,)))


def table(
    acting: list[bool], ends: list[int], *, mask: bool = False, lost: list[bool] | None = None, seed: int = 0
) -> TimeStep:
    """A table of random numbers."""
    slots = len(acting)
    draw = torch.Generator().manual_seed(seed)
    obs = (torch.rand(slots, 3, generator=draw), torch.rand(slots, 4, 4, 3, generator=draw))
    ended = torch.zeros(slots, dtype=torch.bool)
    ended[ends] = True
    return TimeStep(
        obs=obs,
        acting=torch.tensor(acting),
        reward=torch.rand(slots, generator=draw),
        group_reward=torch.rand(slots, generator=draw),
        terminated=ended,
        truncated=torch.zeros(slots, dtype=torch.bool),
        final_obs=FinalObs(
            torch.tensor(ends, dtype=torch.int64),
            tuple(torch.rand(len(ends), *x.shape[1:], generator=draw) for x in obs),
        ),
        action_mask=torch.rand(slots, 3, generator=draw) < 0.5 if mask else None,
        area=torch.arange(slots),
        team=torch.zeros(slots, dtype=torch.int64),
        group=torch.full((slots,), -1),
        lost=None if lost is None else torch.tensor(lost),
    )


def both(step: TimeStep) -> tuple[SharedTables, SharedTables]:
    """Tables of the runner's side and of the run's."""
    there = SharedTables.create({"Walk": step}, {"Walk": SPEC}, LocalBlock)
    return there, SharedTables(there.layout, LocalBlock(there.layout.size))


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("lost", [None, [False, True, False]])
def test_every_column_arrives_as_it_was(mask: bool, lost: list[bool] | None):
    step = table([True, False, True], [0, 1], mask=mask, lost=lost)
    there, here = both(step)
    there.write({"Walk": step})
    unpack_tables(here, pack_tables(there))
    mine = here.arrays["Walk"]
    theirs = there.arrays["Walk"]
    names = {"acting", "reward", "group_reward", "terminated", "truncated", "area", "team", "group", "flags", "ends"}
    for name in names | ({"action_mask"} if mask else set()) | ({"lost"} if lost else set()):
        assert (mine[name] == theirs[name]).all(), name
    assert mine["end_slots"][:2].tolist() == [0, 1]
    for i in (0, 1):
        assert (mine[f"obs{i}"][[0, 2]] == step.obs[i].numpy()[[0, 2]]).all()
        assert (mine[f"final{i}"][:2] == step.final_obs.obs[i].numpy()).all()


def test_observations_travel_only_for_agents_that_act_and_stay_as_they_were_for_the_others():
    everyone = table([True] * 3, [], seed=1)
    nobody = table([False] * 3, [], seed=2)
    there, here = both(everyone)
    there.write({"Walk": everyone})
    full = pack_tables(there)
    unpack_tables(here, full)
    there.write({"Walk": nobody})
    little = pack_tables(there)
    unpack_tables(here, little)
    assert len(full) - len(little) == 4 * 3 * (3 + 48)
    assert (here.arrays["Walk"]["obs1"] == everyone.obs[1].numpy()).all()
    assert (here.arrays["Walk"]["reward"] == nobody.reward.numpy()).all()
    there.write({})
    unpack_tables(here, pack_tables(there))
    assert not here.arrays["Walk"]["flags"][PRESENT]  # the behavior has no table


def test_actions_travel_the_other_way():
    step = table([True, True], [])
    there, here = both(step)
    actions = {"Walk": Action(torch.tensor([[9.0, 9.0], [1.0, 2.0], [3.0, 4.0]]), torch.tensor([[9], [1], [2]]))}
    here.write_actions(actions, {"Walk": np.array([2, 1])})
    unpack_actions(there, pack_actions(here))
    read = there.read_actions()["Walk"]
    assert read.continuous.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert read.discrete.tolist() == [[2], [1]]
