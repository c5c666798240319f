import torch

from palaestra.envs.builtin.base.tables import MOST_KEPT, WORTH_KEEPING, PooledCopies

LARGE = WORTH_KEEPING // 4


def test_a_copy_that_is_held_stays_as_it_was():
    column = torch.zeros(LARGE)
    copies = PooledCopies(column)
    held = []
    for number in range(MOST_KEPT + 3):
        column.fill_(number)
        held.append(copies.take())
    assert [int(copy[0]) for copy in held] == list(range(MOST_KEPT + 3))
    assert [int(copy[-1]) for copy in held] == list(range(MOST_KEPT + 3))


def test_a_view_of_a_copy_holds_it():
    column = torch.zeros(LARGE)
    copies = PooledCopies(column)
    view = copies.take()[5:7].unsqueeze(0)
    array = copies.take().numpy()[:3]
    column.fill_(1.0)
    copies.take()
    assert view.sum() == 0
    assert array.sum() == 0


def test_memory_that_nobody_holds_is_used_again():
    copies = PooledCopies(torch.zeros(LARGE))
    places = set()
    for _ in range(10):
        copy = copies.take()
        places.add(copy.data_ptr())
    assert len(places) <= 2


def test_a_small_column_is_cloned():
    column = torch.arange(3)
    copy = PooledCopies(column).take()
    column.zero_()
    assert copy.tolist() == [0, 1, 2]
