from itertools import chain

import numpy as np
import pytest
import torch

from palaestra.data.device_copies import permutations, to_device
from palaestra.data.rollout import Minibatch, passes


def numbered(count: int, masked: bool = True) -> Minibatch:
    """Rows whose every column says which row it is."""
    number = torch.arange(float(count))
    wide = number.unsqueeze(1)
    mask = number.unsqueeze(1) % torch.tensor([2.0, 3.0]) == 0 if masked else None
    return Minibatch((wide, wide + 0.5), wide.expand(-1, 2), wide.long(), -wide, number, wide, wide, mask)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_each_epoch_takes_every_row_once_in_an_order_of_its_own():
    orders = list[list[float]]()
    for batches in passes(numbered(12), size=4, epochs=3, generator=generator()):
        rows = [batch.advantage.tolist() for batch in batches]
        assert list(map(len, rows)) == [4, 4, 4]
        orders.append(list(chain(*rows)))
    assert len(orders) == 3
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3


def test_all_passes_take_the_same_memory_beside_the_rows():
    rows = numbered(12)
    places = [
        [column.data_ptr() for column in next(batches).columns()]
        for batches in passes(rows, size=4, epochs=3, generator=generator())
    ]
    assert places[0] == places[1] == places[2]
    assert not set(places[0]) & {column.data_ptr() for column in rows.columns()}


def test_the_columns_of_a_row_stay_together():
    for batch in chain.from_iterable(passes(numbered(20), size=5, epochs=1, generator=generator())):
        number = batch.advantage
        assert torch.equal(batch.inputs[0][:, 0], number)
        assert torch.equal(batch.inputs[1][:, 0], number + 0.5)
        assert torch.equal(batch.continuous[:, 1], number)
        assert torch.equal(batch.discrete[:, 0], number.long())
        assert torch.equal(batch.log_prob[:, 0], -number)
        assert torch.equal(batch.target[:, 0], number)
        assert batch.mask is not None
        assert torch.equal(batch.mask[:, 1], number % 3 == 0)


def test_what_is_left_of_an_epoch_is_dropped():
    batches = list(chain.from_iterable(passes(numbered(11), size=4, epochs=2, generator=generator())))
    assert [len(batch.advantage) for batch in batches] == [4, 4, 4, 4]


@pytest.mark.parametrize("count", [1, 3])
def test_fewer_rows_than_a_minibatch_are_one_minibatch(count: int):
    batches = list(chain.from_iterable(passes(numbered(count, masked=False), size=4, epochs=2, generator=generator())))
    assert [sorted(batch.advantage.tolist()) for batch in batches] == [list(range(count))] * 2
    assert batches[0].mask is None


def test_the_generator_decides_the_order():
    first, same = (
        [b.advantage.tolist() for b in next(passes(numbered(8), size=2, epochs=1, generator=generator()))]
        for _ in range(2)
    )
    assert first == same


def test_orders_are_those_that_would_be_drawn_one_by_one():
    orders = permutations(7, 3, torch.Generator().manual_seed(5))
    one_by_one = torch.Generator().manual_seed(5)
    assert orders.tolist() == [torch.randperm(7, generator=one_by_one).tolist() for _ in range(3)]


def test_an_array_on_the_cpu_is_not_copied():
    array = np.arange(3)
    tensor = to_device(array, torch.device("cpu"))
    array[1] = 9
    assert tensor.tolist() == [0, 9, 2]
