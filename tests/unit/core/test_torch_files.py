import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from palaestra.core import torch_files
from palaestra.core.errors import CheckpointError, ExportError
from palaestra.core.torch_files import arrays_of, read_saved


class Attack:
    """Runs code when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_tensors_come_back(tmp_path: Path):
    torch.save({"a.weight": torch.ones(2, 3, dtype=torch.float64), "steps": torch.tensor(3)}, tmp_path / "a.pt")
    arrays = arrays_of(read_saved(tmp_path / "a.pt", "a.pt"), "a.pt")
    assert arrays["a.weight"].dtype == np.float32
    assert arrays["steps"].item() == 3


def test_code_in_a_file_is_not_run(tmp_path: Path):
    torch.save({"a": torch.ones(1), "b": Attack(tmp_path / "ran")}, tmp_path / "a.pt")
    with pytest.raises(ExportError, match=r"a\.pt holds more than weights .* refused"):
        read_saved(tmp_path / "a.pt", "a.pt")
    assert not (tmp_path / "ran").exists()


def test_a_bare_pickle_is_not_run(tmp_path: Path):
    (tmp_path / "a.pt").write_bytes(pickle.dumps(Attack(tmp_path / "ran")))
    with pytest.raises(CheckpointError, match="no zip file"):
        read_saved(tmp_path / "a.pt", "a.pt", CheckpointError)
    assert not (tmp_path / "ran").exists()


def test_a_file_that_unpacks_to_much_more_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch_files, "MOST_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(1 << 21))
    assert (tmp_path / "a.pt").stat().st_size < 1 << 13
    with pytest.raises(ExportError, match="would unpack to"):
        read_saved(tmp_path / "a.pt", "a.pt")


def test_a_tensor_that_repeats_one_number_a_billion_times_is_refused(tmp_path: Path):
    torch.save({"a": torch.ones(1).expand(1 << 15, 1 << 15)}, tmp_path / "a.pt")
    with pytest.raises(ExportError, match="tensors of more than"):
        arrays_of(read_saved(tmp_path / "a.pt", "a.pt"), "a.pt")


def test_damaged_files_give_one_message(tmp_path: Path):
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(100)}, buffer)
    content = buffer.getvalue()
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(content), 60):
        changed = bytearray(content)
        changed[at] ^= 0xFF
        try:  # anything but an ExportError fails the test
            arrays_of(read_saved(bytes(changed[: len(content) - at % 2]), "a.pt"), "a.pt")
        except ExportError:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1, 2], "a list; expected a state_dict"),
        ({}, "expected a state_dict"),
        ({"a": "text"}, "'a', a str"),
        ({1: torch.ones(1)}, "'1'"),
        ({"a": torch.tensor([1.0, float("nan")])}, "not finite"),
        ({"a": torch.ones(1, dtype=torch.complex64)}, "cannot be converted"),
    ],
)
def test_what_is_no_state_dict_is_named(state: Any, message: str):
    with pytest.raises(ExportError, match=message):
        arrays_of(state, "a.pt")


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ExportError, match=r"none\.pt cannot be read"):
        read_saved(tmp_path / "none.pt", "none.pt")
