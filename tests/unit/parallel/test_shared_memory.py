from pathlib import Path

import numpy as np
import pytest
import torch

from palaestra.core.timestep import Action
from palaestra.parallel import shared_memory
from palaestra.parallel.shared_memory import FIRST_SIZE, SharedReceiver, SharedSender


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).view(3, 4).t(),
        torch.zeros(0, 5),
        torch.tensor(3.5, dtype=torch.float64),
        torch.tensor([True, False]),
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([1 << 40, -1]),
    ],
)
def test_a_tensor_arrives_as_it_was(tensor: torch.Tensor):
    arrived = SharedReceiver().unpack(SharedSender().pack({"x": tensor}))["x"]
    assert arrived.dtype == tensor.dtype
    assert torch.equal(arrived, tensor)


def test_structures_arrive_whole_while_the_next_one_is_packed_and_stay():
    sender = SharedSender()
    receiver = SharedReceiver()
    action = Action(torch.ones(2, 1), torch.zeros(2, 0, dtype=torch.int64))
    first = sender.pack({"action": action, "array": np.arange(3), "rest": ("a", None, 2)})
    second = sender.pack(torch.zeros(5))
    arrived = receiver.unpack(first)
    assert torch.equal(receiver.unpack(second), torch.zeros(5))
    receiver.unpack(sender.pack(torch.zeros(5)))
    assert torch.equal(arrived["action"].continuous, torch.ones(2, 1))
    assert arrived["action"].discrete.shape == (2, 0)
    assert arrived["array"].tolist() == [0, 1, 2]
    assert arrived["rest"] == ("a", None, 2)


def test_memory_grows_with_what_is_sent_and_leaves_no_file():
    sender = SharedSender()
    receiver = SharedReceiver()
    for size in (5, FIRST_SIZE, 7, 2 * FIRST_SIZE, 5):
        sent = torch.rand(size)
        assert torch.equal(receiver.unpack(sender.pack(sent)), sent)
        assert not any(block.path.exists() for block in sender._blocks if block is not None)
    assert len(receiver._blocks) == 2


def test_a_full_ram_disk_is_replaced_by_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ram_disk = tmp_path / "shm"
    reserve = shared_memory.os.posix_fallocate
    ram_disk.mkdir()
    monkeypatch.setattr(shared_memory, "RAM_DISK", ram_disk)

    def allocate(handle: int, offset: int, size: int) -> None:
        if Path(f"/proc/self/fd/{handle}").readlink().is_relative_to(ram_disk):
            raise OSError(28, "No space left on device")
        reserve(handle, offset, size)

    monkeypatch.setattr(shared_memory.os, "posix_fallocate", allocate)
    sender = SharedSender()
    message = sender.pack(torch.ones(5))
    assert sender._blocks[0].path.parent != ram_disk
    assert list(ram_disk.iterdir()) == []
    assert torch.equal(SharedReceiver().unpack(message), torch.ones(5))
