import struct
from pathlib import Path

import numpy as np
import pytest
from nn_files import DENSE, LOAD, NNWriter, small_policy

import palaestra
from palaestra.brains.barracuda.nn_file import read_network
from palaestra.core.errors import PolicyError


def test_a_file_is_read_as_it_was_written(tmp_path: Path):
    network = read_network(small_policy().write(tmp_path / "a.nn"))
    assert network.inputs == {"vector_observation": (-1, 1, 1, 2)}
    assert network.constants["version_number"].item() == 2
    assert network.layers[1].weights[0].values.ravel().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kept", [0, 4, 7, 8, 20, 60, 100, 200])
def test_a_file_cut_short_is_refused(tmp_path: Path, kept: int):
    (tmp_path / "a.nn").write_bytes(small_policy().content()[:kept])
    with pytest.raises(PolicyError, match="damaged"):
        read_network(tmp_path / "a.nn")


@pytest.mark.parametrize("surplus", [b"x", bytes(4), bytes(1000)])
def test_a_file_with_bytes_too_many_is_refused(tmp_path: Path, surplus: bytes):
    (tmp_path / "a.nn").write_bytes(small_policy().content() + surplus)
    with pytest.raises(PolicyError, match=f"damaged: {len(surplus):,} bytes too many"):
        read_network(tmp_path / "a.nn")


def test_any_cut_and_any_changed_byte_gives_a_policy_or_one_message(tmp_path: Path):
    content = small_policy().content()
    rng = np.random.default_rng(0)
    file = tmp_path / "a.nn"
    refused = 0
    for at in rng.integers(0, len(content), 300):
        changed = bytearray(content)
        changed[at] = rng.integers(256)
        file.write_bytes(bytes(changed[: len(content) - (at % 3)]))
        try:  # anything but a PolicyError fails the test
            palaestra.load_policy(file).act(np.zeros(2))
        except PolicyError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda writer: setattr(writer, "version", 17), "begins with 17"),
        (lambda writer: writer.layer("x", DENSE, ["nowhere"]), "reads 'nowhere', which no earlier layer writes"),
        (
            lambda writer: (writer.layer("a", LOAD), writer.layer("x", DENSE, ["a"])),
            "reads 'a', which no earlier layer writes",
        ),
        (lambda writer: writer.layer("x", LOAD, tensors={"x": np.array([np.nan])}), "not finite"),
        (lambda writer: writer.data.pop(), "weights are missing"),
    ],
)
def test_a_message_says_what_is_wrong(tmp_path: Path, change, message: str):
    writer = small_policy()
    change(writer)
    with pytest.raises(PolicyError, match=message):
        read_network(writer.write(tmp_path / "a.nn"))


def test_a_count_larger_than_the_file_takes_no_memory(tmp_path: Path):
    (tmp_path / "a.nn").write_bytes(struct.pack("<qi", 16, 2**31 - 1) + bytes(100))
    with pytest.raises(PolicyError, match=r"the number of inputs is 2147483647, and at most [0-9]+ can follow"):
        read_network(tmp_path / "a.nn")


def test_an_input_of_billions_of_numbers_takes_no_memory(tmp_path: Path):
    writer = NNWriter({"vector_observation": (-1, 1, 2**31 - 1, 3)})
    writer.constants()
    with pytest.raises(PolicyError, match=r"damaged: an input's shape is \[-1, 1, 2147483647, 3\]"):
        palaestra.load_policy(writer.write(tmp_path / "a.nn"))


def test_a_missing_file_and_one_of_another_kind_are_told_apart(tmp_path: Path):
    with pytest.raises(PolicyError, match="does not exist"):
        palaestra.load_policy(tmp_path / "none.nn")
    (tmp_path / "b.nn").write_bytes(b"\x08\x04\x12\x07pytorch" * 4)
    with pytest.raises(PolicyError, match="no Barracuda model of version 16"):
        palaestra.load_policy(tmp_path / "b.nn")


def test_weights_of_a_tensor_must_fill_its_shape(tmp_path: Path):
    writer = NNWriter({"vector_observation": (-1, 1, 1, 2)})
    writer.constants()
    content = writer.content().replace(struct.pack("<qii", 0, 4, 1), struct.pack("<qii", 0, 4, 3), 1)
    (tmp_path / "a.nn").write_bytes(content)
    with pytest.raises(PolicyError, match="of shape \\[1, 1, 1, 1\\] has 3 numbers"):
        read_network(tmp_path / "a.nn")
