from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore

from palaestra.core.errors import RankLost
from palaestra.parallel.rank_store import agree_on_session


def agreed(store: HashStore, size: int) -> set[str]:
    """Returns the names that ranks agree on, each in a thread of its own."""
    with ThreadPoolExecutor(size) as pool:
        return set(pool.map(lambda rank: agree_on_session(store, rank, size, 20.0), range(size)))


def test_all_ranks_agree_on_a_name_that_no_earlier_group_in_the_same_store_had():
    store = HashStore()
    first = agreed(store, 3)
    second = agreed(store, 3)
    assert len(first) == len(second) == 1
    assert first != second


def test_a_rank_of_an_earlier_group_does_not_stand_for_one_that_is_missing():
    store = HashStore()
    agreed(store, 3)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(agree_on_session, store, rank, 3, 0.3) for rank in (0, 1)]
        with pytest.raises(RankLost, match=r"^rank 2 of 3 did not come within 0\.3 s$") as caught:
            waiting[0].result()
        assert caught.value.reports
        with pytest.raises(RankLost, match="another rank of 3 did not come") as caught:
            waiting[1].result()
        assert not caught.value.reports
