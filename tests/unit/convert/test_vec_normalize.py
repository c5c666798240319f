import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palaestra.convert.source_check import _recorded
from palaestra.convert.vec_normalize import read_statistics
from palaestra.core.errors import ExportError

SB3 = Path(__file__).parents[2] / "golden" / "data" / "others" / "sb3"


class Attack:
    """Runs code when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_statistics_of_a_vector_are_read():
    found = read_statistics(SB3 / "ppo_norm.pkl")
    scaling = found.normalizer("")
    assert scaling is not None
    assert scaling.mean.shape == (6,)
    assert scaling.limit == 5.0


def test_only_the_normalized_parts_of_a_dict_have_statistics():
    found = read_statistics(SB3 / "ppo_dict_norm.pkl")
    assert found.normalizer("a") is None
    assert found.normalizer("b") is not None


def test_a_pickle_runs_nothing(tmp_path: Path):
    for payload in (Attack(tmp_path / "ran"), {"state": Attack(tmp_path / "ran")}, [os.system]):
        (tmp_path / "a.pkl").write_bytes(pickle.dumps(payload))
        with pytest.raises(ExportError, match=r"a\.pkl"):
            read_statistics(tmp_path / "a.pkl")
    assert not (tmp_path / "ran").exists()


def test_an_attack_within_the_real_file_runs_nothing(tmp_path: Path):
    content = (SB3 / "ppo_norm.pkl").read_bytes()
    forged = content.replace(b"\x8c\x05numpy", b"\x8c\x05posix").replace(b"\x8c\x05dtype", b"\x8c\x06system"[:7])
    (tmp_path / "a.pkl").write_bytes(forged)
    with pytest.raises(ExportError):
        read_statistics(tmp_path / "a.pkl")


def test_damaged_pickles_give_one_message(tmp_path: Path):
    content = (SB3 / "ppo_norm.pkl").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.integers(0, len(content), 200):
        changed = bytearray(content)
        changed[at] = rng.integers(256)
        (tmp_path / "a.pkl").write_bytes(bytes(changed[: len(content) - at % 3]))
        try:  # anything but an ExportError fails the test
            read_statistics(tmp_path / "a.pkl")
        except ExportError:
            refused += 1
    assert refused > 50


def test_arrays_of_another_program_serve_too(tmp_path: Path):
    np.savez(tmp_path / "a.npz", mean=np.zeros(3), var=np.full(3, 4.0), epsilon=0.0)
    scaling = read_statistics(tmp_path / "a.npz").normalizer("")
    assert scaling is not None
    assert scaling.divisor.tolist() == [2, 2, 2]
    assert scaling.limit is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"mean": np.zeros(3)}, "has the arrays mean; expected 'mean', 'var'"),
        ({"mean": np.zeros(3), "var": -np.ones(3)}, "do not fit one another"),
        ({"mean": np.zeros(3), "var": np.ones(2)}, "do not fit one another"),
        ({"mean": np.array([None]), "var": np.ones(1)}, "cannot be read as .npz"),
    ],
)
def test_arrays_that_make_no_sense_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ExportError, match=message):
        read_statistics(tmp_path / "a.npz")


def test_another_kind_of_file_is_refused(tmp_path: Path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ExportError, match=r"expected VecNormalize's \.pkl, or an \.npz"):
        read_statistics(tmp_path / "a.json")


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x80\x04Nr\xff\xff\xff\x07.",  # the place 2^27 of the memo
        b"\x80\x05\x96\0\0\0\0\x02\0\0\0abc.",  # an array of 2^33 bytes
        b"\x80\x04(" + b"]" * 200_000 + b"t.",
    ],
)
def test_a_pickle_that_asks_for_more_memory_than_statistics_need_is_refused_before_it_is_read(
    bomb: bytes, tmp_path: Path, monkeypatch: Any
):
    (tmp_path / "bomb.pkl").write_bytes(bomb)
    monkeypatch.setattr("palaestra.convert.vec_normalize._InertUnpickler", lambda file: pytest.fail("it was read"))
    with pytest.raises(ExportError, match="cannot be read as VecNormalize"):
        read_statistics(tmp_path / "bomb.pkl")


def packed(rows: int, content: bytes) -> bytes:
    """Returns an .npz file whose arrays declare so many bytes and hold others."""
    header = io.BytesIO()
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (rows,)})
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("mean", "var"):
            archive.writestr(f"{name}.npy", header.getvalue() + content)
    return file.getvalue()


@pytest.mark.parametrize("read", [read_statistics, _recorded])
def test_arrays_of_a_small_file_that_declares_a_large_one_are_refused(
    read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "bomb.npz"
    file.write_bytes(packed(1 << 40, b""))
    with pytest.raises(ExportError, match=r"an array of shape \(1099511627776,\) and type uint8 has 0 bytes"):
        read(file)
    for place in ("vec_normalize", "source_check"):
        monkeypatch.setattr(f"palaestra.convert.{place}.MOST_BYTES", 1 << 16)
    file.write_bytes(packed(1 << 16, bytes(1 << 16)))
    with pytest.raises(ExportError, match="would unpack to 131,328 bytes; at most 65,536 are read"):
        read(file)
