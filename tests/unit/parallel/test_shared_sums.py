import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from palaestra.parallel import shared_sums
from palaestra.parallel.shared_memory import SharedBlock
from palaestra.parallel.shared_sums import CHUNK, SharedSums


def made(size: int, timeout: float = 20.0) -> list[SharedSums]:
    """The memory of so many ranks, all in this process."""
    block = SharedBlock(SharedSums.bytes_for(size))
    block.unlink()
    return [SharedSums(block, number, size, timeout) for number in range(size)]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_rank_gets_the_same_sums_and_objects_also_those_larger_than_a_chunk(size: int):
    sums = made(size)
    whole = torch.randn(size, 3, CHUNK // 4 * 2 + 5, generator=torch.Generator().manual_seed(1))

    def rank(number: int) -> list[torch.Tensor]:
        sent = [bytes([i]) * (i * CHUNK + i) for i in range(size)]
        assert sums[number].gather(sent[number]) == sent
        own = [values.clone() for values in whole[number]]
        for values in own:
            sums[number].add(values)
        return own

    with ThreadPoolExecutor(size) as pool:
        first, *others = pool.map(rank, range(size))
    for i, values in enumerate(first):
        torch.testing.assert_close(values, whole[:, i].sum(0))
        assert all(torch.equal(other[i], values) for other in others)


def test_a_rank_that_leaves_or_does_not_come_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_sums, "LOOK_SECONDS", 0.01)
    sums = made(2, timeout=0.05)
    with pytest.raises(RuntimeError, match="did not arrive in time"):
        sums[0].add(torch.ones(1))
    sums = made(2)
    leaving = threading.Timer(0.05, sums[1].leave)
    leaving.start()
    with pytest.raises(RuntimeError, match="rank 1 has ended"):
        sums[0].add(torch.ones(1))
    leaving.join()


@pytest.mark.skipif(sys.platform == "win32", reason="no process stays there after its end")
def test_a_rank_has_ended_also_while_its_parent_has_not_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_sums, "LOOK_SECONDS", 0.01)
    sums = made(2)
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as ended:
        assert ended.stdout is not None
        ended.stdout.read()  # until it ends; nobody waits for it within this block
        sums[1]._pids[1] = ended.pid
        with pytest.raises(RuntimeError, match="rank 1 has ended"):
            sums[0].add(torch.ones(1))
