from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    content, rng, refused = (SB3 / "ppo_norm.pkl").read_bytes(), np.random.default_rng(0), 0
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
