import numpy as np
import pytest

from palaestra.core.errors import EnvError
from palaestra.envs.slots import Slots


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_newcomers_take_the_lowest_free_slots():
    slots = Slots(4)
    assert slots.assign(ids(70, 30)).tolist() == [1, 0]
    slots.release(ids(30))
    assert slots.assign(ids(70, 90, 80)).tolist() == [1, 2, 0]


def test_an_agent_keeps_its_slot_while_others_come_and_go():
    slots = Slots(2)
    mine = slots.assign(ids(5))[0]
    for other in range(10, 40):
        slots.assign(ids(other, other + 100))
        slots.release(ids(other))
        assert slots.assign(ids(5))[0] == mine


def test_slots_grow_by_doubling_and_never_shrink():
    slots = Slots(2)
    slots.assign(ids(0, 1, 2))
    assert len(slots) == 4
    slots.assign(np.arange(9, dtype=np.int64))
    assert len(slots) == 16
    slots.release(np.arange(9, dtype=np.int64))
    assert len(slots) == 16
    assert not slots.taken.any()


def test_an_id_that_ends_and_decides_on_one_tick_has_one_slot():
    slots = Slots()
    assert slots.assign(ids(3, 8, 3)).tolist() == [0, 1, 0]


def test_a_newcomer_does_not_get_a_slot_that_closes_on_the_same_tick():
    slots = Slots(1)
    slots.assign(ids(1))
    ended, newcomer = slots.assign(ids(1, 2))
    slots.release(ids(1))
    assert (ended, newcomer) == (0, 1)
    assert slots.assign(ids(2, 3)).tolist() == [1, 0]


def test_leaving_without_a_slot_changes_nothing():
    slots = Slots()
    slots.release(ids(4))
    slots.assign(ids(1))
    slots.release(ids(2))
    assert slots.agent.tolist() == [1]


def test_no_agents_need_no_slots():
    assert Slots().assign(ids()).tolist() == []


def test_a_negative_id_is_refused():
    with pytest.raises(EnvError, match="id -1"):
        Slots(2).assign(ids(4, -1))


@pytest.mark.parametrize("seed", range(5))
def test_random_comings_and_goings_agree_with_a_dictionary(seed: int):
    random = np.random.default_rng(seed)
    slots = Slots(random.integers(4))
    reference = {}
    next_id = 0
    for _ in range(200):
        count = random.integers(6)
        newcomers = np.arange(next_id, next_id + count)
        next_id += count
        present = np.array([*reference, *newcomers], np.int64)
        mentioned = random.permutation(np.concatenate([present[random.random(len(present)) < 0.7], newcomers]))
        assigned = slots.assign(mentioned.astype(np.int64))
        free = (slot for slot in range(len(slots)) if slot not in reference.values())
        taken = {int(agent): next(free) for agent in sorted(set(mentioned.tolist()) - reference.keys())}
        reference |= taken
        assert assigned.tolist() == [reference[agent] for agent in mentioned.tolist()]
        leaving = mentioned[random.random(len(mentioned)) < 0.3]
        slots.release(leaving)
        for agent in leaving.tolist():
            reference.pop(agent, None)
        assert {int(agent): slot for slot, agent in enumerate(slots.agent) if agent >= 0} == reference
